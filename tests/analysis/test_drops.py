"""Gates on what a run loses against its baseline: which rows are compared, and when a drop counts."""

import pytest

from gate_checks import check_gate, check_gates
from handmade_reports import make_report, mrr_report, row
from ragassay.core.models import Score
from ragassay.reporting.gates import EXPORTERS


def test_a_drop_is_measured_on_the_queries_of_both_runs():
    before, now = mrr_report([0.8] * 20), mrr_report([0.78] * 20)
    assert check_gate(
        now, {"metric": "mrr", "max_drop": 0.02}, before
    ).passed  # 0.80 - 0.78, though binary says a little more
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0.01}, before)
    assert (missed.drop, missed.baseline, missed.value) == (
        pytest.approx(0.02),
        pytest.approx(0.8),
        pytest.approx(0.78),
    )
    assert missed.reason == "mrr went from 0.800 to 0.780 (n=20): worse by 0.020, not within 0.010"
    assert check_gate(now, {"metric": "mrr", "relative_drop": 0.025}, before).passed  # 0.02 / 0.8
    assert not check_gate(now, {"metric": "mrr", "relative_drop": 0.024}, before).passed
    assert check_gate(before, {"metric": "mrr", "max_drop": 0.0}, now).passed  # it got better


def test_where_lower_is_better_a_rise_is_the_drop():
    before, now = (make_report([row(n, latency=value) for n in range(1, 11)]) for value in (100.0, 120.0))
    assert check_gate(now, {"metric": "latency_ms", "max_drop": 20}, before).passed
    missed = check_gate(now, {"metric": "latency_ms", "relative_drop": 0.1}, before)
    assert (missed.passed, missed.drop, missed.name) == (False, 20.0, "default: latency_ms rise <= 10 %")
    assert check_gate(before, {"metric": "latency_ms.p95", "max_drop": 0}, now).passed


def test_gate_is_missed_by_a_drop_beyond_its_limit_only_if_the_interval_lies_above_0():
    before = mrr_report([0.5] * 20)
    noisy = mrr_report([0.5 + (0.3 if n % 2 else -0.32) for n in range(20)])
    clear = mrr_report([0.4 + 0.001 * n for n in range(20)])
    gate = {"metric": "mrr", "max_drop": 0.005}
    met = check_gate(noisy, gate, before)  # drop 0.01 -+ 2.093 x 0.318 / sqrt(20) = -0.139..0.159
    assert (met.passed, met.cause) == (True, "met")
    assert met.reason.endswith("not shown: the 95 % interval of the drop, -0.1389..0.1589, holds 0")
    missed = check_gate(clear, gate, before)
    assert (missed.cause, missed.interval.low > 0) == ("threshold", True)
    assert check_gate(clear, {"metric": "mrr", "max_drop": 0.2}, before).passed  # shown, and allowed
    assert check_gate(before, {"metric": "mrr", "max_drop": 0}, clear).passed  # better on every query


@pytest.mark.parametrize(("differ", "cause"), [(1, "undecided"), (5, "undecided"), (6, "threshold")])
def test_gate_is_undecided_if_too_few_queries_differ_to_show_a_drop(differ, cause):
    # five signs: the least two-sided p is 2 / 32 = 0.0625 > 0.05; six: 0.03125
    now, before = mrr_report([0.0] * differ + [1.0] * 14), mrr_report([1.0] * (differ + 14))
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0.02}, before)
    assert (missed.passed, missed.cause) == (False, cause)
    assert (f"only {differ} quer" in missed.reason) is (cause == "undecided")
    assert check_gate(before, {"metric": "mrr", "max_drop": 0.02}, now).passed  # no drop, so nothing to show


def test_gate_averages_several_answers_to_one_question_first():
    now, before = (
        make_report([row(n, query=f"question {n // 3}", mrr=value) for n, value in enumerate(values)])
        for values in ([0.1] * 15, [0.9] * 15)
    )
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0}, before)
    assert (missed.cause, missed.n) == ("undecided", 15)
    assert "only 5 queries differ" in missed.reason


