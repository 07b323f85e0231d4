"""What a gate says, alone, against a baseline and with labels; and the many ways in which it must not pass."""

import random
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gate_checks import check_gate, check_gates
from handmade_reports import make_report, mrr_report, row, rows
from ragassay.analysis.gates import Gate, check
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadSettings, NothingToEvaluate
from ragassay.reporting.gates import EXPORTERS
from ragassay.reporting.junit import gated


def test_a_minimum_is_met_at_the_threshold_and_missed_below_it():
    report = mrr_report([1.0, 0.5, 0.6])  # mean 2.1 / 3 = 0.7
    assert check_gate(report, {"metric": "mrr", "min": 0.7}).passed
    missed = check_gate(report, {"metric": "mrr", "min": 0.71})
    assert (missed.passed, missed.cause) == (False, "threshold")
    assert missed.reason == "mrr is 0.700, not >= 0.710 (n=3)"


def test_a_maximum_is_met_at_the_threshold_and_missed_above_it():
    report = make_report([row(n, latency=100.0 * n, mrr=1.0) for n in range(1, 22)])
    # 21 latencies 100..2100: p95 is the 20th, 2000; the mean is 1100
    assert check_gate(report, {"metric": "latency_ms.p95", "max": 2000}).passed
    missed = check_gate(report, {"metric": "latency_ms.p95", "max": 1999})
    assert missed.reason == "latency_ms.p95 is 2000.000, not <= 1999.000 (n=21)"
    assert check_gate(report, {"latency_ms": "<= 1100"}).passed
    assert check_gate(report, {"metric": "latency_ms.total", "max": 23100}).value == 23100


def test_nothing_above_a_maximum_of_0_passes():
    report = make_report([row(n, cost=1e-10, mrr=1.0) for n in range(1, 4)])
    assert not check_gate(report, {"metric": "cost_usd", "max": 0}).passed


NOTHING_SCORED = {
    "every score failed": mrr_report([None] * 10),
    "the metric was not asked for": make_report(rows([1.0] * 10, metric="map")),
    "no rows": make_report([row(1, mrr=1.0)]).model_copy(
        update={"systems": {"default": mrr_report([]).systems["default"]}}
    ),
}
ANY_GATE = [
    {"metric": "mrr", "max": 1.0},
    {"metric": "mrr", "min": 0.0, "coverage": 0.001},
    {"metric": "mrr", "relative_drop": 10.0},
    {"metric": "latency_ms.p95", "max": 1e9},
    {"metric": "cost_per_accurate_answer", "max": 1e9},
]


@pytest.mark.parametrize("gate", ANY_GATE, ids=str)
@pytest.mark.parametrize("case", NOTHING_SCORED)
def test_a_gate_never_passes_where_nothing_was_scored(case, gate):
    for baseline in (mrr_report([0.5] * 10), NOTHING_SCORED[case]):
        result = check_gate(NOTHING_SCORED[case], gate, baseline)
        assert not result.passed
        assert result.cause in ("missing", "coverage", "baseline")


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=30), st.floats(0.01, 1))
def test_a_gate_passes_only_at_its_coverage_floor_or_above(values, floor):
    result = check_gate(mrr_report(values), {"metric": "mrr", "min": 0.0, "coverage": floor})
    scored = sum(value is not None for value in values)
    assert result.passed == (scored > 0 and scored / len(values) >= floor)
    assert (result.n, result.rows) == (scored, len(values))


def test_rows_that_were_not_scored_miss_the_floor_and_say_so():
    missed = check_gate(mrr_report([1.0] * 18 + [None] * 2), {"metric": "mrr", "min": 0.5})
    assert (missed.cause, missed.coverage) == ("coverage", 0.9)
    assert (
        "18 of 20 rows have a score (90.0%), the gate requires 95.0% (2 without one: the judge failed)" in missed.reason
    )
    assert missed.reason.endswith("write coverage: 0.9.")
    assert check_gate(mrr_report([1.0] * 19 + [None]), {"metric": "mrr", "min": 0.5}).passed


def test_an_incomplete_run_passes_no_gate():
    missed = check_gate(mrr_report([1.0] * 10, expected=11), {"metric": "mrr", "min": 0.5})
    assert missed.reason == "the run is incomplete: it has 10 of 11 rows"
    assert not missed.passed


