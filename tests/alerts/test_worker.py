"""Deliveries by real workers: one that is killed in the middle loses nothing, and a slow receiver holds no job up."""

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

from offline_runs import sample, source_of
from polling import patience, until
from ragassay.core.settings import Settings
from ragassay.core.specification import JobSpec
from ragassay.evaluation import plan
from ragassay.service import wiring
from ragassay.service.notices import Notice
from ragassay_workers.periodic import Periodic
from redis_server import RedisServer
from service.running import environment

SET_UP = {"outgoing_allowed": "127.0.0.1", "preload": "nothing"}


@pytest.fixture(scope="module")
def server():
    with RedisServer() as running:
        yield running


@pytest.fixture
def jobs(server, tmp_path):
    """The use cases as the API has them, and the sweeper beside them."""
    of_redis = {"state_url": server.url, "broker_url": server.url}
    jobs = wiring.jobs_for(Settings(**of_redis, home=tmp_path, outgoing_allowed="127.0.0.1"))
    jobs.store.redis.flushall()
    sweeper = Periodic("the outbox's round", 0.2, jobs.alerts.wake)
    sweeper.start()
    yield jobs
    sweeper.stop(wait_s=10)
    jobs.store.redis.close()


@contextmanager
def worker(server, tmp_path, *options, processes=1):
    """``ragassay worker``; yields its process."""
    of_redis = {"state_url": server.url, "broker_url": server.url, "home": tmp_path}
    command = [sys.executable, "-m", "ragassay.cli", "worker", "--concurrency", str(processes), *options]
    with (tmp_path / "log").open("a") as log:
        running = psutil.Popen(command, env=environment(**of_redis, **SET_UP), stdout=log, stderr=log)
    try:
        yield running
    finally:
        for process in (*running.children(recursive=True), running):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        running.wait()


def notice(number):
    fields = {"kind": "gate_missed", "project": "default", "at": "2026-01-31T14:05:00Z", "job": f"job-{number}"}
    return Notice(id=f"notice-{number}", **fields)


def test_a_worker_that_is_killed_in_a_delivery_loses_no_notice(server, jobs, receiver, tmp_path):
    hook = jobs.alerts.webhooks("default").add(receiver.url)
    stuck = threading.Event()
    receiver.answers.append(lambda: stuck.wait(60))
    for number in range(3):
        jobs.alerts.tell(notice(number))
    with worker(server, tmp_path) as first:
        until(lambda: receiver.got, patience(30), "the first try")
        for process in (*first.children(recursive=True), first):
            os.kill(process.pid, signal.SIGKILL)
    jobs.store.redis.delete(f"ra:p:{{default}}:lease:{hook.webhook.id}")  # what a minute does
    with worker(server, tmp_path):
        until(lambda: len(receiver.got) == 4, patience(30), "the deliveries")
        shown = jobs.alerts.webhooks("default").get
        until(lambda: shown(hook.webhook.id).waiting == 0, patience(30), "the last answer")
    stuck.set()
    sent = [got.verified(hook.secret)["data"]["job"] for got in receiver.got]
    assert sent == ["job-0", "job-0", "job-1", "job-2"]
    assert receiver.got[0].id == receiver.got[1].id  # by which a receiver knows that it has that one


def test_a_job_is_done_while_a_receiver_does_not_answer(server, jobs, receiver, tmp_path):
    jobs.alerts.webhooks("default").add(receiver.url)
    stuck = threading.Event()
    receiver.answers += [lambda: stuck.wait(60)] * 5
    try:
        with worker(server, tmp_path, processes=2):
            for number in range(5):
                jobs.alerts.tell(notice(number))
            until(lambda: receiver.got, patience(30), "the first try")
            rows = [sample(n) for n in range(120)]
            job, _ = jobs.submit(JobSpec(metrics=("mrr",)), plan.recorded(source_of(rows), rows))
            began = time.monotonic()
            until(lambda: jobs.get(job.id).status == "finished", patience(30), "the job")
            print(f"the job took {time.monotonic() - began:.1f} s beside a receiver that does not answer")
            assert receiver.most_at_once == 1
    finally:
        stuck.set()


def test_a_worker_takes_only_the_queues_that_it_is_told(server, jobs, receiver, tmp_path):
    hook = jobs.alerts.webhooks("default").add(receiver.url)
    rows = [sample(n) for n in range(3)]
    job, _ = jobs.submit(JobSpec(metrics=("mrr",)), plan.recorded(source_of(rows), rows))
    with worker(server, tmp_path, "--queue", "notices"):
        jobs.alerts.tell(notice(1))
        until(lambda: receiver.got, patience(30), "the notice")
        assert receiver.got[0].verified(hook.secret)["type"] == "gate_missed"
        assert jobs.get(job.id).status == "queued"
        assert jobs.store.processes() == 0
