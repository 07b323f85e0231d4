"""``/v1/schedules`` and their pages: planned, changed, run."""

import json
import re

import orjson
import pytest

from api_server import problem, rows
from browsing import Elements
from payloads import PAYLOADS
from ragassay.api import schedules
from ragassay.core.schedules import ScheduleChange
from receiver import Receiver

GATES = [{"mrr": ">= 0.7"}]
PASSED = {"baseline": "last-passed", "gates": [*GATES, {"metric": "mrr", "max_drop": 0.01}]}


@pytest.fixture
def planned(served):
    """The API with a dataset of four rows; every second one has its document in second place, so that mrr is 0.75."""
    upload(served, rows(4))
    return served


def upload(served, samples):
    content, headers = "\n".join(map(json.dumps, samples)), {"Content-Type": "application/x-ndjson"}
    assert served.http.put("/v1/datasets/answers", content=content, headers=headers).status_code == 201


def body(name="nightly", cron="30 2 * * *", **more):
    job = {"dataset": "answers", "metrics": ["mrr"], **more.pop("job", {})}
    return {"name": name, "cron": cron, "job": job, **more}


def create(served, **more):
    answer = served.http.post("/v1/schedules", json=body(**more))
    assert answer.status_code == 201, answer.text
    return answer.json()


def history(served, name="nightly"):
    return served.http.get(f"/v1/schedules/{name}/runs").json()["runs"]


def run_now(served, name="nightly"):
    """A run that somebody asks for, to its end."""
    asked = served.http.post(f"/v1/schedules/{name}/run")
    assert asked.status_code == 202, asked.text
    served.work()
    return history(served, name)[0]


def test_a_schedule_shows_what_it_is_and_its_next_times(planned):
    answer = planned.http.post("/v1/schedules", json=body(zone="Europe/Berlin"))
    made = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/schedules/nightly")
    assert made == planned.http.get("/v1/schedules/nightly").json()
    assert (made["catch_up"], made["paused"], made["last"], len(made["next"])) == ("once", False, None, 5)
    assert planned.http.get("/v1/schedules").json() == {"schedules": [made], "next": None}


def test_drops_are_measured_from_the_newest_run_that_passed(planned):
    create(planned, job=PASSED)
    first = run_now(planned)
    assert (first["gates_passed"], first["gates_missed"]) == (1, 0)
    assert first["reason"] == "no run on these questions has passed yet, so nothing was compared with a baseline"
    second = run_now(planned)
    assert (second["gates_passed"], second["gates_missed"], second["reason"]) == (2, 0, None)
    upload(planned, [{**row, "retrieved_doc_ids": ["x", "y", "z", row["relevant_doc_ids"][0]]} for row in rows(4)])
    third, fourth = run_now(planned), run_now(planned)
    assert (third["gates_missed"], fourth["gates_missed"]) == (2, 2)
    assert planned.http.get(f"/v1/jobs/{fourth['job']}/gates").json()["baseline"] == second["job"]
    upload(planned, [{**row, "query": f"{row['query']} And else?"} for row in rows(4)])
    fifth = run_now(planned)
    assert (fifth["gates_passed"], fifth["gates_missed"], fifth["reason"]) == (1, 0, first["reason"])


def test_last_passed_is_the_state_of_a_job_after_its_retry(planned):
    create(planned, job=PASSED)
    first, second = run_now(planned), run_now(planned)
    planned.queue.planned.tick()  # writes down that they finished
    store = planned.jobs.store
    report = planned.http.get(f"/v1/jobs/{second['job']}/gates").json()
    for result in report["results"]:
        result["passed"] = False
    store.redis.set(store.key(second["job"], "gates.json"), orjson.dumps(report))  # as a retry that misses them does
    assert history(planned)[0]["gates_missed"] == 2
    third = run_now(planned)
    assert planned.http.get(f"/v1/jobs/{third['job']}/gates").json()["baseline"] == first["job"]