def test_a_figure_that_one_side_lacks_cannot_be_compared():
    before = make_report([row(n, cost=0.02, accurate=0.0) for n in range(1, 11)])
    now = make_report([row(n, cost=0.02, accurate=1.0) for n in range(1, 11)])
    missed = check_gate(now, {"metric": "cost_per_accurate_answer", "max_drop": 1.0}, before)
    assert missed.reason == "cost_per_accurate_answer can't be compared: in the baseline no answer is accurate"
    assert (missed.passed, missed.cause) == (False, "baseline")


def test_what_was_not_measured_alike_is_in_the_document_and_in_the_markdown():
    before = mrr_report([0.5] * 4, run="old", max_grade=2)
    gates = {"metric": "mrr", "max_drop": 0.1}
    checked = check_gates(mrr_report([0.5] * 4), gates, baseline=before)
    assert checked.cautions == ("not the same greatest grade: 2.0 and 3.0",)
    assert (
        "The baseline was not measured alike: not the same greatest grade: 2.0 and 3.0."
        in EXPORTERS.whole(checked, "md").decode()
    )
    assert check_gates(mrr_report([0.5] * 4), gates, baseline=mrr_report([0.5] * 4)).cautions == ()


def test_queries_that_one_run_lacks_are_not_compared_and_count_against_the_floor():
    before = mrr_report([0.5] * 10)
    missed = check_gate(mrr_report([0.9] * 8), {"metric": "mrr", "max_drop": 0.1}, before)
    assert "8 of 10 queries of the baseline are scored in both runs (80.0%)" in missed.reason
    assert check_gate(mrr_report([0.9] * 8), {"metric": "mrr", "max_drop": 0.1, "coverage": 0.8}, before).passed
    grown = check_gate(mrr_report([0.5] * 10 + [0.0] * 10), {"metric": "mrr", "max_drop": 0.1}, before)
    assert (grown.passed, grown.value, grown.n) == (True, 0.5, 10)  # the new queries have no earlier score


def test_the_same_id_with_another_question_is_another_query():
    now = make_report([row(n, query=f"other {n}", mrr=0.5) for n in range(1, 11)])
    missed = check_gate(now, {"metric": "mrr", "max_drop": 1.0}, mrr_report([0.5] * 10))
    assert (missed.cause, missed.n) == ("baseline", 0)


def test_a_slice_that_vanished_is_noticed_against_the_baseline():
    before = make_report([row(n, metadata={"tenant": "a" if n <= 5 else "b"}, mrr=1.0) for n in range(1, 11)])
    now = make_report([row(n, metadata={"tenant": "a"}, mrr=1.0) for n in range(1, 6)])
    results = check_gates(now, {"metric": "mrr", "max_drop": 0.1, "slice": "metadata.tenant"}, baseline=before).results
    assert [(r.slice, r.passed) for r in results] == [("metadata.tenant=a", True), ("metadata.tenant=b", False)]


def reranked(*changes, before=0.5):
    """A report of changes of NDCG by reranking; ``before``: what it was on each query."""
    scores = [Score(value=change, details={"ndcg_before": before}) for change in changes]
    return make_report(
        [row(n).model_copy(update={"scores": {"reranking_improvement": x}}) for n, x in enumerate(scores)]
    )


def test_gate_on_reranking_improvement_compares_the_relative_changes():
    gate = {"metric": "reranking_improvement", "max_drop": 0.1}
    # mean change 0.2 of 0.5, then 0.1 of 0.5
    missed = check_gate(reranked(0.1, 0.1), gate, reranked(0.2, 0.2))
    assert (missed.value, missed.baseline, missed.drop) == pytest.approx((0.2, 0.4, 0.2))
    assert (missed.passed, missed.interval) == (False, None)
