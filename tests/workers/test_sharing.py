"""A job whose provider hangs never has all workers."""

import pytest

from job_workers import submit


@pytest.fixture
def given_out(make_jobs, store):
    """How many of ten chunks of a job are given out at once, to workers of so many processes."""

    def count(judge, workers):
        for name, processes in workers.items():
            store.heartbeat("worker", f"{name}:1:{processes}", for_s=60)
        job = submit(make_jobs(), 500, judges=(judge,))
        return sum(store.claim(job) is not None for _ in range(11))

    return count


@pytest.mark.parametrize(
    ("judge", "workers", "chunks"),
    [
        ("a-model", {"a": 3}, 2),
        ("a-model", {"a": 3, "b": 4}, 6),
        ("a-model", {"a": 1}, 1),
        ("a-model", {}, 9),  # of 56 rows; nobody sends a heartbeat: no limit is known
        ("local", {"a": 3}, 10),
    ],
)
def test_a_job_that_asks_a_provider_leaves_one_process_to_the_others(given_out, judge, workers, chunks):
    assert given_out(judge, workers) == chunks


@pytest.mark.parametrize(("processes", "messages"), [(0, 4), (1, 2), (2, 3), (3, 4), (40, 4)])
def test_a_job_has_a_message_for_each_process_and_one_that_waits(jobs, queue, store, processes, messages):
    """A small job's message waits behind those of a large one, each of which is a chunk."""
    if processes:
        store.heartbeat("worker", f"a:1:{processes}", for_s=60)
    submit(jobs, 500)
    assert len(queue.sent) == messages
