"""What becomes of jobs that have ended: keys with an end, lists without those that are gone, a retention that changes."""

import pytest

from api_server import serving
from job_workers import finish, submit
from ragassay.service.job_state import DAY_S, Retention
from ragassay.service.redis import PARTIAL_FILE
from ragassay.storage.runs import GATES_FILE, REPORT_FILE


def lives(store, job):
    """Seconds that each key of a job has left; -1 without an end."""
    keys = sorted(store.redis.scan_iter(f"ra:{{{job}}}:*"))
    return {key.decode().split("}:")[1]: store.redis.ttl(key) for key in keys}


@pytest.mark.parametrize("how", ["finished", "cancelled", "failed"])
def test_every_key_of_a_job_that_has_ended_has_an_end(store, queue, jobs, how):
    store.retention = Retention.of_days(results=3, reports=9)
    job = submit(jobs)
    if how == "cancelled":
        jobs.work(queue.sent.pop(0))
        jobs.cancel(job)
        jobs.finalize(job)
    elif how == "failed":
        store.transition(job, "failed", fields={"error": "it can't go on"})
        jobs.tick()
    else:
        finish(jobs, queue, job)
    assert jobs.get(job).status == how
    left = lives(store, job)
    assert all(0 < seconds <= 9 * DAY_S for seconds in left.values()), left
    assert left["meta"] > 3 * DAY_S >= left["inputs"]
    reports = {"meta", REPORT_FILE, PARTIAL_FILE, GATES_FILE}
    assert {name for name, seconds in left.items() if seconds > 3 * DAY_S} <= reports


def test_a_round_of_the_sweeper_takes_out_ids_whose_record_is_long_gone_and_no_others(store, jobs):
    kept = [submit(jobs) for _ in range(3)]
    store.redis.zadd("ra:jobs", {"gone": 1, "later": store.now_ms() - 450 * DAY_S * 1000})
    jobs.tick()
    assert [job for job, _ in store.jobs(before=None, limit=10)] == [*reversed(kept), "later"]


def test_readiness_does_not_look_at_jobs(server, store):
    store.redis.eval("for n = 1, 100000 do redis.call('ZADD', 'ra:jobs', n, string.format('%032x', n)) end", 0)
    store.heartbeat("worker", "host:1:2", for_s=60)
    store.heartbeat("beat", "host:2:1", for_s=60)
    with serving(server.url) as served:
        store.redis.config_resetstat()
        for _ in range(5):
            assert served.http.get("/readyz").status_code == 200
        asked = store.redis.info("commandstats")
        commands = {name.removeprefix("cmdstat_") for name in asked}
    connecting = {"client", "hello", "ping", "config"}
    assert commands <= {"info", "zrangebyscore", "time", "smembers", "zcard", "llen", "hlen", *connecting}
