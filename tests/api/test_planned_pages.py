"""The pages of schedules and alerts that a service serves: what became of planned runs, and what people were told."""

import json
import re

import pytest

from api_server import rows
from browsing import Elements
from payloads import PAYLOADS
from receiver import Receiver

NIGHTLY = {
    "name": "nightly",
    "cron": "30 2 * * *",
    "zone": "Europe/Berlin",
    "job": {"dataset": "answers", "metrics": ["mrr"], "gates": [{"mrr": ">= 0.7"}, {"mrr": ">= 0.9"}]},
}


@pytest.fixture
def planned(served):
    """A dataset whose mrr is 0.75, and a schedule that misses one of its two gates."""
    headers = {"Content-Type": "application/x-ndjson"}
    content = "\n".join(map(json.dumps, rows(4)))
    assert served.http.put("/v1/datasets/answers", content=content, headers=headers).status_code == 201
    answer = served.http.post("/v1/schedules", json=NIGHTLY)
    assert answer.status_code == 201, answer.text
    return served


def run_now(served):
    """Have a run made; returns its job."""
    assert served.http.post("/v1/schedules/nightly/run").status_code == 202
    served.work()
    return served.http.get("/v1/schedules/nightly/runs").json()["runs"][0]["job"]


def text_of(served, address, status=200):
    answer = served.http.get(address)
    assert answer.status_code == status, answer.text
    return answer.text


def test_a_schedule_shows_its_next_times_and_what_became_of_earlier_ones(planned):
    assert "Nothing ran yet" in text_of(planned, "/ui/schedules/nightly")
    job = run_now(planned)
    listed = text_of(planned, "/ui/schedules")
    assert 'href="/ui/schedules/nightly"' in listed
    assert "finished, by hand" in listed
    shown = text_of(planned, "/ui/schedules/nightly")
    assert len(re.findall(r"<li>\d{4}-\d\d-\d\d 02:30</li>", shown)) == 5  # as a clock in Berlin has it
    assert f'href="/ui/jobs/{job}"' in shown
    assert f'href="/ui/runs/{job}"' in shown
    assert '<span class="tag bad">1 of 2 passed</span>' in shown
    planned.http.patch("/v1/schedules/nightly", json={"paused": True})
    assert "ragassay schedule set nightly --resume" in text_of(planned, "/ui/schedules/nightly")


def test_alerts_show_what_happened_and_the_last_try_of_each_webhook(planned):
    with Receiver() as receiver:
        added = planned.http.post("/v1/webhooks", json={"url": f"{receiver.url}/hook?token=s3cr3t"}).json()
        job = run_now(planned)
        planned.work()
    alerts = text_of(planned, "/ui/alerts?kind=gate_missed")
    (notice,) = planned.http.get("/v1/alerts").json()["alerts"]
    assert notice["kind"] == "gate_missed"
    assert f'<a href="/ui/jobs/{job}">gate missed: ' in alerts
    assert 'href="/ui/schedules/nightly"' in alerts
    assert "No alert of this kind" in text_of(planned, "/ui/alerts?kind=regression")
    assert "it answered 204" in alerts
    assert added["secret"] not in alerts
    assert "s3cr3t" not in alerts


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/ui/schedules/none", 404, "none"),
        ("/ui/alerts?kind=none", 422, "kind"),
        ("/ui/alerts?after=none", 422, "none"),
    ],
)
def test_what_can_not_be_shown_is_a_page_that_says_why(served, path, status, said):
    assert said in text_of(served, path, status)


def test_text_of_jobs_and_webhooks_stays_text(planned):
    for n, text in enumerate(PAYLOADS[:64:9]):
        named = {"name": f"plan-{n}", "job": {**NIGHTLY["job"], "name": text}}
        assert planned.http.post("/v1/schedules", json={**NIGHTLY, **named}).status_code == 201
        hook = {"url": f"https://alerts.example/{text}".replace(" ", "+")}
        assert planned.http.post("/v1/webhooks", json=hook).status_code == 201
    assert "&lt;script&gt;alert(1)" in planned.http.get("/ui/alerts").text
    for path in (
        "/ui/schedules",
        "/ui/schedules/plan-0",
        "/ui/alerts",
        *(f"/ui/alerts?kind={one}" for one in PAYLOADS[:64:9]),
    ):
        elements = Elements(planned.http.get(path).text).found
        assert {tag for tag, _ in elements} & {"iframe", "object", "img", "base"} == set(), path
        assert all("src" in attributes for tag, attributes in elements if tag == "script"), path
        names = {name for _, attributes in elements for name in attributes}
        assert not any(name.startswith("on") or name in ("style", "autofocus") for name in names), path
