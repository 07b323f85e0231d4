"""``/v1/webhooks`` and ``/v1/alerts``."""

import pytest

from api_server import problem
from ragassay.service.notifications import ALERTS
from receiver import Receiver


def added(served, url="https://alerts.example/hook?token=planted", **more):
    answer = served.http.post("/v1/webhooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_webhook_is_added_listed_without_its_secrets_and_deleted(served):
    made = added(served)
    hook = made["webhook"]["id"]
    assert made["secret"].startswith("whsec_")
    assert made["webhook"] == {
        "id": hook,
        "url": "https://alerts.example/hook?...",
        "kinds": list(ALERTS),
        "format": "standard",
        "created_at": made["webhook"]["created_at"],
        **dict.fromkeys(("last_at", "last_status", "last_error")),
    }
    assert served.http.get("/v1/webhooks").json() == {"webhooks": [made["webhook"]], "next": None}
    assert served.http.post(f"/v1/webhooks/{hook}/test").json() == made["webhook"]
    assert served.http.delete(f"/v1/webhooks/{hook}").json() == made["webhook"]
    assert served.http.get("/v1/webhooks").json() == {"webhooks": [], "next": None}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"url": "http://10.0.0.1/"}, "url the host is not on the public internet"),
        ({"url": "https://h.example/", "kinds": []}, "kinds"),
        ({"url": "https://h.example/", "secret": "whsec_mine"}, "secret"),
    ],
)
def test_what_is_no_webhook_is_refused_with_the_place(served, body, said):
    document = problem(served.http.post("/v1/webhooks", json=body), 422)
    assert said in f"{document.get('where')} {document['detail']}"
    assert served.http.get("/v1/webhooks").json() == {"webhooks": [], "next": None}


def test_a_test_is_delivered_and_the_list_shows_its_outcome(served):
    with Receiver() as receiver:
        made = added(served, receiver.url)
        assert served.http.post(f"/v1/webhooks/{made['webhook']['id']}/test").status_code == 202
        served.work()
        assert receiver.got[0].verified(made["secret"])["type"] == "test"
    (shown,) = served.http.get("/v1/webhooks").json()["webhooks"]
    assert (shown["last_status"], shown["last_error"]) == (204, None)
