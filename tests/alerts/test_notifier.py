"""Notifications in the outbox: each sent once, tried again when a receiver fails, never lost; and what people read of them."""

import re
import threading
import time
from pathlib import Path

import pytest

import job_workers
from polling import until
from ragassay.core.errors import Conflict, NotFound
from ragassay.core.http_guard import Allowed
from ragassay.service import counters, notifier
from ragassay.service.notifications import ALERTS, KINDS, Notification
from ragassay.service.notifier import DELIVERIES, MAX_TRIES, RETRY_DELAYS_S, Notifier
from ragassay.service.redis import OUTBOX
from receiver import Receiver

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
(VERIFY,) = (code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def verified" in code)


server, store = job_workers.server, job_workers.store


@pytest.fixture
def alerts(store):
    return Notifier(store, allowed=Allowed.read(["127.0.0.1"]))


@pytest.fixture
def notify(store):
    """What a step of a job does that is worth a notification."""
    return lambda notification: store.redis.rpush(OUTBOX, notification.model_dump_json())


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def webhook(alerts, receiver):
    """A webhook for all alerts, with its secret."""
    return alerts.add_webhook("default", receiver.url)


@pytest.fixture
def make_due(store):
    """What the time does: it goes by until the next try is due."""

    def due():
        waiting = dict(store.redis.zrange(DELIVERIES, 0, -1, withscores=True))
        ahead = min(waiting.values(), default=0) - store.redis.time()[0] * 1000
        if ahead > 0:
            store.redis.zadd(DELIVERIES, {each: score - ahead for each, score in waiting.items()}, xx=True)

    return due


def notice(number=1, **more):
    """A gate that was missed; ``more`` overrides its fields."""
    fields = {
        "id": f"job-{number}:gate_missed:mrr",
        "kind": "gate_missed",
        "project": "default",
        "at": "2026-01-31T14:05:00.000+00:00",
        "job": f"job-{number}",
        "system": "v2",
        "gate": "v2: mrr >= 0.800",
        "metric": "mrr",
        "value": 0.75,
        "threshold": 0.8,
        "cause": "threshold",
    }
    return Notification(**{**fields, **more})


def state(alerts, webhook):
    return alerts.webhook("default", webhook.webhook.id)


def due_in_s(store):
    """Seconds until each delivery is tried again."""
    queue = store.redis.zrange(DELIVERIES, 0, -1, withscores=True)
    return [round(score / 1000 - store.redis.time()[0]) for _, score in queue]


def test_every_webhook_gets_the_kinds_that_it_asks_for_and_no_other_project_s(alerts, notify):
    with Receiver() as all_alerts, Receiver() as ends, Receiver() as others:
        alerts.add_webhook("default", all_alerts.url)
        alerts.add_webhook("default", ends.url, ["job_finished"])
        alerts.add_webhook("elsewhere", others.url)
        notify(notice())
        notify(notice(id="job-1:job_finished", kind="job_finished", rows=3, done=3, failed=0))
        alerts.deliver_due()
        kinds = [[got.document["type"] for got in each.got] for each in (all_alerts, ends, others)]
    assert kinds == [["gate_missed"], ["job_finished"], []]


def test_a_failed_try_is_repeated_for_an_hour_under_the_same_id(alerts, receiver, webhook, make_due, store, notify):
    assert 3600 <= sum(RETRY_DELAYS_S) < 2 * 3600
    receiver.answers += [500, 302, 410, (204, {})]
    notify(notice())
    for number in range(3):
        alerts.deliver_due()
        assert due_in_s(store) == [pytest.approx(RETRY_DELAYS_S[number], abs=2)]
        alerts.deliver_due()
        assert len(receiver.got) == number + 1  # it is not due
        make_due()
    alerts.deliver_due()
    assert len(receiver.got) == 4
    assert len({got.id for got in receiver.got}) == 1
    assert len({got.body for got in receiver.got}) == 1
    assert [got.verified(webhook.secret)["type"] for got in receiver.got] == ["gate_missed"] * 4
    assert (state(alerts, webhook).last_error, due_in_s(store)) == (None, [])


def test_a_notice_that_did_not_arrive_is_seen_on_webhook_and_job_and_the_next_is_sent(
    alerts, receiver, webhook, make_due, caplog, notify, store
):
    receiver.answers += [500] * MAX_TRIES
    store.redis.hset("ra:{job-1}:meta", "status", "finished")
    for _ in range(8):  # that several noticed
        notify(notice(1))
    threads = [threading.Thread(target=alerts.empty_outbox) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(MAX_TRIES):
        alerts.deliver_due()
        make_due()
    assert len(receiver.got) == MAX_TRIES
    assert (state(alerts, webhook).last_error, due_in_s(store)) == ("it answered 500", [])
    undelivered = store.redis.hget("ra:{job-1}:meta", f"undelivered:{webhook.webhook.id}")
    assert undelivered == b"gate_missed: it answered 500"
    assert f"try {MAX_TRIES} of {MAX_TRIES}: it answered 500" in caplog.text
    notify(notice(2))
    alerts.deliver_due()
    assert receiver.got[-1].document["data"]["job"] == "job-2"
    assert state(alerts, webhook).last_status == 204
    counted = {"notifications": {("gate_missed",): 2}, "deliveries": {("delivered",): 1, ("failed",): 1}}
    assert counters.read(store.redis) == counted


def test_what_listens_nowhere_is_a_failed_try_with_its_reason(alerts, webhook, receiver, notify):
    secret_path = "/services/T000/B000/planted-secret"
    added = alerts.add_webhook("default", f"http://127.0.0.1:1{secret_path}?token=planted-secret", form="slack")
    notify(notice())
    alerts.deliver_due()
    shown = alerts.webhook("default", added.webhook.id)
    assert "refused" in shown.last_error.lower()
    assert "planted-secret" not in shown.model_dump_json()
    assert shown.url == "http://127.0.0.1:1/..."


def test_two_beats_do_not_deliver_at_once(alerts, notify, receiver, webhook):
    go = threading.Event()
    receiver.answers.append(lambda: go.wait(20))
    for number in range(3):
        notify(notice(number))
    first = threading.Thread(target=alerts.deliver_due)
    first.start()
    until(lambda: receiver.got)
    alerts.deliver_due()  # the second beat finds the webhook leased, and does not wait
    assert len(receiver.got) == 1
    go.set()
    first.join(30)
    assert [got.document["data"]["job"] for got in receiver.got] == ["job-0", "job-1", "job-2"]
    assert receiver.max_at_once == 1


def test_a_round_ends_in_time_however_many_receivers_are_slow_and_no_webhook_waits_for_ever(
    alerts, receiver, webhook, monkeypatch, notify
):
    monkeypatch.setattr(notifier, "THREADS", 1)
    monkeypatch.setattr(notifier, "TURN_S", 0.5)
    receiver.answers += [lambda: time.sleep(0.8)] * 2
    with Receiver() as other:
        alerts.add_webhook("elsewhere", other.url)
        notify(notice(1))
        notify(notice(2))
        alerts.empty_outbox()
        time.sleep(0.01)  # both are due before the other one's
        notify(notice(3, project="elsewhere"))
        alerts.deliver_due()
        assert len(receiver.got) == 1
        until(lambda: alerts.deliver_due() or other.got)


def test_slack_gets_a_text_whose_names_act_on_nobody(alerts, receiver, notify):
    added = alerts.add_webhook("default", receiver.url, form="slack")
    assert added.secret is None
    notify(notice(gate="<!channel> & v2: mrr >= 0.800"))
    alerts.deliver_due()
    (got,) = receiver.got
    assert got.document == {
        "text": "gate missed: &lt;!channel&gt; &amp; v2: mrr &gt;= 0.800: 0.750\nproject: default\njob: job-1\n"
        "more: ragassay job show job-1, GET /v1/jobs/job-1/gates"
    }
    assert got.id is None


def test_a_webhook_that_is_deleted_gets_nothing_and_leaves_nothing_that_stays(alerts, webhook, receiver, store, notify):
    notify(notice())
    alerts.remove_webhook("default", webhook.webhook.id)
    alerts.deliver_due()
    assert receiver.got == []
    with pytest.raises(NotFound):
        alerts.webhook("default", webhook.webhook.id)
    left = {key for key in store.redis.keys("*") if store.redis.ttl(key) == -1}
    assert left == {b"ra:counters"}


def test_notices_end_by_themselves(alerts, notify, webhook, receiver, store):
    notify(notice())
    alerts.deliver_due()
    names = ("notification:job-1:gate_missed:mrr", "notifications")
    ttls = [store.redis.ttl(f"ra:p:{{default}}:{name}") for name in names]
    assert [round(seconds / 86_400) for seconds in ttls] == [90, 90]
    store.redis.zadd("ra:p:{default}:notifications", {"job-1:gate_missed:mrr": 1})
    notify(notice(2))
    alerts.deliver_due()
    assert store.redis.zrange("ra:p:{default}:notifications", 0, -1) == [b"job-2:gate_missed:mrr"]


def test_a_project_has_so_many_webhooks_and_no_more(alerts, monkeypatch):
    monkeypatch.setattr(notifier, "MAX_WEBHOOKS", 2)
    added = [alerts.add_webhook("default", f"https://h/{n}").webhook.id for n in range(2)]
    assert {each.id for each in alerts.webhooks("default")} == set(added)
    assert alerts.webhook("default", added[0]).kinds == ALERTS
    with pytest.raises(Conflict, match="at most 2"):
        alerts.add_webhook("default", "https://h/3")


def test_names_hold_no_key_of_our_environment_and_act_on_no_terminal(alerts, notify, webhook, receiver, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "planted-key-123")
    notify(notice(system="v2 planted-key-123", gate="\x1b[31m" + "x" * 1000, metric="mrr\nmore"))
    alerts.deliver_due()
    data = receiver.got[0].document["data"]
    assert b"planted-key-123" not in receiver.got[0].body
    assert data["system"] == "v2 ***"
    assert data["metric"] == "mrr more"
    assert "\x1b" not in data["gate"]
    assert len(data["gate"]) == 200


def test_the_end_of_a_job_is_kept_only_where_somebody_asks_for_it(alerts, webhook, receiver, notify):
    finished = notice(id="job-1:job_finished", kind="job_finished")
    notify(finished)
    alerts.deliver_due()
    assert alerts.page("default", kind=None, cursor=None, limit=10).alerts == ()
    alerts.add_webhook("default", receiver.url, ["job_finished"])
    notify(finished)
    alerts.deliver_due()
    assert alerts.page("default", kind="job_finished", cursor=None, limit=10).alerts == (finished,)


DRIFT = {"stream": "shop", "window": "2026-01-31T02", "metric": "faithfulness", "value": 0.7, "baseline": 0.9}
DRIFT |= {"low": -0.3, "high": -0.1, "rows": 60, "count": 2, "job": None, "gate": None}
COUNTED = {"rows": 150, "done": 50, "failed": 2}
JOB = "/v1/jobs/job-1"
ALL = {
    "gate_missed": ({}, f"{JOB}/gates"),
    "regression": ({"gate": "v2: mrr drop <= 0.100", "baseline": 0.85, "threshold": 0.1}, f"{JOB}/gates"),
    "coverage_low": ({"metric": "faithfulness", "threshold": 0.95, "count": 3, "gate": None}, f"{JOB}/report"),
    "budget_reached": (COUNTED, JOB),
    "run_missed": ({"schedule": "nightly", "slot": "2026-01-31T02:00:00Z"}, "/v1/schedules/nightly"),
    "drift": (DRIFT, "/v1/live/streams/shop/windows?kind=hour"),
    "job_finished": (COUNTED, JOB),
    "job_failed": (COUNTED, JOB),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_delivered_once_and_says_where_to_look(alerts, receiver, kind, notify):
    fields, path = ALL[kind]
    added = alerts.add_webhook("default", receiver.url, [kind])
    made = notice(kind=kind, **fields)
    notify(made)
    notify(made)
    alerts.deliver_due()
    (got,) = receiver.got
    document = got.verified(added.secret)
    assert (document["type"], got.headers["content-type"]) == (kind, "application/json")
    assert document["data"] == made.model_dump(exclude_none=True, exclude={"kind", "at"})
    assert made.text.startswith(f"{made.headline}\nproject: default\n")
    assert made.text.endswith(f"GET {path}")


def test_headlines_write_gate_efficiency_as_gates_do():
    figures = {"metric": "gate_efficiency", "value": 0.25, "threshold": 0.5, "baseline": 0.9}
    assert notice(kind="regression", gate="g", **figures).headline == "regression: g: 25 % after 90 %"
    drift = notice(kind="drift", low=-0.7, high=-0.6, **figures).headline
    assert "25 % after 90 % (difference -70 points to -60 points)" in drift


def test_the_page_has_code_that_takes_what_is_ours_and_nothing_else(alerts, notify, receiver, webhook):
    scope = {}
    exec(VERIFY, scope)
    verified = scope["verified"]
    notify(notice())
    alerts.deliver_due()
    (got,) = receiver.got
    assert verified(webhook.secret, got.headers, got.body) == got.document
    old = {**got.headers, "webhook-timestamp": "1769868300"}
    for headers, body in ((got.headers, got.body + b" "), (old, got.body)):
        with pytest.raises(ValueError, match=r"not signed|too old"):
            verified(webhook.secret, headers, body)