def test_a_change_is_refused_if_the_schedule_changed_since_it_was_read(planned):
    create(planned)
    read = {"If-Match": planned.http.get("/v1/schedules/nightly").headers["etag"]}
    other = planned.http.patch("/v1/schedules/nightly", json={"paused": True}, headers=read)
    late = planned.http.patch("/v1/schedules/nightly", json={"paused": False}, headers=read)
    assert (other.status_code, problem(late, 412)["where"]) == (200, "If-Match")
    newest = {"If-Match": other.headers["etag"]}
    assert planned.http.patch("/v1/schedules/nightly", json={"paused": False}, headers=newest).status_code == 200


def test_change_schedule_loses_no_change_made_during_its_check(planned, monkeypatch):
    create(planned)
    check = schedules._check

    async def slow(*arguments):
        await check(*arguments)
        known, new = planned.queue.planned.changed("nightly", ScheduleChange(paused=True))
        planned.queue.planned.change(known, new)

    monkeypatch.setattr(schedules, "_check", slow)
    problem(planned.http.patch("/v1/schedules/nightly", json={"cron": "0 5 * * *"}), 409)
    now = planned.http.get("/v1/schedules/nightly").json()
    assert (now["paused"], now["cron"]) == (True, body()["cron"])


@pytest.mark.parametrize(
    ("given", "status", "what"),
    [
        ({"cron": "30 2 * *"}, 422, "is no cron expression: it has 4 fields instead of 5"),
        ({"job": {"samples": rows(1)}}, 422, "a schedule has no rows of its own"),
        ({"job": {"dataset": None}}, 422, "name a stored dataset"),
        ({"job": {"dataset": "nothing"}}, 404, "nothing"),
        ({"name": "taken"}, 409, "there is a schedule 'taken' already"),
    ],
)
def test_what_could_not_run_is_refused_at_once(planned, given, status, what):
    create(planned, name="taken")
    assert what in problem(planned.http.post("/v1/schedules", json=body(**given)), status)["detail"]
    assert [one["name"] for one in planned.http.get("/v1/schedules").json()["schedules"]] == ["taken"]


# --- pages ---


def text_of(served, address, status=200):
    answer = served.http.get(address)
    assert answer.status_code == status, answer.text
    return answer.text


def test_pages_show_the_next_times_of_a_schedule_and_what_became_of_earlier_ones(planned):
    create(planned, zone="Europe/Berlin", job={"gates": [{"mrr": ">= 0.7"}, {"mrr": ">= 0.9"}]})
    assert "Nothing ran yet" in text_of(planned, "/ui/schedules/nightly")
    job = run_now(planned)["job"]
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


def test_pages_show_alerts_and_the_last_try_of_each_webhook(planned):
    create(planned, job={"gates": [{"mrr": ">= 0.9"}]})
    with Receiver() as receiver:
        added = planned.http.post("/v1/webhooks", json={"url": f"{receiver.url}/hook?token=s3cr3t"}).json()
        job = run_now(planned)["job"]
        planned.work()
    alerts = text_of(planned, "/ui/alerts?kind=gate_missed")
    assert f'<a href="/ui/jobs/{job}">gate missed: ' in alerts
    assert 'href="/ui/schedules/nightly"' in alerts
    assert "No alert of this kind" in text_of(planned, "/ui/alerts?kind=regression")
    assert "it answered 204" in alerts
    assert added["secret"] not in alerts
    assert "s3cr3t" not in alerts


def test_text_of_schedules_and_webhooks_stays_text_on_their_pages(planned):
    for n, text in enumerate(PAYLOADS[:64:9]):
        create(planned, name=f"plan-{n}", job={"name": text})
        hook = {"url": f"https://alerts.example/{text}".replace(" ", "+")}
        assert planned.http.post("/v1/webhooks", json=hook).status_code == 201
    assert "&lt;script&gt;alert(1)" in text_of(planned, "/ui/alerts")
    for path in ("/ui/schedules", "/ui/schedules/plan-0", "/ui/alerts", f"/ui/alerts?kind={PAYLOADS[0]}"):
        for tag, attributes in Elements(planned.http.get(path).text).found:
            assert tag not in ("iframe", "object", "img", "base"), path
            assert tag != "script" or "src" in attributes, path
            assert not [name for name in attributes if name.startswith("on") or name in ("style", "autofocus")], path