def test_every_system_is_held_to_a_gate_that_names_none():
    report = make_report({"a": rows([1.0] * 4, system="a"), "b": rows([0.0] * 4, system="b")})
    assert [(r.system, r.passed) for r in check_gates(report, {"mrr": ">= 0.5"}).results] == [("a", True), ("b", False)]
    assert check_gate(report, {"metric": "mrr", "min": 0.5, "system": "a"}).passed
    missing = check_gate(report, {"metric": "mrr", "min": 0.5, "system": "c"})
    assert (missing.passed, missing.cause) == (False, "missing")


def test_a_baseline_system_is_that_of_the_same_name_or_a_lone_or_a_named_one():
    now = make_report({"new": rows([0.5] * 8, system="new")})
    lone = make_report({"old": rows([0.5] * 8, system="old")})
    two = make_report({"old": rows([0.9] * 8, system="old"), "older": rows([0.5] * 8, system="older")})
    gate = {"metric": "mrr", "max_drop": 0.1}
    assert check_gate(now, gate, lone).passed
    assert check_gate(now, gate, two).cause == "baseline"
    assert check_gate(now, gate, two, baseline_system="older").passed
    assert not check_gate(now, gate, two, baseline_system="old").passed


def test_a_slice_is_judged_by_its_own_rows():
    report = make_report([row(n, category="easy" if n <= 5 else "hard", mrr=float(n <= 5)) for n in range(1, 11)])
    assert check_gate(report, {"metric": "mrr", "min": 1, "slice": "category=easy"}).passed
    every = check_gates(report, {"metric": "mrr", "min": 1, "slice": "category"}).results
    assert [(r.slice, r.passed, r.rows) for r in every] == [("category=easy", True, 5), ("category=hard", False, 5)]
    for slice_ in ("category=none", "metadata.tenant", "difficulty"):
        missed = check_gate(report, {"metric": "mrr", "min": 0, "slice": slice_})
        assert (missed.passed, missed.cause) == (False, "missing")


def test_the_value_of_a_gate_is_that_of_the_report():
    report = make_report([row(n, mrr=1 / n, accurate=float(n % 2), cost=0.01 * n) for n in range(1, 12)])
    system = report.systems["default"]
    for name, own in (("mrr", system.metrics["mrr"]), ("cost_per_accurate_answer", system.cost_per_accurate_answer)):
        result = check_gate(report, {"metric": name, "max": 1})
        assert (result.value, result.interval) == (own.value, own.interval)


@pytest.mark.parametrize("bound", ["1000000", "1e6", "1e+06", "+1E6"])
def test_the_bound_of_a_short_gate_is_any_spelling_of_a_number(bound):
    assert ProjectConfig.model_validate({"gates": [{"cost_usd.total": f"<= {bound}"}]}).gates[0].max == 1e6


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        ({"metric": "mrr"}, "has no threshold"),
        ({"metric": "mmr", "min": 1}, "did you mean"),
        ({"metric": "mrr.p95", "min": 1}, "percentiles"),
        ({"metric": "mrr", "min": 0.9, "max": 0.1}, "nothing could pass"),
        ({"metric": "mrr", "min": float("nan")}, "finite"),
        ({"metric": "mrr", "min": 1, "slice": "tenant=a"}, "metadata.NAME"),
        ({"mrr": "at least 0.7"}, 'mrr: ">= 0.7"'),
        ({"mrr": ">= nan"}, ">= nan"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(gate, says):
    with pytest.raises(ValidationError, match=re.escape(says)):
        ProjectConfig.model_validate({"gates": [gate]})


def test_no_gate_or_no_baseline_is_an_error_and_not_a_pass():
    with pytest.raises(BadSettings, match="no gate"):
        check(mrr_report([1.0]), [])
    with pytest.raises(NothingToEvaluate, match="no system"):
        check(mrr_report([1.0]).model_copy(update={"systems": {}}), [Gate(metric="mrr", min=0.0)])
    with pytest.raises(BadSettings, match="--baseline"):
        check(mrr_report([1.0]), [Gate(metric="mrr", max_drop=0.1)])


# --- against a baseline ---


def test_a_drop_is_measured_on_the_queries_of_both_runs():
    before, now = mrr_report([0.8] * 20), mrr_report([0.78] * 20)
    # 0.80 - 0.78, though binary says a little more
    assert check_gate(now, {"metric": "mrr", "max_drop": 0.02}, before).passed
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0.01}, before)
    assert (missed.drop, missed.baseline, missed.value) == pytest.approx((0.02, 0.8, 0.78))
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
    assert met.reason.endswith("not shown: the 95 % interval of the drop, -0.139..0.159, holds 0")
    missed = check_gate(clear, gate, before)
    assert (missed.cause, missed.interval.low > 0) == ("threshold", True)
    assert check_gate(clear, {"metric": "mrr", "max_drop": 0.2}, before).passed  # shown, and allowed
    assert check_gate(before, {"metric": "mrr", "max_drop": 0}, clear).passed  # better on every query


