"""Kill -9 of everything that works on a job, in the middle of it; the report must not tell."""

import os
import signal
import time

import psutil
import pytest

from offline_runs import without_times
from polling import until
from service.chaos import StopMonitor, stamping_provider
from service.running import Service, rows

ROWS = 200
IN_FLIGHT = 8  # judge calls at once of one job in one process


@pytest.fixture(scope="module")
def provider():
    with stamping_provider(latency_s=0.15) as running:
        yield running


@pytest.fixture(scope="module")
def service(provider):
    with Service(api_base=provider.url, env={"OPENAI_API_KEY": "key"}) as running:
        yield running.ready()


@pytest.fixture(scope="module")
def calm(service):
    """The report of the same rows when nothing happens."""
    return service.finished(service.submit(rows(ROWS), performance={"cache": False}))


def children(process):
    return [child for child in process.children() if child.is_running()]


def kill_a_child(service):
    os.kill(children(service.part("celery"))[0].pid, signal.SIGKILL)
    return 1


def kill_the_parent(service):
    """Its children die with it: two processes with calls in flight."""
    os.kill(service.part("celery").pid, signal.SIGKILL)
    return 2


def kill_the_tree(service):
    os.killpg(service.part("celery").pid, signal.SIGKILL)
    return 2


def kill_redis(service):
    """Replies that come in while it is away wait for it; none is lost."""
    os.kill(service.part("redis-server").pid, signal.SIGKILL)
    return 0


@pytest.mark.parametrize("hurt", [kill_a_child, kill_the_parent, kill_the_tree, kill_redis])
def test_a_kill_in_the_middle_of_a_job_loses_nothing_and_pays_for_no_settled_call_again(
    service, provider, calm, hurt, capsys
):
    before = len(provider.log)
    job = service.submit(rows(ROWS), performance={"cache": False})
    watch = StopMonitor(service, provider, job)
    with watch.looking():
        until(lambda: len(provider.log) - before > ROWS // 4, 30, "a quarter of the calls")
        processes = hurt(service)
        hurt_at = time.monotonic()
        report = service.finished(job)
        took = time.monotonic() - hurt_at
    sent = [seen.prompt_hash for seen in provider.log[before:]]
    repeated = len(sent) - len(set(sent))
    with capsys.disabled():
        print(f"\n{hurt.__name__}: recovered and finished in {took:.1f} s, {repeated} of {ROWS} calls were made again")
    results = report["systems"]["default"]["results"]
    assert [result["query_id"] for result in results] == [f"thing-{n}" for n in range(ROWS)]
    assert without_times(report) == without_times(calm)
    assert watch.most_settled > ROWS // 8, "the watch saw too little to say anything"
    assert watch.repeated() == set()
    assert len(set(sent)) == ROWS
    assert repeated <= processes * IN_FLIGHT


def test_a_finished_report_stays_as_it_is_when_its_finalize_is_delivered_again(service, calm):
    job = service.submit(rows(10), performance={"cache": False})
    service.finished(job)
    first = service.client.get(f"/v1/jobs/{job}/report").content
    ended = service.job(job)["ended_at"]
    from ragassay.queue import CeleryQueue

    queue = CeleryQueue(f"unix://{service.data}/redis/redis.sock")
    queue.finalize(job)
    queue.enqueue(job, 0, "stale")
    other = service.submit(rows(10), performance={"cache": False})
    service.finished(other)
    assert service.client.get(f"/v1/jobs/{job}/report").content == first
    assert service.job(job)["ended_at"] == ended


def test_nothing_of_a_killed_worker_is_left(service, calm):
    old = service.part("celery")
    family = [old, *old.children(recursive=True)]
    os.kill(old.pid, signal.SIGKILL)
    until(
        lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family),
        30,
        "its children's end",
    )
    until(lambda: "worker stopped unexpectedly" in "\n".join(service.warnings), 30, "a line that says so")
    until(lambda: service.part("celery").pid != old.pid, 60, "another worker")
