"""A built-in system: what its responses carry, who answers, how many queries it takes, and what a slow or failing part does."""

import asyncio
import time

import pytest

from provider import Provider, says
from ragassay.core.errors import Unavailable
from ragassay.core.models import Response, Sample
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.llm import LLM
from ragassay.llm.journal import CallScope, MemoryJournal
from ragassay.systems.builtin import NOTHING, BuiltIn, Generative, extract
from ragassay.systems.options import SystemConfig
from ragassay.systems.retrieval import Retriever

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
        spent = {"model": "m", "input_tokens": 9, "output_tokens": 2, "cost_usd": 0.5}
        return Response(answer="Red.", generation_latency_ms=20.0, **spent)


def system(answerer=None, **options):
    config = SystemConfig(**{"kind": "bm25", **options})
    return BuiltIn("s", config, Retriever(config, CORPUS), answerer)


def ask(strategy, number=1):
    """The responses to so many queries at once."""

    async def all_at_once():
        return await asyncio.gather(
            *(strategy.respond(Sample(query_id=str(n), query="red apples")) for n in range(number))
        )

    return asyncio.run(all_at_once())


def test_respond_carries_what_was_retrieved_and_how_long_it_took():
    strategy = system(k=2, contexts=1)
    [response] = ask(strategy)
    assert response.retrieved_doc_ids == ("a", "b")
    assert response.contexts == ("Apples. Apples are red.",)
    assert list(response.retrieved_scores) == [h.score for h in strategy.retriever.search("red apples", 2).hits]
    assert response.retrieval_latency_ms == response.latency_ms > 0
    assert (response.answer, response.error) == (None, None)


def test_respond_with_an_answer_brings_its_own_bill():
    answerer = Says()
    [response] = ask(system(answerer, contexts=1))
    assert answerer.read == [("Apples. Apples are red.",)]
    assert (response.answer, response.model, response.cost_usd) == ("Red.", "m", 0.5)
    assert (response.input_tokens, response.output_tokens, response.generation_latency_ms) == (9, 2, 20.0)
    assert response.latency_ms == pytest.approx(response.retrieval_latency_ms + 20.0)


def test_respond_reranked_says_what_the_order_was_before():
    class Backwards:
        name = "backwards"

        def score(self, query, places):
            return [float(-n) for n in range(len(places))][::-1]

    strategy = system()
    before = strategy.retriever.search("red apples", 3).hits
    strategy.retriever._reranker = Backwards()
    [response] = ask(strategy)
    assert response.doc_ids_before_reranking == tuple(h.id for h in before)
    assert list(response.retrieved_doc_ids) == [h.id for h in before][::-1]


def test_respond_a_slow_search_is_an_error_and_no_other_begins_beside_it(monkeypatch):
    strategy, running, peak = system(timeout_s=0.05), [], []

    def slow(query, k):
        running.append(query)
        peak.append(len(running))
        time.sleep(0.3)
        running.pop()

    monkeypatch.setattr(strategy.retriever, "search", slow)
    monkeypatch.setattr(strategy.retriever, "warm_up", lambda: None)
    responses = ask(strategy, 2)
    assert (responses[0].error, peak) == ("nothing was retrieved within 0.05 s", [1, 1])


def test_respond_a_slow_answer_is_an_error_and_what_was_retrieved_stays():
    [response] = ask(system(Says(seconds=30), timeout_s=1))
    assert response.error == "nothing was answered within 1 s"
    assert response.retrieved_doc_ids == ("a", "b")
    assert (response.answer, response.latency_ms) == (None, None)


def test_respond_a_query_that_can_not_be_answered_does_not_end_the_run():
    [response] = ask(system(Says(Unavailable("is down"))))
    assert (response.error, response.answer) == ("is down", None)


def test_respond_the_start_is_in_no_latency_and_no_timeout():
    responses = ask(system(Says(start_s=1.2), timeout_s=1, concurrency=4), 4)
    assert [response.error for response in responses] == [None] * 4
    assert all(response.latency_ms < 1200 for response in responses)


def test_respond_to_no_more_queries_at_once_than_allowed():
    answerer = Says(seconds=0.01)
    assert {response.answer for response in ask(system(answerer, concurrency=3), 12)} == {"Red."}
    assert answerer.peak == 3


# --- who answers ---

RATES = "The API has limits. Plus may send 60 requests per minute. Team may send 300 requests per minute."
TOKENS = "Tokens expire after 90 days. A token is shown once."


def test_extract_is_the_sentences_that_share_most_with_the_query():
    both = "How many requests may Plus send and when do tokens expire?"
    assert extract(both, [RATES, TOKENS]) == "Plus may send 60 requests per minute. Tokens expire after 90 days."
    for contexts in ([], [""], ["Apples are red."]):
        assert extract("When do tokens expire?", contexts) == NOTHING


def test_generative_reads_the_passages_in_order_and_asks_once():
    calls = []
    journal = CallScope(MemoryJournal(), answered=calls.append)

    async def twice(answerer):
        sample = Sample(query_id="q", query="When do tokens expire?")
        return [await answerer.answer(sample, [RATES, TOKENS]) for _ in range(2)]

    with Provider(then=says(" After 90 days. ")) as provider:
        answerer = Generative(LLM("openai/m", api_base=provider.url), journal, max_tokens=77)
        first, second = asyncio.run(twice(answerer))
    [seen] = provider.log
    assert first == second
    assert (first.answer, first.model, first.output_tokens) == ("After 90 days.", "openai/m", 4)  # 16 characters
    assert seen.user == f"Passages:\n\n[1] {RATES}\n\n[2] {TOKENS}\n\nQuestion: When do tokens expire?"
    assert seen.body.get("max_tokens", seen.body.get("max_completion_tokens")) == 77
    assert [call.purpose for call in calls] == ["answer"] * 2
