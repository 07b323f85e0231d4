"""Metrics of words: equal to rouge-score and SQuAD where those are defined, and sensible where they are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from ragassay.core.models import Response, Sample
from ragassay.metrics.answer import normalised
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import parse
from ragassay.metrics.scoring import score_chunk

NAMES = ["rouge1", "rouge2", "rougeL", "exact_match", "token_f1"]
ASCII = st.text(alphabet=st.characters(codec="ascii"), max_size=60)


def sample(answer, *truths):
    response = Response(answer=answer)
    return Sample(query_id="q", query="Which?", ground_truth_answer=truths, response=response)


def score(name, answer, *truths):
    return score_chunk(parse(name), Chunk([sample(answer, *truths)]))[0]


def value(name, answer, *truths):
    return score(name, answer, *truths).value


def test_rouge_finds_words_of_every_script():
    for name in ("rouge1", "rouge2", "rougeL"):
        assert value(name, "Привет, большой мир", "привет большой мир") == 1.0
        assert value(name, "今天下雨", "今天下雨") == 1.0
        assert value(name, "हिन्दी भाषा है", "हिन्दी भाषा है") == 1.0
    assert value("rouge1", "今天下雨", "今天下雪") == pytest.approx(3 / 4)  # 3 of 4 characters
    assert value("rouge1", "हिन्दी भाषा", "हिन्दी गाना") == pytest.approx(1 / 2)  # vowel signs do not part a word


@given(answer=ASCII, truth=ASCII.filter(str.strip))
def test_rouge_equals_rouge_score_on_ascii(answer, truth):
    expected = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(truth, answer)
    for name in ("rouge1", "rouge2", "rougeL"):
        assert value(name, answer, truth) == pytest.approx(expected[name].fmeasure, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("  an  apple,\ta pear ", "apple pear"),
        ("theatre and another", "theatre and another"),
        ("U.S.A.", "usa"),
        ("it's 3.5 %", "its 35"),
        ("“Paris” — la ville", "paris la ville"),
        ("今天下雨。", "今 天 下 雨"),
        ("Café", "café"),
        ("Cafe\u0301", "café"),
        ("", ""),
    ],
)
def test_normalisation_drops_case_punctuation_articles_and_white_space(text, expected):
    assert normalised(text) == expected


def test_token_f1_counts_shared_words_with_their_number():
    # answer: in paris paris (3), truth: paris in france (3), shared: in, paris -> 2 x 2 / 6
    assert value("token_f1", "In Paris, Paris", "Paris in France") == pytest.approx(4 / 6)
    assert value("token_f1", "London", "Paris") == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_of_several_ground_truths_the_best_counts_and_is_named(name):
    scored = score(name, "fourteen days", "two weeks", "fourteen days", "14 days")
    assert scored.value == 1.0
    assert scored.details == {"truth": 1}
    assert score(name, "fourteen days", "fourteen days").details is None


@pytest.mark.parametrize("name", NAMES)
def test_without_answer_or_ground_truth_the_row_is_missing(name):
    assert score(name, None, "Paris").reason == "the response has no answer"
    assert score(name, "Paris").reason == "the query has no ground truth answer"
    scored = score(name, "Paris", " ", "")
    assert (scored.value, scored.missing, scored.reason) == (None, "no_input", "the ground truth answer is empty")


@pytest.mark.parametrize("name", NAMES)
@given(answer=st.text(max_size=40), truths=st.lists(st.text(max_size=40).filter(str.strip), min_size=1, max_size=3))
def test_values_lie_between_0_and_1_and_do_not_depend_on_the_order_of_truths(name, answer, truths):
    number = value(name, answer, *truths)
    assert 0.0 <= number <= 1.0
    assert value(name, answer, *reversed(truths)) == number
    if answer.strip():
        assert value("exact_match", answer, *truths, answer) == 1.0
