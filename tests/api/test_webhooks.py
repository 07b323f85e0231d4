"""``/v1/webhooks`` and ``/v1/alerts``."""

import pytest

from api_server import problem, rows
from ragassay.service.notifications import ALERTS
from receiver import Receiver


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def added(served, url="https://alerts.example/hook", **more):
    answer = served.http.post("/v1/webhooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return answer


# --- over HTTP ---


def test_a_webhook_is_added_listed_without_its_secret_and_deleted(served):
    made = added(served).json()
    hook = made["webhook"]["id"]
    assert made["secret"].startswith("whsec_")
    assert made["webhook"] == {
        "id": hook,
        "url": "https://alerts.example/hook",
        "kinds": list(ALERTS),
        "format": "standard",
        "created_at": made["webhook"]["created_at"],
        "last_at": None,
        "last_status": None,
        "last_error": None,
    }
    assert served.http.get("/v1/webhooks").json() == {"webhooks": [made["webhook"]]}
    assert served.http.delete(f"/v1/webhooks/{hook}").json() == made["webhook"]
    assert served.http.get("/v1/webhooks").json() == {"webhooks": []}


def test_no_answer_holds_a_secret_but_the_one_that_makes_it(served):
    hook = added(served, "https://h.example/?token=planted").json()["webhook"]["id"]
    text = served.http.get("/v1/webhooks").text + served.http.post(f"/v1/webhooks/{hook}/test").text
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
        ({"url": "https://[::1]/"}, "url the host is not on the public internet"),
        ({"url": "http://2130706434:9188/"}, "url the host is not on the public internet"),
        ({"url": "http://127.2/"}, "url the host is not on the public internet"),
        ({"url": "http://0x7f000002/"}, "url the host is not on the public internet"),
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


def test_a_test_notice_is_delivered_and_the_list_shows_its_outcome(served, receiver):
    made = added(served, receiver.url).json()
    answer = served.http.post(f"/v1/webhooks/{made['webhook']['id']}/test")
    assert (answer.status_code, answer.json()["last_status"]) == (202, None)
    served.work()
    assert receiver.got[0].verified(made["secret"])["type"] == "test"
    (shown,) = served.http.get("/v1/webhooks").json()["webhooks"]
    assert (shown["last_status"], shown["last_error"]) == (204, None)


def test_alerts_are_listed_page_by_page(served, receiver):
    added(served, receiver.url, kinds=["job_finished"])
    jobs = [served.submit(rows(2), metrics=["mrr"])["id"] for _ in range(3)]
    served.work()
    page = served.http.get("/v1/alerts", params={"limit": 2}).json()
    rest = served.http.get("/v1/alerts", params={"limit": 2, "cursor": page["next"]}).json()
    assert [each["job"] for each in (*page["alerts"], *rest["alerts"])] == list(reversed(jobs))
    assert rest["next"] is None
