"""The rule that calls an answer accurate, and metrics made of others: what they decide, and what is missing."""

from __future__ import annotations

import asyncio

import pytest

from fakes import score_chunk
from offline_runs import FakeRuntime, ScriptedJudge, sample
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.eval_config import DEFAULTS, RunConfig
from ragassay.core.models import Rating, Score
from ragassay.evaluation.evaluate import evaluate
from ragassay.evaluation.prepare import choose_metrics
from ragassay.llm.journal import MemoryJournal
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.composite import check_custom_metrics, composite_metric, custom_metrics
from ragassay.metrics.metric import Metric

FAILED = Score.absent("the judge failed", "failed")
NO_INPUT = Score.absent("no embedding model", "no_input")
UNDEFINED = Score.absent("the answer is empty")


def decide(rule=DEFAULTS.accurate, **scores):
    given = {name: value if isinstance(value, Score) else Score(value=value) for name, value in scores.items()}
    return AccuracyRule.parse(rule).decide(given)


def test_where_correctness_is_missing_semantic_similarity_decides():
    for absent in (NO_INPUT, UNDEFINED):
        assert decide(correctness=absent, semantic_similarity=0.8).value == 1.0
        assert decide(correctness=absent, semantic_similarity=0.79).value == 0.0
    undecided = decide(correctness=FAILED, semantic_similarity=0.9)  # a failed judge is no reason for another rule
    assert (undecided.value, undecided.missing) == (None, "failed")


def test_where_nothing_can_decide_every_reason_is_given():
    for correctness, similarity, cause in (
        (FAILED, NO_INPUT, "failed"),
        (UNDEFINED, NO_INPUT, "no_input"),
        (UNDEFINED, UNDEFINED, "undefined"),
    ):
        decision = decide(correctness=correctness, semantic_similarity=similarity)
        reason = f"correctness: {correctness.reason}; semantic_similarity: {similarity.reason}"
        assert (decision.value, decision.missing, decision.reason) == (None, cause, reason)


BOTH = "faithfulness >= 0.8 and correctness > 0.5"


@pytest.mark.parametrize(
    ("rule", "scores", "value", "reason"),
    [
        (BOTH, {"faithfulness": 0.8, "correctness": 0.6}, 1.0, None),
        (BOTH, {"faithfulness": 0.7, "correctness": 0.5}, 0.0, "faithfulness is 0.7, not >= 0.8; correctness is 0.5, not > 0.5"),
        # one failing condition decides, though another is missing
        (f"{BOTH} else mrr > 0", {"faithfulness": 0.1, "correctness": FAILED, "mrr": 1.0}, 0.0, "faithfulness is 0.1, not >= 0.8"),
        (f"{BOTH} else mrr > 0", {"faithfulness": 0.9, "correctness": NO_INPUT, "mrr": 1.0}, 1.0, None),
    ],
)  # fmt: skip
def test_all_conditions_of_an_alternative_must_hold(rule, scores, value, reason):
    decision = decide(rule, **scores)
    assert (decision.value, decision.reason) == (value, reason)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "can't read ''"),
        ("correctness >= 0.5 else", "can't read 'correctness >= 0.5 else'"),
        ("correctness >= nan", "'nan' is not a number"),
        ("correctness <= 1e999", "'1e999' is not a number"),
        ("accurate >= 1", "accurate can't depend on itself"),
    ],
)
def test_a_rule_that_cant_be_read_is_one_clear_error(rule, message):
    with pytest.raises(BadSettings) as caught:
        AccuracyRule.parse(rule)
    assert str(caught.value).startswith(f"accuracy rule {rule!r}: {message}")
    assert str(caught.value).endswith(f"write, for example, {DEFAULTS.accurate}")


# --- composites ---


def made(definition, **bounds):
    """A composite of metrics of 0 to 1, or with the given bounds; a name that begins with low_ is better lower."""

    def find(name):
        better = "lower" if name.startswith("low_") else "higher"
        return Metric(family=name, function=len, better=better, bounds=bounds.get(name, (0.0, 1.0)))

    return composite_metric("own", definition, find)