def test_a_drop_that_is_not_shown_is_written_as_its_metric_is():
    before, now = (make_report(rows(values, metric="gate_efficiency")) for values in ([1, 0] * 10, [0, 1] * 9 + [0, 0]))
    met = check_gate(now, {"metric": "gate_efficiency", "max_drop": 0.005}, before)  # 9 better, 10 worse
    low, high = met.interval.low, met.interval.high
    assert met.reason.startswith(
        "gate_efficiency went from 50 % to 45 % (n=20): worse by 5 points, not within 0.5 points"
    )
    assert met.reason.endswith(f"interval of the drop, {100 * low:.3g} points..{100 * high:.3g} points, holds 0")


@pytest.mark.parametrize(("differ", "cause"), [(1, "undecided"), (5, "undecided"), (6, "threshold")])
def test_gate_is_undecided_if_too_few_queries_differ_to_show_a_drop(differ, cause):
    # five signs: the least two-sided p is 2 / 32 = 0.0625 > 0.05; six: 0.03125
    now, before = mrr_report([0.0] * differ + [1.0] * 14), mrr_report([1.0] * (differ + 14))
    missed = check_gate(now, {"metric": "mrr", "max_drop": 0.02}, before)
    assert (missed.passed, missed.cause) == (False, cause)
    assert (f"only {differ} quer{'y' if differ == 1 else 'ies'} differ" in missed.reason) is (cause == "undecided")
    assert check_gate(before, {"metric": "mrr", "max_drop": 0.02}, now).passed  # no drop, so nothing to show


def test_queries_that_one_run_lacks_are_not_compared_and_count_against_the_floor():
    before = mrr_report([0.5] * 10)
    missed = check_gate(mrr_report([0.9] * 8), {"metric": "mrr", "max_drop": 0.1}, before)
    assert "8 of 10 rows have a score (80.0%), the gate requires 95.0% (2 without one: not scored in both runs)" in (
        missed.reason
    )
    assert check_gate(mrr_report([0.9] * 8), {"metric": "mrr", "max_drop": 0.1, "coverage": 0.8}, before).passed
    grown = check_gate(mrr_report([0.5] * 10 + [0.0] * 10), {"metric": "mrr", "max_drop": 0.1}, before)
    assert (grown.passed, grown.value, grown.n) == (True, 0.5, 10)  # the new queries have no earlier score


def test_a_slice_that_vanished_is_noticed_against_the_baseline():
    before = make_report([row(n, metadata={"tenant": "a" if n <= 5 else "b"}, mrr=1.0) for n in range(1, 11)])
    now = make_report([row(n, metadata={"tenant": "a"}, mrr=1.0) for n in range(1, 6)])
    results = check_gates(now, {"metric": "mrr", "max_drop": 0.1, "slice": "metadata.tenant"}, baseline=before).results
    assert [(r.slice, r.passed) for r in results] == [("metadata.tenant=a", True), ("metadata.tenant=b", False)]


# --- labels ---


def labelled(*, people=0.6, judge_errs=0.5, labels=100, seed=0, run="run-1"):
    """A report on 400 rows of which people call a share right, and the judge those as well and some of the others."""
    draw, made = random.Random(seed), []
    for n in range(400):
        right = draw.random() < people
        one = row(n, faithfulness=float(right or draw.random() < judge_errs))
        made.append(one.with_labels({"faithfulness": float(right)}) if n < labels else one)
    return make_report(made, run=run)


