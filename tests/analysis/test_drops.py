"""Gates on what a run loses against its baseline: which rows are compared, and when a drop counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_checks import check_gate, check_gates
from handmade_reports import make_report, mrr_report, row
from ragassay.analysis.gates import GateReport
from ragassay.core.models import Score
from ragassay.reporting.gates import markdown


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


def test_only_a_significant_drop_misses_a_gate_that_asks_for_it():
    before = mrr_report([0.5] * 20)
    noisy = mrr_report([0.5 + (0.3 if n % 2 else -0.32) for n in range(20)])  # down by 0.01, lost in the noise
    clear = mrr_report([0.4 + 0.001 * n for n in range(20)])  # down on every query
    gate = {"metric": "mrr", "significant": True}
    assert check_gate(noisy, gate, before).passed
    missed = check_gate(clear, gate, before)
    assert (missed.passed, missed.cause, missed.condition) == (False, "threshold", "significant")
    assert missed.p < 0.001
    assert check_gate(before, gate, clear).passed
    assert check_gate(noisy, {"metric": "mrr", "max_drop": 0.005, "significant": True}, before).passed
    assert not check_gate(clear, {"metric": "mrr", "max_drop": 0.005, "significant": True}, before).passed
    assert check_gate(
        clear, {"metric": "mrr", "max_drop": 0.2, "significant": True}, before
    ).passed  # found, and allowed
    assert not check_gate(noisy, {"metric": "mrr", "max_drop": 0.005}, before).passed


def test_too_few_queries_for_a_test_do_not_pass_as_not_significant():
    # five signs: the least two-sided p is 2 / 32 = 0.0625 > 0.05; six: 0.03125
    gate = {"metric": "mrr", "significant": True}
    missed = check_gate(mrr_report([0.1] * 5), gate, mrr_report([0.9] * 5))
    assert (missed.passed, missed.cause) == (False, "undecided")
    assert "5 queries differ, so p can't be below 0.062" in missed.reason
    assert check_gate(mrr_report([0.1] * 6), gate, mrr_report([0.9] * 6)).cause == "threshold"
    assert check_gate(mrr_report([0.9] * 5), gate, mrr_report([0.1] * 5)).passed  # no drop, so nothing to find


def test_gate_is_undecided_if_too_few_queries_differ_for_its_test():
    # 4 of 40 got worse: p can't be below 2 / 2 ** 4 = 0.125
    now = mrr_report([0.0] * 4 + [1.0] * 36)
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0.02, "significant": True}, mrr_report([1.0] * 40))
    assert (missed.passed, missed.cause) == (False, "undecided")
    assert "4 queries differ" in missed.reason


def test_gate_averages_several_answers_to_one_question_first():
    now, before = (
        make_report([row(n, query=f"question {n // 3}", mrr=value) for n, value in enumerate(values)])
        for values in ([0.1] * 15, [0.9] * 15)
    )
    missed = check_gate(now, {"metric": "mrr", "significant": True}, before)
    assert (missed.cause, missed.n) == ("undecided", 15)
    assert "5 queries differ" in missed.reason


def test_a_t_test_may_find_a_drop_on_few_queries_and_gives_no_p_where_all_drops_are_equal():
    gate = {"metric": "mrr", "significant": True}
    result = check_gate(mrr_report([0.1, 0.12, 0.11, 0.13]), gate, mrr_report([0.9] * 4), test="t")
    assert (result.cause, result.passed) == ("threshold", False)
    equal = check_gate(mrr_report([0.1] * 30), gate, mrr_report([0.9] * 30), test="t")
    assert (equal.cause, equal.p, equal.passed) == ("undecided", None, False)
    assert "no p value" in equal.reason


def test_an_unchanged_value_is_said_to_be_unchanged():
    gate = {"metric": "mrr", "max_drop": 0.1}
    assert (
        check_gate(mrr_report([0.5] * 4), gate, mrr_report([0.5] * 4)).reason
        == "mrr went from 0.500 to 0.500 (n=4): unchanged"
    )
    assert (
        check_gate(mrr_report([0.6] * 4), gate, mrr_report([0.5] * 4)).reason
        == "mrr went from 0.500 to 0.600 (n=4): better by 0.100"
    )


def test_a_figure_that_one_side_lacks_cannot_be_compared():
    before = make_report([row(n, cost=0.02, accurate=0.0) for n in range(1, 11)])
    now = make_report([row(n, cost=0.02, accurate=1.0) for n in range(1, 11)])
    missed = check_gate(now, {"metric": "cost_per_accurate_answer", "max_drop": 1.0}, before)
    assert missed.reason == "cost_per_accurate_answer can't be compared: in the baseline no answer is accurate"
    assert (missed.passed, missed.cause) == (False, "baseline")


def test_an_interval_without_an_upper_end_decides_nothing():
    few = make_report([row(n, cost=0.02, accurate=float(n == 1)) for n in range(1, 11)])
    missed = check_gate(few, {"metric": "cost_per_accurate_answer", "max": 100.0, "on": "interval"})
    assert (missed.passed, missed.cause) == (False, "undecided")
    assert "it has no upper end" in missed.reason
    short = {"metric": "latency_ms", "max_drop": 9, "on": "interval"}
    one = make_report([row(1, latency=5.0)])
    assert check_gate(one, short, one).cause == "undecided"


def test_p_values_are_corrected_for_the_number_of_tests():
    before = make_report([row(n, mrr=1.0, r_precision=1.0) for n in range(1, 8)])
    now = make_report([row(n, mrr=0.5 + n / 100, r_precision=0.4 + n / 100) for n in range(1, 8)])
    gates = [{"metric": "mrr", "significant": True}, {"metric": "r_precision", "significant": True}]
    alone = check_gate(now, gates[0], before)
    assert alone.p == pytest.approx(2 / 2**7)
    assert [r.p for r in check_gates(now, *gates, baseline=before).results] == pytest.approx([2 * alone.p] * 2)
    plain = check_gates(now, *gates, baseline=before, correction="none").results
    assert [r.p for r in plain] == pytest.approx([alone.p] * 2)


@pytest.mark.parametrize("test", ["randomisation", "t"])
def test_the_test_can_be_chosen(test):
    before, now = mrr_report([0.5 + n / 100 for n in range(20)]), mrr_report([0.4 + (n % 3) / 100 for n in range(20)])
    assert not check_gate(now, {"metric": "mrr", "significant": True}, before, test=test).passed


def test_where_the_interval_and_the_test_disagree_the_reason_says_which_decides():
    # 7 of 8 queries drop by about 0.3, one gains 0.01: as far from 0 are 4 of 2 ** 8 signs, p = 0.0156, times 4 tests
    names = ("mrr", "map", "r_precision", "bpref")
    before = make_report([row(n, **dict.fromkeys(names, 0.8)) for n in range(8)])
    now = make_report([row(n, **dict.fromkeys(names, 0.5 + n / 100 if n else 0.81)) for n in range(8)])
    gates = [{"metric": name, "significant": True} for name in names]
    results = check_gates(now, *gates, baseline=before).results
    assert {(r.passed, r.cause, r.p) for r in results} == {(True, "met", 4 * 4 / 256)}
    assert results[0].interval.low > 0
    assert results[0].reason.endswith("leaves out 0, but is not corrected for 4 tests as p is: the test decides")
    # every query drops, one by far the most: 2 of 2 ** 10 signs are as far, and the spread leaves 0 in the interval
    before, now = mrr_report([1.0] * 10), mrr_report([0.99 - n / 1000 for n in range(9)] + [0.0])
    missed = check_gate(now, gates[0], before)
    assert (missed.passed, missed.p) == (False, pytest.approx(2 / 2**10))
    assert missed.interval.contains(0.0)
    assert missed.reason.endswith("holds 0: the test decides")


def test_what_was_not_measured_alike_is_in_the_document_and_in_the_markdown():
    before = mrr_report([0.5] * 4, run="old", max_grade=2)
    gates = {"metric": "mrr", "max_drop": 0.1}
    checked = check_gates(mrr_report([0.5] * 4), gates, baseline=before)
    assert checked.cautions == ("not the same greatest grade: 2.0 and 3.0",)
    assert (
        "The baseline was not measured alike: not the same greatest grade: 2.0 and 3.0." in markdown(checked).decode()
    )
    assert check_gates(mrr_report([0.5] * 4), gates, baseline=mrr_report([0.5] * 4)).cautions == ()
    older = checked.model_dump(mode="json")
    del older["cautions"]  # a document that an earlier version wrote
    assert GateReport.model_validate(older).cautions == ()


def test_a_drop_can_be_held_to_the_worse_end_of_its_interval():
    before = mrr_report([0.5] * 20)
    now = mrr_report(
        [0.5 + (0.3 if n % 2 else -0.32) for n in range(20)]
    )  # drop 0.01 -+ 2.093 x 0.318 / sqrt(20) = -0.139..0.159
    assert check_gate(now, {"metric": "mrr", "max_drop": 0.16, "on": "interval"}, before).passed
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0.15, "on": "interval"}, before)
    assert "worst case worse by 0.159, not within 0.150" in missed.reason


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12))
def test_swapping_the_runs_turns_the_sign_of_the_drop_and_keeps_p(pairs):
    a, b = (mrr_report(list(values)) for values in zip(*pairs, strict=True))
    gate = {"metric": "mrr", "max_drop": 2.0, "significant": True}
    there, back = check_gate(b, gate, a), check_gate(a, gate, b)
    assert there.drop == -back.drop
    assert there.p == back.p
    assert (there.passed, back.passed) == (True, True)  # no score drops by more than 1


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


def test_a_zero_baseline_allows_no_relative_rise():
    before, now = (make_report([row(n, cost=value) for n in range(1, 11)]) for value in (0.0, 0.001))
    assert not check_gate(now, {"metric": "cost_usd", "relative_drop": 0.5}, before).passed
    assert check_gate(before, {"metric": "cost_usd", "relative_drop": 0.5}, before).passed


def test_a_slice_that_vanished_is_noticed_against_the_baseline():
    before = make_report([row(n, metadata={"tenant": "a" if n <= 5 else "b"}, mrr=1.0) for n in range(1, 11)])
    now = make_report([row(n, metadata={"tenant": "a"}, mrr=1.0) for n in range(1, 6)])
    results = check_gates(now, {"metric": "mrr", "max_drop": 0.1, "slice": "metadata.tenant"}, baseline=before).results
    assert [(r.slice, r.passed) for r in results] == [("metadata.tenant=a", True), ("metadata.tenant=b", False)]


def test_gate_on_a_drop_with_few_scores_still_says_what_the_drop_is():
    now, before = mrr_report([0.5] * 26 + [None] * 4), mrr_report([0.9] * 30)
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0.1, "coverage": 0.95}, before)
    assert (missed.passed, missed.cause) == (False, "coverage")
    assert "write coverage: 0.86. mrr went from 0.900 to 0.500" in missed.reason


def test_gate_on_reranking_improvement_compares_the_relative_changes():
    def made(*changes):
        return make_report(
            [
                row(n).model_copy(
                    update={"scores": {"reranking_improvement": Score(value=x, details={"ndcg_before": 0.5})}}
                )
                for n, x in enumerate(changes)
            ]
        )

    gate = {"metric": "reranking_improvement", "max_drop": 0.1}
    # mean change 0.2 of 0.5, then 0.1 of 0.5
    missed = check_gate(made(0.1, 0.1), gate, made(0.2, 0.2))
    assert (missed.value, missed.baseline, missed.drop) == pytest.approx((0.2, 0.4, 0.2))
    assert (missed.passed, missed.interval) == (False, None)
