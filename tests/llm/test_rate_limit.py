"""Requests and tokens per minute: evenly spaced, over all calls of a process, or of all workers by way of Redis."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import provider as play
from job_workers import RecordingQueue, deliver, submit
from judge_replies import sample
from llm_calls import HELLO, ask, llm
from provider import Provider
from ragassay.core.eval_config import RunConfig
from ragassay.core.settings import Settings
from ragassay.evaluation import runtime
from ragassay.llm import LocalSpacing, RateLimit
from ragassay.llm.journal import MemoryJournal
from ragassay.service import wiring
from ragassay.service.projects import ProjectRedis
from ragassay.service.redis_spacing import RedisSpacing
from redis_server import RedisServer


@pytest.fixture(scope="module")
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["process", "redis"])
def spacing(request, redis):
    if request.param == "process":
        yield LocalSpacing()
        return
    store = ProjectRedis(redis.url)
    store.redis.flushall()
    run, store.threads = (
        store.run,
        ThreadPoolExecutor(1),
    )  # so that corrections, which are not waited for, keep their place
    store.run = lambda *script: run(*script) and run(*script)  # sent again, as after a lost answer: it changes nothing
    yield RedisSpacing(store)
    store.threads.shutdown()
    store.redis.close()


class Noting(LocalSpacing):
    """Keeps what was asked of it."""

    def __init__(self):
        super().__init__()
        self.taken, self.corrected = [], []

    async def wait_s(self, line, request_s, tokens_s):
        self.taken.append(tokens_s)
        return await super().wait_s(line, request_s, tokens_s)

    def correct(self, line, tokens_s):
        self.corrected.append(tokens_s)
        super().correct(line, tokens_s)


def test_a_line_hands_out_moments_that_are_as_far_apart_as_requests_and_tokens_need(spacing):
    def wait_s(request_s, tokens_s, line="a"):
        return asyncio.run(spacing.wait_s(line, request_s, tokens_s))

    assert wait_s(10, 0) == 0
    assert wait_s(10, 25) == pytest.approx(10, abs=5)
    assert wait_s(10, 0, "another") == 0
    assert wait_s(10, 0) == pytest.approx(35, abs=5)  # 10 + 25: the tokens of the call before take longer
    assert wait_s(10, 40) == pytest.approx(45, abs=5)
    spacing.correct("a", -39)  # they were fewer: now the requests decide
    assert wait_s(10, 40) == pytest.approx(55, abs=5)
    spacing.correct("a", 20)
    assert wait_s(10, 0) == pytest.approx(115, abs=5)


def test_calls_come_no_faster_than_the_limit_however_many_may_be_in_flight():
    async def at_once(model):
        await asyncio.gather(*(ask(model, name=f"c{n}") for n in range(6)))

    with Provider(then=HELLO) as provider:
        model = llm(provider, concurrency=6, limit=RateLimit(requests=200))
        model.warm_up()
        began = time.monotonic()
        asyncio.run(at_once(model))
    for n, seen in enumerate(provider.log):
        assert seen.t >= began + 0.3 * n


def test_tokens_count_as_what_a_call_may_take_until_its_bill_comes():
    noted = Noting()
    limit = RateLimit(tokens=60_000, spacing=noted)  # a token takes a millisecond
    with Provider([play.status(400), HELLO]) as provider:
        asked = llm(provider, limit=limit)
        with pytest.raises(Exception, match="refused the request"):
            asyncio.run(ask(asked, name="c1"))
        reply = asyncio.run(ask(asked, name="c2"))
    refused, answered = noted.taken
    assert refused == answered > 0.05  # 50 of the reply, and those of the prompt
    billed = (reply.usage.input_tokens + reply.usage.output_tokens) / 1000
    assert noted.corrected == [-refused, pytest.approx(billed - answered)]


@pytest.mark.parametrize(
    ("spec", "settings"),
    [({"requests_per_minute": 600}, {}), ({}, {"requests_per_minute": 600}), ({"tokens_per_minute": 10**7}, {})],
)
def test_the_judge_keeps_the_limit_of_the_run_else_that_of_the_service(spec, settings):
    spacing = Noting()
    with Provider() as provider:
        given = RunConfig(judges=("m",), api_base=provider.url, performance=spec)
        panel = runtime.panel(given, Settings(**settings), runtime.Shared(spacing))
        asyncio.run(panel.rate([sample("q1"), sample("q2")], MemoryJournal()))
    assert len(spacing.taken) == 2


def test_the_workers_of_a_service_share_the_limit_by_way_of_redis(redis, monkeypatch):
    queue = RecordingQueue()
    monkeypatch.setattr("ragassay.service.queue.Queue", lambda broker: queue)
    keys = partial(ProjectRedis(redis.url).redis.keys, "ra:calls:*")
    before = set(keys())  # of other tests
    with Provider() as provider:
        settings = Settings(state_url=redis.url, requests_per_minute=10, api_base=provider.url)
        jobs = wiring.jobs_for(settings)
        submit(jobs, 1, judges=("m",), metrics=("faithfulness",))
        deliver(jobs, queue)
        lines = set(keys()) - before
        jobs.close()
    assert (len(provider.log), len(lines)) == (1, 1)
