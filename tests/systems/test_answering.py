"""Who answers: sentences of the passages, or a model on the system's own bill."""

from __future__ import annotations

import asyncio

import pytest

from provider import Provider, says
from ragassay.core.models import Sample
from ragassay.llm import LLM
from ragassay.llm.journal import MemoryJournal
from ragassay.systems.builtin import NOTHING, Extractive, Generative, extract

RATES = "The API has limits. Plus may send 60 requests per minute. Team may send 300 requests per minute."
TOKENS = "Tokens expire after 90 days. A token is shown once."


def test_the_sentence_that_shares_most_with_the_query_is_the_answer():
    assert extract("When do tokens expire?", [RATES, TOKENS]) == "Tokens expire after 90 days."


def test_a_second_sentence_follows_where_it_adds_what_is_still_lacking():
    answer = extract("How many requests may Plus send and when do tokens expire?", [RATES, TOKENS])
    assert answer == "Plus may send 60 requests per minute. Tokens expire after 90 days."


@pytest.mark.parametrize("contexts", [[], [""], ["Apples are red."]])
def test_where_no_passage_shares_a_word_with_the_query_the_answer_says_so(contexts):
    assert extract("When do tokens expire?", contexts) == NOTHING


def test_an_extracted_answer_costs_nothing_and_takes_time():
    said = asyncio.run(Extractive().answer(Sample(query_id="q", query="When do tokens expire?"), [TOKENS]))
    assert (said.answer, said.cost_usd, said.input_tokens, said.output_tokens) == (
        "Tokens expire after 90 days.",
        0,
        0,
        0,
    )
    assert said.generation_latency_ms > 0


def generative(provider, journal):
    return Generative(LLM("openai/m", api_base=provider.url), journal, max_tokens=77)


def test_a_model_reads_the_passages_in_order_and_is_asked_once():
    journal = MemoryJournal()

    async def twice(answerer):
        sample = Sample(query_id="q", query="When do tokens expire?")
        return [await answerer.answer(sample, [RATES, TOKENS]) for _ in range(2)]

    with Provider(then=says(" After 90 days. ")) as provider:
        first, second = asyncio.run(twice(generative(provider, journal)))
    assert len(provider.log) == 1
    assert first == second
    assert first.answer == "After 90 days."
    assert (first.model, first.output_tokens) == ("openai/m", 4)  # 16 characters
    assert first.generation_latency_ms > 0
    seen = provider.log[0]
    assert seen.user == f"Passages:\n\n[1] {RATES}\n\n[2] {TOKENS}\n\nQuestion: When do tokens expire?"
    assert seen.body.get("max_tokens", seen.body.get("max_completion_tokens")) == 77
    assert [call.purpose for call in journal.calls] == ["answer"]
