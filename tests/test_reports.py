"""From results to a report, with the arithmetic beside it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offline_runs import evaluated, new_run, sample
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Response, Score
from ragassay.evaluation.aggregate import ScoreColumn, distribution
from ragassay.metrics.metric import parse


@pytest.fixture
def report(tmp_path):
    def make(samples, spec=None):
        return evaluated(new_run(tmp_path, samples, spec))

    return make


def test_a_mean_travels_with_its_count_its_interval_and_what_is_missing(report):
    metric = (
        report([sample(1), sample(2), sample(3, response=Response(answer="Paris."))]).systems["default"].metrics["mrr"]
    )
    assert (metric.value, metric.n, metric.unscored, metric.failed) == (1.0, 2, 1, 0)
    assert metric.missing == {"the response has no retrieved_doc_ids": 1}
    assert metric.interval.low is not None


def test_bounds_are_what_the_mean_would_be_with_the_worst_and_best_for_the_missing(report):
    # two rows score 1, one is missing: worst (1 + 1 + 0) / 3, best (1 + 1 + 1) / 3
    bounds = (
        report([sample(1), sample(2), sample(3, response=Response(answer="x"))])
        .systems["default"]
        .metrics["mrr"]
        .bounds
    )
    assert (bounds.worst, bounds.best) == (pytest.approx(2 / 3), 1.0)


def test_cost_per_accurate_answer_divides_all_cost_by_the_accurate_ones(report):
    rows = [sample(1, cost_usd=0.02), sample(2, cost_usd=0.03), sample(3, cost_usd=0.01, response=None)]
    cost = report(rows).systems["default"].cost_per_accurate_answer
    # both answered rows are accurate: (0.02 + 0.03) / 2; the third has neither cost nor accuracy
    assert cost.value == pytest.approx(0.025)
    assert (cost.accurate, cost.n, cost.unscored) == (2, 2, 1)


def test_cost_per_accurate_answer_is_undefined_when_no_answer_is_accurate(report):
    cost = (
        report([sample(1), sample(2)], EvalConfig(accurate="faithfulness > 1"))
        .systems["default"]
        .cost_per_accurate_answer
    )
    assert (cost.value, cost.reason) == (None, "no answer is accurate")


def test_slices_group_by_category_difficulty_and_metadata_that_groups(report):
    samples = [sample(n, metadata={"tenant": "a" if n < 3 else "b", "row": n}) for n in range(1, 5)]
    slices = report(samples).systems["default"].slices
    assert set(slices) == {"category", "difficulty", "metadata.tenant"}  # "row" tells every row apart
    assert {name: part.n for name, part in slices["category"].items()} == {"factual": 2, "conceptual": 2}
    assert slices["category"]["factual"].metrics["mrr"].n == 2


def test_queries_without_relevant_and_without_hit_are_counted(report):
    samples = [sample(1), sample(2, relevant_doc_ids=[]), sample(3, retrieved_doc_ids=["lyon"])]
    system = report(samples).systems["default"]
    assert (system.queries_without_relevant, system.queries_without_hit) == (1, 1)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_percentiles_are_numpys(values):
    percentiles = distribution([*values, None])
    assert [percentiles.p50, percentiles.p90, percentiles.p95, percentiles.p99] == pytest.approx(
        np.percentile(values, [50, 90, 95, 99]).tolist()
    )
    assert (percentiles.n, percentiles.missing) == (len(values), 1)
    assert percentiles.total == pytest.approx(math.fsum(values))


def test_the_share_of_failed_rows_leaves_out_rows_that_lacked_input():
    scores = [Score(value=1.0), Score.absent("no key", "failed"), Score.absent("no answer", "no_input")]
    metric = ScoreColumn(scores).aggregate(parse("faithfulness"), EvalConfig(), None)
    assert metric.failed / (metric.n + metric.failed) == 0.5