def test_a_gate_goes_by_the_corrected_mean_and_says_so():
    report = labelled()
    mean = report.systems["default"].metrics["faithfulness"]
    assert mean.value > 0.75 > mean.corrected.interval.high  # the judge is too kind: 0.6 + 0.4 * 0.5
    missed = check_gate(report, {"metric": "faithfulness", "min": 0.7})
    assert (missed.passed, missed.cause) == (False, "threshold")
    assert (missed.corrected_by, missed.uncorrected) == (100, mean.value)
    assert (missed.value, missed.interval) == (mean.corrected.value, mean.corrected.interval)
    assert missed.reason == f"faithfulness is {missed.value:.3f}, not >= 0.700 (n=400, corrected by 100 labels)"
    assert check_gate(report, {"metric": "faithfulness", "min": mean.corrected.value}).passed
    unlabelled = check_gate(labelled(labels=0), {"metric": "faithfulness", "min": 0.7})
    assert (unlabelled.passed, unlabelled.corrected_by, unlabelled.uncorrected) == (True, None, None)


def test_too_few_labels_leave_a_gate_to_the_judge_and_that_is_said():
    result = check_gate(labelled(labels=9), {"metric": "faithfulness", "min": 0.7})
    assert (result.passed, result.corrected_by) == (True, None)
    assert result.reason.endswith(
        "(n=400, not corrected: a correction needs 10 questions with a label and a score, there are 9)"
    )


def test_a_drop_that_people_see_and_the_judge_does_not_misses_its_gates():
    before, now = labelled(people=0.8, judge_errs=0.2), labelled(people=0.5, judge_errs=0.7, seed=1, run="now")
    judged = [report.systems["default"].metrics["faithfulness"].value for report in (before, now)]
    assert abs(judged[0] - judged[1]) < 0.05
    for more in ({"max_drop": 0.1}, {"relative_drop": 0.15}):
        missed = check_gate(now, {"metric": "faithfulness", **more}, before)
        assert (missed.passed, missed.cause, missed.corrected_by) == (False, "threshold", 100), more
        assert "(n=400, corrected by 100 labels): " in missed.reason
        assert missed.drop == pytest.approx(0.3, abs=0.12)
        assert missed.baseline - missed.value == pytest.approx(missed.drop)
        assert missed.uncorrected == pytest.approx(judged[1])
        assert missed.interval.low <= missed.drop <= missed.interval.high
    back = check_gate(before, {"metric": "faithfulness", "max_drop": 0}, now)
    assert (back.passed, back.drop) == (True, pytest.approx(-missed.drop))


# --- what a pipeline reads ---

NASTY = 'a|b <c> & "d" `e` \x07\ud7ff\n*f*'


@pytest.fixture
def mixed():
    report = make_report({"good": rows([1.0] * 4, system="good"), NASTY: rows([0.0] * 4, system=NASTY)}, dataset=NASTY)
    return check_gates(report, {"mrr": ">= 0.5"}, {"metric": "mrr", "max": 0.1, "system": "none"})


def test_junit_has_a_case_for_each_gate_and_survives_any_text(mixed):
    suite = ElementTree.fromstring(b"".join(gated(mixed))).find("testsuite")
    cases = suite.findall("testcase")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
    assert [case.get("name") for case in cases] == [r.name.replace("\x07", "\\u0007") for r in mixed.results]
    assert [case.find("failure") is None for case in cases] == [r.passed for r in mixed.results]
    assert cases[1].find("failure").get("message") == "mrr is 0.000, not >= 0.500 (n=4)"
    assert [case.find("failure").get("type") for case in cases[1:]] == ["threshold", "missing"]


def test_markdown_has_a_marker_first_and_one_line_for_each_gate(mixed):
    first, *lines = EXPORTERS.whole(mixed, "md").decode().splitlines()
    assert first == "<!-- ragassay gates -->"
    assert lines[0] == "# ragassay: 2 of 3 gates missed"
    table = [line for line in lines if line.startswith("| ")]
    assert len(table) == 2 + 3
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 6 for line in table)
    assert [("MISSED" in line) for line in table[2:]] == [True, True, False]
    assert "<c>" not in "".join(lines).replace("\\<c\\>", "")
