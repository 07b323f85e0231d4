"""A job whose provider hangs never has all workers."""

import pytest

from job_workers import submit
from offline_runs import sample
from ragassay.core.report import Built
from ragassay.core.specification import JobSpec
from ragassay.evaluation.runner import rows_at_once
from ragassay.service import redis as store_module
from ragassay.service.redis import RedisStore


@pytest.fixture
def given_out(make_jobs, store):
    """How many of ten chunks of a job are given out at once, to workers of so many processes."""

    def count(judge, workers):
        for name, processes in workers.items():
            store.heartbeat("worker", f"{name}:1:{processes}", for_s=60)
        job = submit(make_jobs(), 500, judge=judge)
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


@pytest.mark.parametrize(("answer", "provider"), [(None, b"0"), ("extractive", b"0"), ({"model": "a-model"}, b"1")])
def test_create_counts_a_model_that_answers_as_a_provider(make_jobs, store, answer, provider):
    record = store.state(submit(make_jobs(), 1, judge="local")).record
    built = Built(configuration={"answer": answer}, corpus="c", corpus_digest="d", passages=1)
    source = record.systems["default"].model_copy(update={"built": built})
    record = record.model_copy(update={"id": "built", "systems": {"default": source}})
    store.create(record, [sample(0)], {})
    assert store.redis.hget(store.key("built", "meta"), "provider") == provider


def test_the_number_of_processes_is_looked_up_now_and_then_and_not_for_every_claim(given_out, monkeypatch):
    monkeypatch.setattr(store_module, "LOOK_EVERY_S", 1000)
    lookups = []
    monkeypatch.setattr(RedisStore, "processes", lambda self: lookups.append(1) or 3)
    assert (given_out("a-model", {}), len(lookups)) == (2, 1)


@pytest.mark.parametrize(("processes", "messages"), [(0, 4), (1, 2), (2, 3), (3, 4), (40, 4)])
def test_a_job_has_a_message_for_each_process_and_one_that_waits(jobs, queue, store, processes, messages):
    """A small job's message waits behind those of a large one, each of which is a chunk."""
    if processes:
        store.heartbeat("worker", f"a:1:{processes}", for_s=60)
    submit(jobs, 500)
    assert len(queue.sent) == messages


def test_messages_are_as_many_as_the_processes_that_there_are_now(jobs, queue, store, monkeypatch):
    monkeypatch.setattr(store_module, "LOOK_EVERY_S", 0)
    store.heartbeat("worker", "a:1:3", for_s=60)
    job = submit(jobs, 1000)
    store.heartbeat("worker", "b:1:1", for_s=60)
    store.deregister("worker", "a:1:3")
    sent = list(queue.sent)
    for message in sent:  # of four, the two that are too many end
        jobs.work(*message)
    assert [message[1] for message in queue.sent[len(sent) :]] == [0, 1]
    store.heartbeat("worker", "c:1:2", for_s=60)
    jobs.tick()
    assert sorted(message[1] for message in queue.sent[len(sent) + 2 :]) == [2, 3]
    assert jobs.get(job).status == "running"


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        ({"judge": "m"}, 56),  # seven rounds of eight calls
        ({"judge": "m", "batch": 1, "concurrency": 16}, 16),
        ({"judge": "m", "batch": 48}, 48),
        ({"judge": "local"}, 50),
    ],
)
def test_chunks_that_a_model_judges_are_whole_rounds_of_calls(spec, rows):
    assert rows_at_once(JobSpec(**spec)) == rows
