"""A real Redis, jobs in it, and a queue that remembers what it was given."""

import pytest

import job_workers
from offline_runs import FakeRuntime, ScriptedJudge
from ragassay.service.jobs import Jobs

server, store, queue = job_workers.server, job_workers.store, job_workers.queue


@pytest.fixture
def judge():
    """What the workers of ``jobs`` judge with, unless a file has another."""
    return ScriptedJudge()


@pytest.fixture
def jobs(make_jobs, judge):
    return make_jobs(judge)


@pytest.fixture
def make_jobs(store, queue):
    made = []

    def jobs(judge=None, error=None):
        made.append(Jobs(store, queue, FakeRuntime(judge, error)))
        return made[-1]

    yield jobs
    for each in made:
        each.close()
