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
def system(tmp_path):
    """The report of one system on samples."""
    return lambda samples, spec=None: evaluated(new_run(tmp_path, samples, spec)).systems["default"]


def test_mean_travels_with_its_count_its_interval_what_is_missing_and_its_bounds(system):
    metric = system([sample(1), sample(2), sample(3, response=Response(answer="Paris."))]).metrics["mrr"]
    assert (metric.value, metric.n, metric.unscored, metric.failed) == (1.0, 2, 1, 0)
    assert metric.missing == {"the response has no retrieved_doc_ids": 1}
    assert metric.interval.low is not None
    # two rows score 1, one is missing: worst (1 + 1 + 0) / 3, best (1 + 1 + 1) / 3
    assert (metric.bounds.worst, metric.bounds.best) == (pytest.approx(2 / 3), 1.0)


def test_cost_per_accurate_answer_divides_all_cost_by_the_accurate_ones(system):
    rows = [sample(1, cost_usd=0.02), sample(2, cost_usd=0.03), sample(3, cost_usd=0.01, response=None)]
    cost = system(rows).cost_per_accurate_answer
    # both answered rows are accurate: (0.02 + 0.03) / 2; the third has neither cost nor accuracy
    assert cost.value == pytest.approx(0.025)
    assert (cost.accurate, cost.n, cost.unscored) == (2, 2, 1)
    none = system(rows, EvalConfig(accurate="faithfulness > 1")).cost_per_accurate_answer
    assert (none.value, none.reason) == (None, "no answer is accurate")


def test_slices_group_by_category_difficulty_and_metadata_that_groups(system):
    samples = [sample(n, metadata={"tenant": "a" if n < 3 else "b", "row": n}) for n in range(1, 5)]
    slices = system(samples).slices
    assert set(slices) == {"category", "difficulty", "metadata.tenant"}  # "row" tells every row apart
    assert {name: part.n for name, part in slices["category"].items()} == {"factual": 2, "conceptual": 2}
    assert slices["category"]["factual"].metrics["mrr"].n == 2


def test_queries_without_relevant_and_without_hit_are_counted(system):
    report = system([sample(1), sample(2, relevant_doc_ids=[]), sample(3, retrieved_doc_ids=["lyon"])])
    assert (report.queries_without_relevant, report.queries_without_hit) == (1, 1)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_distribution_has_numpys_percentiles(values):
    found = distribution([*values, None])
    expected = np.percentile(values, [50, 90, 95, 99]).tolist()
    assert [found.p50, found.p90, found.p95, found.p99] == pytest.approx(expected)
    assert (found.n, found.missing, found.total) == (len(values), 1, pytest.approx(math.fsum(values)))


def test_share_of_failed_rows_leaves_out_rows_that_lacked_input():
    scores = [Score(value=1.0), Score.absent("no key", "failed"), Score.absent("no answer", "no_input")]
    metric = ScoreColumn(scores).aggregate(parse("faithfulness"), EvalConfig(), None)
    assert (metric.failed, metric.n) == (1, 1)
