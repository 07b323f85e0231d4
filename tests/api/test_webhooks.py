"""``/v1/webhooks`` and ``/v1/alerts``, over HTTP, from Python and from the command line."""

import asyncio
import json

import pytest

from api_server import problem, rows
from ragassay import AsyncClient, Client
from ragassay.errors import AssayError
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


# --- from Python ---


def test_a_client_has_all_of_it(served, receiver):
    with Client(served.url) as client:
        made = client.webhooks.add(receiver.url, ["gate_missed"])
        hook = made.webhook.id
        assert made.secret not in repr(made)
        assert client.webhooks.list() == (client.webhooks.show(hook),)
        job = served.submit(rows(4), metrics=["mrr"], gates=[{"mrr": ">= 2"}])["id"]
        receiver.answers += [500]
        served.work()
        assert [(alert.kind, alert.job) for alert in client.alerts.list()] == [("gate_missed", job)]
        assert [*client.alerts.list("regression")] == []
        (delivery,) = client.webhooks.deliveries(hook)
        assert (delivery.status, delivery.tries) == ("waiting", 1)
        assert client.webhooks.replay(hook, delivery.id) == (delivery.id,)
        served.work()
        assert receiver.got[-1].verified(made.secret)["type"] == "gate_missed"
        assert client.webhooks.replay(hook, failed_since="2026-01-31T14:05:00Z") == ()
        tried = client.webhooks.test(hook)
        rotated = client.webhooks.rotate(hook)
        served.work()
        assert receiver.got[-1].id == tried
        assert receiver.got[-1].verified(rotated.secret)["type"] == "test"
        assert client.webhooks.change(hook, enabled=False).enabled is False
        assert client.webhooks.delete(hook).id == hook
        with pytest.raises(AssayError, match="there is no webhook"):
            client.webhooks.show(hook)


def test_an_event_loop_has_all_of_it_too(served, receiver):
    async def use():
        async with AsyncClient(served.url) as client:
            made = await client.webhooks.add(receiver.url, ["gate_missed"])
            hook = made.webhook.id
            job = served.submit(rows(4), metrics=["mrr"], gates=[{"mrr": ">= 2"}])["id"]
            await asyncio.to_thread(served.work)
            assert [alert.job async for alert in client.alerts.list()] == [job]
            (delivery,) = [each async for each in client.webhooks.deliveries(hook)]
            assert await client.webhooks.replay(hook, delivery.id) == (delivery.id,)
            assert (await client.webhooks.test(hook)).startswith("msg_")
            assert (await client.webhooks.rotate(hook)).secret != made.secret
            assert (await client.webhooks.change(hook, kinds=["job_failed"])).kinds == ("job_failed",)
            assert await client.webhooks.list() == (await client.webhooks.show(hook),)
            assert (await client.webhooks.delete(hook)).id == hook

    asyncio.run(use())


# --- on the command line ---


def test_the_commands_add_try_list_change_and_delete_a_webhook(served, cli, receiver):
    code, out, err = cli("webhook", "add", receiver.url, "--kind", "gate_missed", "--kind", "job_failed")
    assert (code, "not shown again" in err) == (0, True)
    hook, secret = out.split()
    code, out, _ = cli("webhook", "test", hook)
    served.work()
    (got,) = receiver.got
    assert (got.id, got.verified(secret)["type"]) == (out.strip(), "test")
    code, out, _ = cli("webhook", "list")
    assert out.startswith(f"{hook}  {receiver.url}  standard  enabled  gate_missed, job_failed; last try 20")
    assert out.endswith(": it answered 204\n")
    assert json.loads(cli("webhook", "list", "--json")[1])[0]["id"] == hook
    code, out, _ = cli("webhook", "set", hook, "--disable")
    assert "disabled (by hand)" in out
    assert cli("webhook", "set", hook)[0] == 2
    code, out, err = cli("webhook", "rotate", hook)
    assert (out.split()[1] != secret, "the one before signs until 20" in err) == (True, True)
    assert cli("webhook", "delete", hook)[0] == 0
    assert cli("webhook", "list") == (0, "", "")
    code, _, err = cli("webhook", "test", hook)
    assert (code, "there is no webhook" in err) == (2, True)


def test_the_commands_show_deliveries_and_alerts_and_send_again(served, cli, receiver):
    hook = json.loads(cli("webhook", "add", receiver.url, "--json")[1])["webhook"]["id"]
    receiver.answers.append(500)
    job = served.submit(rows(4), metrics=["mrr"], gates=[{"mrr": ">= 2"}])["id"]
    served.work()
    _, out, _ = cli("webhook", "deliveries", hook)
    assert "gate_missed  waiting after 1 try: it answered 500, next try at 20" in out
    delivery = json.loads(cli("webhook", "deliveries", hook, "--json")[1])[0]["id"]
    assert cli("webhook", "replay", hook, delivery)[1] == f"{delivery}\n"
    served.work()
    assert "delivered after 1 try: it answered 204" in cli("webhook", "deliveries", hook)[1]
    assert cli("webhook", "replay", hook, "--failed-since", "2026-01-31T14:05") == (0, "", "")
    _, out, _ = cli("alerts")
    assert out.endswith(f"  gate missed: default: mrr >= 2.000: 0.750  (job {job})\n")
    assert json.loads(cli("alerts", "--kind", "gate_missed", "--json")[1])[0]["job"] == job
    assert cli("alerts", "--kind", "regression") == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("alerts", "--kind", "gates"), "did you mean gate_missed"),
        (("webhook", "add", "https://h.example/", "--kind", "drift"), "judge_drift"),
        (("webhook", "add", "nonsense"), "url: its scheme should be https or http"),
        (("webhook", "replay", "wh_1"), "name a DELIVERY"),
        (("webhook", "replay", "wh_1", "--failed-since", "yesterday"), "is no time"),
        (("worker", "--queue", "chunk"), "did you mean chunks"),
    ],
)
def test_what_the_commands_can_not_do_is_one_line(served, cli, arguments, said):
    code, _, err = cli(*arguments)
    assert (code, said in err, err.count("\n")) == (2, True, 1)
