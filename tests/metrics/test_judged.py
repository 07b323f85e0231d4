"""Metrics of a verdict: the arithmetic beside each expected number, and what is missing and why."""

from __future__ import annotations

import pytest

from fakes import score_chunk
from ragassay.core.models import FactVerdict, Rating, Response, Sample, SentenceVerdict, Verdict
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import parse

NAMES = ["faithfulness", "completeness", "relevance", "correctness", "context_precision", "context_recall"]


def sentence(number, support="supported", truth="agrees", evidence=(), why=""):
    return SentenceVerdict(
        id=f"A{number}", text=f"Sentence {number}.", support=support, truth=truth, evidence=evidence, why=why
    )


def fact(number, covered="yes", evidence=(), why=""):
    return FactVerdict(id=f"G{number}", text=f"Fact {number}.", covered=covered, evidence=evidence, why=why)


def verdict(sentences=(), facts=(), **rest):
    given = {"judge": "test", "relevance": "full", "refusal": False, "has_contexts": True, "has_truth": bool(facts)}
    return Verdict(**{**given, **rest}, sentences=tuple(sentences), facts=tuple(facts))


def score(name, given):
    return parse(name).function(given)


FULL = verdict(
    [
        sentence(1, "supported", "agrees", ["C1.1"]),
        sentence(2, "partly", "absent", ["C2.1", "C3.1"], why="not in the contexts: free"),
        sentence(3, "contradicted", "conflicts", ["C1.2"], why="C1.2 says otherwise"),
        sentence(4, "not_found", "agrees", why="no context says so"),
    ],
    [
        fact(1, "yes", ["C2.1"]),
        fact(2, "partly", ["C4.2", "C2.3"], why="the answer lacks: shipping"),
        fact(3, "no", why="the answer lacks: Monday"),
    ],
    relevance="mostly",
    why="it leaves out how",
)


A3, LACKS = "A3: C1.2 says otherwise", "G2: the answer lacks: shipping; G3: the answer lacks: Monday"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("faithfulness", (1 + 0.5 + 0 + 0) / 4, f"A2: not in the contexts: free; {A3}; A4: no context says so"),
        ("completeness", (1 + 0.5 + 0) / 3, LACKS),
        ("correctness", 2 * (2 / 4) * (1.5 / 3) / (2 / 4 + 1.5 / 3), f"{A3}; {LACKS}"),
        ("context_precision", (1 / 2 + 2 / 4) / 2, None),  # facts rest on contexts 2 and 4
        ("context_recall", 2 / 3, "not in the contexts: G3"),
    ],
)
def test_a_judged_metric_follows_from_the_units_and_names_what_is_wrong(name, value, reason):
    scored = score(name, FULL)
    assert (scored.value, scored.reason) == (pytest.approx(value), reason)


def test_relevance_is_one_of_five_steps():
    for step, value in {"none": 0, "barely": 0.25, "partly": 0.5, "mostly": 0.75, "full": 1}.items():
        assert score("relevance", verdict([sentence(1)], relevance=step)).value == value


def test_without_ground_truth_the_contexts_that_sentences_rest_on_were_needed():
    scored = score("context_precision", FULL.model_copy(update={"facts": (), "has_truth": False}))
    assert scored.value == pytest.approx((1 / 1 + 2 / 2 + 3 / 3) / 3)  # A1 on 1, A2 on 2 and 3; A3 is contradicted
    assert scored.details == {"needed": [1, 2, 3], "by": "sentences"}


def test_an_empty_answer_has_no_faithfulness_and_zero_of_the_rest():
    empty = verdict([], [fact(1, "no", ["C2.1"])], relevance="none")
    for name in ("completeness", "correctness", "relevance"):
        assert (score(name, empty).value, score(name, empty).reason) == (0.0, "the answer is empty")
    assert score("context_precision", empty).value == 1 / 2
    assert score("context_recall", empty).value == 1.0


ONE, UNANSWERED = [sentence(1)], verdict([sentence(1)], [fact(1), fact(2, None)])
NO_CONTEXTS, NO_TRUTH = verdict([sentence(1, None)], [fact(1)], has_contexts=False), verdict([sentence(1, truth=None)])
NO_SUPPORT = verdict([sentence(1), sentence(2, None), sentence(3, None)])


@pytest.mark.parametrize(
    ("names", "given", "missing", "reason"),
    [
        ("faithfulness", verdict([], [fact(1)]), "undefined", "the answer is empty"),
        ("context_precision", verdict(ONE, [fact(1, "yes")]), "undefined", "no context holds a fact of the ground truth"),
        ("context_precision", verdict([sentence(1, "not_found")]), "undefined", "no sentence rests on a context"),

        ("faithfulness context_precision context_recall", NO_CONTEXTS, "no_input", "the response has no contexts"),
        ("completeness correctness context_recall", NO_TRUTH, "no_input", "the query has no ground truth"),
        ("faithfulness context_precision", NO_SUPPORT, "failed", "the judge left A2 and A3 unanswered"),
        ("completeness correctness context_precision context_recall", UNANSWERED, "failed", "the judge left G2 unanswered"),

        ("relevance", verdict(ONE, relevance=None), "failed", "the judge did not say how far the answer addresses the query"),
    ],
)  # fmt: skip
def test_what_a_verdict_does_not_say_makes_a_metric_missing_with_the_cause(names, given, missing, reason):
    for name in names.split():
        scored = score(name, given)
        assert (scored.value, scored.missing, scored.reason) == (None, missing, reason)


@pytest.mark.parametrize("name", NAMES)
def test_rows_without_verdict_say_why(name):
    row = Sample(
        query_id="q", query="?", ground_truth_answer=["Yes."], response=Response(answer="Yes.", contexts=["So."])
    )
    chunk = Chunk([row] * 3, [Rating(verdict=FULL), Rating(reason="the provider is away"), None])
    given, away, unasked = score_chunk(parse(name), chunk)
    assert given.value is not None
    assert (away.value, away.missing, away.reason) == (None, "failed", "the provider is away")
    assert (unasked.value, unasked.missing, unasked.reason) == (None, "no_input", "no judge was asked")
