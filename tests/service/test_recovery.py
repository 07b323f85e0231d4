"""A job whose report can't be made ends; a judge that hangs blocks no other job."""

import time

import orjson
import pytest

from polling import patience, until
from provider import Answer, Provider, good, hang
from service.running import Service, rows

LEASE_S, SWEEP_S = 2, 0.5


def by_model(seen):
    """A provider that hangs for some models and fails for others; the rest is answered, one call a tenth of a second."""
    name = seen.body["model"]
    return hang(seen) if "hangs" in name else Answer(status=500) if "fails" in name else good(seen)


@pytest.fixture(scope="module")
def provider():
    with Provider(then=by_model, latency_s=0.1) as running:
        yield running


@pytest.fixture(scope="module")
def service(provider):
    with Service(api_base=provider.url, lease_s=LEASE_S, sweep_s=SWEEP_S, traced=False) as running:
        running.ready()
        running.finished(running.submit(rows(2)))  # workers import their libraries with the first job
        yield running


def submit_slow(service, name, judge="gpt-4o-mini", count=50):
    """A job that takes five seconds when nothing happens to it."""
    return service.submit(rows(count, name), judge=judge, performance={"cache": False, "concurrency": 1})


def in_work(service, job):
    until(lambda: len(service.settled(job)) > 2, 60, "calls")


def poison_the_gates(service, job):
    """What no request can bring in: the bounds of the body keep it out."""
    with service.redis as connection:
        connection.hset(f"ra:{{{job}}}:meta", "gating", orjson.dumps({"gates": 5}))


def poison_the_record(service, job):
    """As a record that a later version can't read any more."""
    with service.redis as connection:
        record = orjson.loads(connection.hget(f"ra:{{{job}}}:meta", "record"))
        connection.hset(f"ra:{{{job}}}:meta", "record", orjson.dumps({**record, "spec": {"judge": 5}}))


def test_a_job_whose_report_can_not_be_made_fails_with_the_error(service, capsys):
    job = submit_slow(service, "poisoned")
    in_work(service, job)
    poison_the_gates(service, job)
    until(lambda: service.job(job)["status"] == "finalizing", 60, "the end of its rows")
    began = time.monotonic()
    until(lambda: service.job(job)["status"] == "failed", 120, "the end")
    with capsys.disabled():
        print(f"\na report that can't be made: failed after {time.monotonic() - began:.1f} s")
    assert service.job(job)["error"].startswith("the report can't be made: ValidationError: ")
    assert service.redis.hget(f"ra:{{{job}}}:meta", "finalize_failed") == b"3"


def kill_the_children(service):
    service.kill_children()


def test_a_record_that_can_not_be_read_holds_up_no_other_job(service):
    broken, job = sorted(submit_slow(service, name) for name in ("one", "other"))  # the sweeper's order
    in_work(service, job)
    in_work(service, broken)
    poison_the_record(service, broken)
    kill_the_children(service)  # only the sweeper gives their chunks to others
    service.finished(job)
    assert service.answered("GET", f"/v1/jobs/{broken}").status_code == 409
    listed = [entry["id"] for entry in service.answered("GET", "/v1/jobs").json()["jobs"]]
    assert job in listed
    assert broken not in listed


def test_a_small_job_does_not_wait_for_a_judge_that_hangs(service, provider, capsys):
    stuck = service.submit(rows(200, "stuck"), judge="hangs")
    until(lambda: provider.inflight >= 8, 60, "calls that hang")
    began = time.monotonic()
    service.finished(service.submit(rows(2), judge="local", metrics=["mrr"]), within_s=120)
    took = time.monotonic() - began
    with capsys.disabled():
        print(f"\n2 rows beside a job whose provider hangs: {took:.1f} s")
    assert took < patience(10)
    service.answered("POST", f"/v1/jobs/{stuck}/cancel").raise_for_status()
