"""``/v1/webhooks`` and ``/v1/alerts``, over HTTP, from Python and from the command line."""

import pytest

from api_server import problem, rows
from ragassay.notices import ALERTS
from receiver import Receiver

UNKNOWN = "wh_" + "0" * 32


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def added(served, url="https://alerts.example/hook", **more):
    answer = served.http.post("/v1/webhooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return answer


# --- over HTTP ---


def test_a_webhook_is_added_shown_without_its_secret_changed_and_deleted(served):
    answer = added(served)
    made = answer.json()
    hook = made["webhook"]["id"]
    assert answer.headers["location"] == f"/v1/webhooks/{hook}"
    assert made["secret"].startswith("whsec_")
    assert made["webhook"] == {
        "id": hook,
        "url": "https://alerts.example/hook",
        "kinds": list(ALERTS),
        "format": "standard",
        "enabled": True,
        "created_at": made["webhook"]["created_at"],
        "failures": 0,
        "disabled_because": None,
        "last_at": None,
        "last_status": None,
        "last_error": None,
    }
    assert served.http.get(f"/v1/webhooks/{hook}").json() == made["webhook"]
    assert served.http.get("/v1/webhooks").json() == {"webhooks": [made["webhook"]]}
    changed = served.http.patch(f"/v1/webhooks/{hook}", json={"kinds": ["job_failed"], "enabled": False}).json()
    assert (changed["kinds"], changed["enabled"], changed["url"]) == (["job_failed"], False, made["webhook"]["url"])
    assert served.http.patch(f"/v1/webhooks/{hook}", json={}).json() == changed
    assert served.http.delete(f"/v1/webhooks/{hook}").json() == changed
    problem(served.http.get(f"/v1/webhooks/{hook}"), 404)
    assert served.http.get("/v1/webhooks").json() == {"webhooks": []}


def test_no_answer_holds_a_secret_but_those_that_make_one(served):
    secrets = [added(served, f"https://h.example/?token=planted{n}").json()["secret"] for n in range(2)]
    hook = served.http.get("/v1/webhooks").json()["webhooks"][0]["id"]
    rotated = served.http.post(f"/v1/webhooks/{hook}/secret").json()
    assert rotated["secret"] not in secrets
    assert rotated["previous_until"]
    paths = ("", f"/{hook}", f"/{hook}/deliveries")
    text = "".join(served.http.get(f"/v1/webhooks{path}").text for path in paths)
    text += served.http.patch(f"/v1/webhooks/{hook}", json={"enabled": True}).text
    assert "whsec_" not in text
    assert "planted" not in text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "url"),
        ({"url": 7}, "url"),
        ({"url": "nonsense"}, "url its scheme should be https or http"),
        ({"url": "https://h.example/a b"}, "url it is no address"),
        ({"url": "https://user:pw@h.example/"}, "url it holds a user or a password"),
        ({"url": "http://10.0.0.1/"}, "url the host is not on the public internet"),
        ({"url": "http://h.example:25/"}, "url port 25 is refused"),
        ({"url": "https://h.example/" + "x" * 2000}, "url"),
        ({"url": "https://h.example/", "kinds": []}, "kinds"),
        ({"url": "https://h.example/", "kinds": ["gate"]}, "kinds"),
        ({"url": "https://h.example/", "kinds": ["test"]}, "kinds"),
        ({"url": "https://h.example/", "format": "teams"}, "format"),
        ({"url": "https://h.example/", "secret": "whsec_mine"}, "secret"),
    ],
)
def test_what_is_no_webhook_is_refused_with_the_place(served, body, said):
    document = problem(served.http.post("/v1/webhooks", json=body), 422)
    assert said in f"{document.get('where')} {document['detail']}"
    assert served.http.get("/v1/webhooks").json() == {"webhooks": []}


def test_a_change_to_what_is_no_address_is_refused(served):
    hook = added(served).json()["webhook"]["id"]
    for url in ("x", "http://169.254.169.254/"):
        problem(served.http.patch(f"/v1/webhooks/{hook}", json={"url": url}), 422)
    problem(served.http.patch(f"/v1/webhooks/{hook}", json={"format": "slack"}), 422)


def test_an_unknown_webhook_is_a_404_on_every_route(served):
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/deliveries"),
        ("POST", "/secret"),
        ("POST", "/test"),
        ("POST", "/replay?delivery=msg_1"),
        ("POST", "/replay?failed_since=2026-01-31T14:05:00Z"),
    ):
        problem(served.http.request(method, f"/v1/webhooks/{UNKNOWN}{path}"), 404)
    problem(served.http.patch(f"/v1/webhooks/{UNKNOWN}", json={"enabled": True}), 404)


@pytest.mark.parametrize(
    "query",
    ["", "?delivery=a&failed_since=2026-01-31T14:05:00Z", "?failed_since=yesterday", "?failed_since=0.5", "?x=1"],
)
def test_a_replay_names_one_delivery_or_a_time(served, query):
    hook = added(served).json()["webhook"]["id"]
    problem(served.http.post(f"/v1/webhooks/{hook}/replay{query}"), 422)


def test_deliveries_are_listed_page_by_page_and_replayed(served, receiver):
    made = added(served, receiver.url, kinds=["job_finished"]).json()
    jobs = [served.submit(rows(2), metrics=["mrr"])["id"] for _ in range(3)]
    served.work()
    hook = f"/v1/webhooks/{made['webhook']['id']}"
    page = served.http.get(f"{hook}/deliveries", params={"limit": 2}).json()
    rest = served.http.get(f"{hook}/deliveries", params={"limit": 2, "cursor": page["next"]}).json()
    listed = [*page["deliveries"], *rest["deliveries"]]
    assert [each["notice"] for each in listed] == [f"{job}:job_finished" for job in reversed(jobs)]
    assert {each["status"] for each in listed} == {"delivered"}
    assert rest["next"] is None
    again = served.http.post(f"{hook}/replay", params={"delivery": listed[0]["id"]}).json()
    assert again == {"deliveries": [listed[0]["id"]]}
    served.work()
    assert receiver.got[-1].verified(made["secret"])["data"]["job"] == jobs[-1]
    alerts = served.http.get("/v1/alerts").json()["alerts"]
    assert [each["job"] for each in alerts] == list(reversed(jobs))


def test_alerts_are_none_without_a_reason_and_unknown_parameters_are_refused(served):
    assert served.http.get("/v1/alerts").json() == {"alerts": [], "next": None}
    for query in ("kind=all", "limit=0", "cursor=nothing", "sort=kind"):
        problem(served.http.get(f"/v1/alerts?{query}"), 422)
