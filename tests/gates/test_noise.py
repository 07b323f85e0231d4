"""Gates that are finer than the judge's own noise."""

import math

import pytest

from gate_checks import check_gate, check_gates
from handmade_reports import make_report
from handmade_reports import row as made
from ragassay.models import Score

Z = 1.959964


def judged(number, *values, metric="faithfulness", **more):
    """A row with that many judgings."""
    value = values[0] if metric == "accurate" else sum(values) / len(values)
    row = made(number, **{metric: value}, **more)
    kept = {"judgings": list(values)}
    return row.model_copy(update={"scores": {metric: Score(value=value, details=kept)}})


def report_of(rows, **spec):
    return make_report(rows, judge="openai/tiny", **{"repeat": 2, **spec})


def noisy(n=40, level=0.7, **more):
    """Each answer is judged 0.1 above and 0.1 below: the variance of a judging is 0.02."""
    return [judged(k, level - 0.1, level + 0.1, **more) for k in range(n)]


ERROR = math.sqrt(0.02 / 2 / 40)  # of a mean of 40 rows with two judgings each
LEAST = Z * math.sqrt(2) * ERROR  # 0.0438


def test_a_drop_that_the_judge_alone_could_make_is_refused_with_what_would_be_needed():
    gate = {"metric": "faithfulness", "max_drop": 0.02}
    result = check_gate(report_of(noisy()), gate, report_of(noisy(level=0.71), run="run-0"))
    assert (result.passed, result.cause) == (False, "undecided")
    assert f"not decidable: the judge alone makes differences up to {LEAST:.3f}" in result.reason
    rows = math.ceil(40 * (LEAST / 0.02) ** 2)
    repeat = math.ceil(2 * (LEAST / 0.02) ** 2)
    assert f"{rows} rows, or repeat: {repeat} in both runs, would tell it" in result.reason
    assert (rows, repeat) == (193, 10)


@pytest.mark.parametrize(
    ("gate", "before", "cause"),
    [
        ({"max_drop": 0.05}, 0.71, "met"),  # coarser than the noise
        ({"max_drop": 0.02}, 0.60, "met"),  # better by more than the noise
        ({"max_drop": 0.02}, 0.80, "threshold"),  # worse by more than the noise
        ({"max_drop": 0.02}, 0.70, "undecided"),  # unchanged, as far as the noise lets one see
        ({"max_drop": 0.0}, 0.70, "undecided"),
        ({"relative_drop": 0.02}, 0.71, "undecided"),
        ({"relative_drop": 0.10}, 0.71, "met"),
        ({"max_drop": 0.02, "significant": True}, 0.71, "met"),  # where a test decides, it takes the noise into account
        ({"significant": True}, 0.71, "threshold"),
    ],
)
def test_only_gates_finer_than_the_noise_are_refused_and_only_where_the_difference_lies_within_it(gate, before, cause):
    result = check_gate(report_of(noisy()), {"metric": "faithfulness", **gate}, report_of(noisy(level=before), run="b"))
    assert result.cause == cause, result.reason


def test_an_interval_has_the_noise_in_it_so_its_gate_is_not_refused():
    now = [judged(k, 0.6 + k % 2 / 100, 0.8) for k in range(40)]
    gate = {"metric": "faithfulness", "max_drop": 0.02, "on": "interval"}
    assert check_gate(report_of(now), gate, report_of(noisy(), run="b")).cause == "met"


def test_no_drop_at_all_can_not_be_told_however_much_is_judged():
    result = check_gate(report_of(noisy()), {"metric": "faithfulness", "max_drop": 0}, report_of(noisy(), run="b"))
    assert "no number of rows or judgings tells so small a drop" in result.reason


def test_more_judgings_than_there_can_be_are_told_as_such():
    gate = {"metric": "faithfulness", "max_drop": 0.01}
    result = check_gate(report_of(noisy()), gate, report_of(noisy(), run="b"))
    assert "repeat: 39 in both runs (more than the 10 that there can be), would tell it" in result.reason


def test_a_baseline_that_was_judged_once_counts_with_the_noise_of_one_judging():
    once = make_report([made(k, faithfulness=0.7) for k in range(40)], run="b")
    least = Z * math.sqrt(0.02 / 2 / 40 + 0.02 / 40)
    result = check_gate(report_of(noisy()), {"metric": "faithfulness", "max_drop": 0.02}, once)
    assert f"differences up to {least:.3f}" in result.reason


def test_a_slice_has_the_noise_of_its_own_rows_and_the_variance_of_all():
    now = [*noisy(30, category="a"), *[judged(k, 0.7, 0.7, category="b") for k in range(30, 40)]]
    gate = {"metric": "faithfulness", "max_drop": 0.02, "slice": "category"}
    a, b = check_gates(report_of(now), gate, baseline=report_of(now, run="b")).results
    variance = 30 * 0.02 / 40
    assert f"up to {Z * math.sqrt(2 * variance / 2 / 30):.3f}" in a.reason
    assert f"up to {Z * math.sqrt(2 * variance / 2 / 10):.3f}" in b.reason  # all equal here, which ten rows don't show


def test_a_share_is_decided_once_so_more_judgings_are_no_way_out():
    rows = [judged(k, 1.0, float(k % 2), metric="accurate") for k in range(40)]
    result = check_gate(report_of(rows), {"metric": "accurate", "max_drop": 0.05}, report_of(rows, run="b"))
    variance = 20 * 0.5 / 40
    least = Z * math.sqrt(2 * variance / 40)
    assert f"differences up to {least:.3f}" in result.reason
    assert f"{math.ceil(40 * (least / 0.05) ** 2)} rows would tell it" in result.reason


@pytest.mark.parametrize(("bound", "told"), [(0.69, True), (0.71, True), (0.6, False), (0.8, False)])
def test_a_mean_nearer_to_its_threshold_than_the_noise_reaches_gets_a_caution(bound, told):
    for gate in ({"min": bound}, {"max": bound}):
        result = check_gate(report_of(noisy()), {"metric": "faithfulness", **gate})
        assert result.cause == ("met" if ("min" in gate) == (bound <= 0.7) else "threshold")
        assert (f"the judge's own noise is +- {Z * ERROR:.3f}" in result.reason) == told


def test_without_judgings_and_for_figures_without_a_judge_nothing_is_refused():
    plain = make_report([made(k, faithfulness=0.7, mrr=0.5) for k in range(40)])
    for metric in ("faithfulness", "mrr"):
        assert check_gate(plain, {"metric": metric, "max_drop": 0.001}, plain.model_copy()).passed
    rows = [row.model_copy(update={"latency_ms": 5.0}) for row in noisy()]
    gate = {"metric": "latency_ms.p95", "max_drop": 0.001}
    assert check_gate(report_of(rows), gate, report_of(rows, run="b")).passed