def test_composite_metric_is_the_weighted_mean_with_the_bounds_and_direction_of_its_parts():
    chunk = Chunk([sample()], scores={"a": [Score(value=0.9)], "b": [Score(value=0.6)]})
    (score,) = score_chunk(made({"a": 2, "b": 1}), chunk)
    assert score.value == pytest.approx(0.8)  # (2 * 0.9 + 0.6) / 3
    for definition, bounds, better in (
        ({"low_a": 2, "low_b": 1}, (0, 1), "lower"),
        ({"a": 1, "wide": 1}, (-0.5, 1), "higher"),
        ({"a": 1, "free": 1}, None, "higher"),
    ):
        metric = made(definition, wide=(-1.0, 1.0), free=None)
        assert (metric.bounds, metric.better) == (bounds, better)
    with pytest.raises(BadSettings, match="higher is better and low_b"):
        made({"a": 1, "low_b": 1})


SPEC = RunConfig(
    metrics=("mrr", "quality"),
    composites={"quality": {"faithfulness": 2, "relevance": 1}, "grounded_hit": {"faithfulness": 1, "hit@1": 1}},
)


def evaluated(spec, rows, judge=None):
    config = FakeRuntime(judge).scoring(spec, choose_metrics(spec, {"default": rows}, "france"))
    return asyncio.run(evaluate(rows, "default", config, MemoryJournal()))


def test_evaluate_names_the_part_that_a_composite_misses():
    rows = evaluated(SPEC, [sample(1), sample(2, contexts=None), sample(3, relevant_doc_ids=None)])
    assert list(rows[0].scores) == ["mrr", "quality", "grounded_hit"]
    assert rows[0].scores["quality"].details == {"parts": {"faithfulness": 1.0, "relevance": 1.0}}
    assert rows[1].scores["quality"] == Score.absent("faithfulness: the response has no contexts", "no_input")
    assert rows[2].scores["grounded_hit"] == Score.absent("hit@1: the query has no relevance judgments", "no_input")
    (failed,) = evaluated(SPEC, [sample()], ScriptedJudge(q1=Rating(reason="the judge failed: it is down")))
    assert (failed.scores["quality"].value, failed.scores["quality"].missing) == (None, "failed")


def test_accuracy_rule_reads_composites_but_not_accurate_through_one():
    (row,) = evaluated(SPEC.model_copy(update={"metrics": ("accurate",), "accurate": "quality >= 0.9"}), [sample()])
    assert row.scores["accurate"].value == 1.0
    with pytest.raises(BadSettings, match="accurate can't depend on itself"):
        AccuracyRule.parse("more >= 0.5", custom_metrics(RunConfig(composites={"more": {"accurate": 1, "mrr": 1}})))


@pytest.mark.parametrize(
    ("spec", "where", "message"),
    [
        ({"composites": {"own": {"relevence": 1}}}, "composites.own", "did you mean relevance?"),
        ({"composites": {"own": {"ndcg": 1}}}, "composites.own", "needs a value after @"),
        ({"composites": {"a": {"mrr": 1}, "b": {"a": 1}}}, "composites.b", "unknown metric 'a'"),
        ({"composites": {"rr": {"recall@5": 1}}}, "composites.rr", "would hide the metric of that name"),
        ({"composites": {"query": {"mrr": 1}}}, "composites.query", "name of something else in a report"),
        ({"composites": {"a": {"mrr": 1}}, "criteria": {"a": "Is it?"}}, "composites.a", "the name of something else"),
        ({"criteria": {"2nd": "Is it?"}}, "criteria.2nd", "is no name"),
    ],
)
def test_check_custom_metrics_names_the_place(spec, where, message):
    with pytest.raises(BadInput) as refused:
        check_custom_metrics(RunConfig(**spec))
    assert refused.value.where == where
    assert message in str(refused.value)
