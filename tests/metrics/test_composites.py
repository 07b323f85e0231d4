"""Metrics made of others: weighted and harmonic means, their bounds, which way is better, and what is missing."""

import asyncio

import pytest

from offline_runs import ScriptedJudge, sample, scripted_runtime
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Rating, Score
from ragassay.evaluation.evaluate import evaluate
from ragassay.evaluation.prepare import choose_metrics
from ragassay.llm.journal import MemoryJournal
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.composite import check_own, composite_metric, own_metrics
from ragassay.metrics.metric import Metric
from ragassay.metrics.scoring import score_chunk


def made(definition, **bounds):
    """A composite of metrics of 0 to 1, or with the given bounds; a name that begins with low_ is better lower."""

    def find(name):
        better = "lower" if name.startswith("low_") else "higher"
        return Metric(family=name, function=len, better=better, bounds=bounds.get(name, (0.0, 1.0)))

    return composite_metric("own", definition, find)


@pytest.mark.parametrize(
    ("definition", "values", "expected"),
    [
        ({"a": 2, "b": 1}, {"a": 0.9, "b": 0.6}, 0.8),  # (2 * 0.9 + 0.6) / 3
        ({"a": 5}, {"a": 0.3}, 0.3),
    ],
)
def test_composite_metric_is_the_mean_of_its_parts(definition, values, expected):
    chunk = Chunk([sample()], scores={name: [Score(value=value)] for name, value in values.items()})
    (score,) = score_chunk(made(definition), chunk)
    assert score.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("definition", "bounds", "better"),
    [
        ({"a": 2, "b": 1}, (0, 1), "higher"),
        ({"low_a": 2, "low_b": 1}, (0, 1), "lower"),
        ({"a": 1, "wide": 1}, (-0.5, 1), "higher"),
        ({"a": 1, "free": 1}, None, "higher"),
    ],
)
def test_composite_metric_has_the_bounds_and_direction_of_its_parts(definition, bounds, better):
    metric = made(definition, wide=(-1.0, 1.0), free=None)
    assert (metric.bounds, metric.better) == (bounds, better)


def test_composite_metric_refuses_parts_of_two_directions():
    with pytest.raises(BadSettings, match="higher is better and low_b"):
        made({"a": 1, "low_b": 1})


SPEC = EvalConfig(
    metrics=("mrr", "quality"),
    composites={
        "quality": {"faithfulness": 2, "relevance": 1},
        "grounded_hit": {"faithfulness": 1, "hit@1": 1},
    },
)


def evaluated(spec, rows, judge=None):
    config = scripted_runtime(judge).scoring(spec, choose_metrics(spec, {"default": rows}))
    return asyncio.run(evaluate(rows, "default", config, MemoryJournal()))


def test_evaluate_computes_the_parts_of_a_composite_and_reports_what_was_asked_for():
    (row,) = evaluated(SPEC, [sample()])
    assert list(row.scores) == ["mrr", "quality", "grounded_hit"]
    assert row.scores["quality"].value == 1.0
    assert row.scores["quality"].details == {"parts": {"faithfulness": 1.0, "relevance": 1.0}}


def test_evaluate_names_the_part_that_a_composite_misses():
    rows = evaluated(SPEC, [sample(1), sample(2, contexts=None), sample(3, relevant_doc_ids=None)])
    assert rows[0].scores["grounded_hit"].value == 1.0
    assert rows[1].scores["quality"] == Score.absent("faithfulness: the response has no contexts", "no_input")
    assert rows[2].scores["grounded_hit"] == Score.absent("hit@1: the query has no relevance judgments", "no_input")
    (failed,) = evaluated(SPEC, [sample()], ScriptedJudge(q1=Rating(reason="the judge failed: it is down")))
    assert (failed.scores["quality"].value, failed.scores["quality"].missing) == (None, "failed")


def test_accuracy_rule_reads_composites_but_not_accurate_through_one():
    (row,) = evaluated(SPEC.model_copy(update={"metrics": ("accurate",), "accurate": "quality >= 0.9"}), [sample()])
    assert row.scores["accurate"].value == 1.0
    with pytest.raises(BadSettings, match="accurate can't depend on itself"):
        AccuracyRule.parse("more >= 0.5", own_metrics(EvalConfig(composites={"more": {"accurate": 1, "mrr": 1}})))


@pytest.mark.parametrize(
    ("spec", "where", "message"),
    [
        ({"composites": {"own": {"relevence": 1}}}, "composites.own", "did you mean relevance?"),
        ({"composites": {"own": {"ndcg": 1}}}, "composites.own", "needs a value after @"),
        ({"composites": {"a": {"mrr": 1}, "b": {"a": 1}}}, "composites.b", "unknown metric 'a'"),
        ({"composites": {"rr": {"recall@5": 1}}}, "composites.rr", "would hide the metric of that name"),
        ({"composites": {"query": {"mrr": 1}}}, "composites.query", "name of something else in a report"),
        ({"composites": {"Own": {"mrr": 1}}}, "composites.Own", "is no name"),
        ({"composites": {"a": {"mrr": 1}}, "criteria": {"a": "Is it?"}}, "composites.a", "the name of something else"),
    ],
)
def test_check_own_names_the_place(spec, where, message):
    with pytest.raises(BadInput) as refused:
        check_own(EvalConfig(**spec))
    assert refused.value.where == where
    assert message in str(refused.value)
