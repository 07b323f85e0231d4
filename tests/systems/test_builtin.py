"""A built-in system: what its responses carry, how many queries it takes at once, and what a slow or failing part does."""

from __future__ import annotations

import asyncio
import time

import pytest

from ragassay.core.errors import BadInput, Unavailable
from ragassay.core.models import Response, Sample
from ragassay.core.protocols import System
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.systems.builtin import BuiltIn
from ragassay.systems.options import SystemConfig
from ragassay.systems.retrieval import build

CORPUS = Corpus.of(
    [
        Passage(id="a", text="Apples are red.", title="Apples"),
        Passage(id="b", text="Apples and pears."),
        Passage(id="c", text="Plums are blue."),
    ]
)


class Says:
    """Answers after a while, or fails; remembers how many were asked at once."""

    models = ("says",)

    def __init__(self, error=None, seconds=0.0, start_s=0.0):
        self.error, self.seconds, self.start_s, self.now, self.peak, self.read = error, seconds, start_s, 0, 0, []

    def warm_up(self):
        time.sleep(self.start_s)

    async def answer(self, sample, contexts):
        self.now += 1
        self.peak = max(self.peak, self.now)
        self.read.append(contexts)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.now -= 1
        if self.error:
            raise self.error
        return Response(
            answer="Red.", generation_latency_ms=20.0, model="m", input_tokens=9, output_tokens=2, cost_usd=0.5
        )


def system(answerer=None, **options):
    config = SystemConfig(**{"kind": "bm25", **options})
    return BuiltIn("s", config, build(config, CORPUS), answerer)


def ask(strategy, query="red apples"):
    return asyncio.run(strategy.respond(Sample(query_id="q", query=query)))


def test_a_response_carries_what_was_retrieved_and_how_long_it_took():
    strategy = system(k=2, contexts=1)
    assert isinstance(strategy, System)
    response = ask(strategy)
    assert response.retrieved_doc_ids == ("a", "b")
    assert response.contexts == ("Apples. Apples are red.",)
    assert list(response.retrieved_scores) == [h.score for h in strategy.retriever.search("red apples", 2).hits]
    assert response.retrieval_latency_ms == response.latency_ms > 0
    assert (response.answer, response.route, response.error, response.metadata) == (None, None, None, {})


def test_an_answer_brings_its_own_bill():
    answerer = Says()
    response = ask(system(answerer, contexts=1))
    assert answerer.read == [("Apples. Apples are red.",)]
    assert (response.answer, response.model, response.cost_usd) == ("Red.", "m", 0.5)
    assert (response.input_tokens, response.output_tokens, response.generation_latency_ms) == (9, 2, 20.0)
    assert response.latency_ms == pytest.approx(response.retrieval_latency_ms + 20.0)


def test_a_reranked_response_says_what_the_order_was_before():
    class Backwards:
        name = "backwards"

        def score(self, query, places):
            return [float(-n) for n in range(len(places))][::-1]

    strategy = system()
    before = strategy.retriever.search("red apples", 3).hits
    strategy.retriever._reranker = Backwards()
    response = ask(strategy)
    assert response.doc_ids_before_reranking == tuple(h.id for h in before)
    assert list(response.retrieved_doc_ids) == [h.id for h in before][::-1]


def test_a_slow_retrieval_is_a_response_with_an_error(monkeypatch):
    strategy = system(timeout_s=0.05)
    monkeypatch.setattr(strategy.retriever, "search", lambda query, k: time.sleep(0.3))
    response = ask(strategy)
    assert response.error == "nothing was retrieved within 0.05 s"
    assert (response.retrieved_doc_ids, response.answer) == ((), None)


def test_builtin_does_not_search_beside_a_search_that_came_too_late(monkeypatch):
    strategy, running, peak = system(timeout_s=0.05), [], []

    def slow(query, k):
        running.append(query)
        peak.append(len(running))
        time.sleep(0.3)
        running.remove(query)

    async def two():
        await strategy.respond(Sample(query_id="1", query="red"))
        await strategy.respond(Sample(query_id="2", query="apples"))

    monkeypatch.setattr(strategy.retriever, "search", slow)
    monkeypatch.setattr(strategy.retriever, "warm_up", lambda: None)
    asyncio.run(two())
    assert peak == [1, 1]


def test_a_slow_answer_is_an_error_and_what_was_retrieved_stays():
    response = ask(system(Says(seconds=30), timeout_s=1))
    assert response.error == "nothing was answered within 1 s"
    assert response.retrieved_doc_ids == ("a", "b")
    assert (response.answer, response.latency_ms) == (None, None)


@pytest.mark.parametrize("error", [BadInput("too long"), Unavailable("is down")])
def test_a_query_that_can_not_be_answered_does_not_end_the_run(error):
    response = ask(system(Says(error)))
    assert (response.error, response.answer) == (str(error), None)


def test_the_start_is_in_no_latency_and_no_timeout_and_stands_beside_the_first_response():
    strategy = system(Says(start_s=0.3), timeout_s=0.25, concurrency=4)

    async def all_at_once():
        return await asyncio.gather(*(strategy.respond(Sample(query_id=str(n), query="red")) for n in range(4)))

    first, *others = asyncio.run(all_at_once())
    assert [response.error for response in (first, *others)] == [None] * 4
    assert first.first_call_ms >= 300 > first.latency_ms
    assert first.first_call_ms >= first.latency_ms + 300
    assert [response.first_call_ms for response in others] == [None] * 3
    assert all(response.latency_ms < 300 for response in others)


def test_no_more_queries_are_in_flight_than_allowed():
    answerer = Says(seconds=0.01)
    strategy = system(answerer, concurrency=3)

    async def all_at_once():
        return await asyncio.gather(*(strategy.respond(Sample(query_id=str(n), query="red")) for n in range(12)))

    assert {response.answer for response in asyncio.run(all_at_once())} == {"Red."}
    assert answerer.peak == 3
    assert (SystemConfig(kind="bm25").concurrency, SystemConfig(kind="bm25").timeout_s) == (4, 30.0)
