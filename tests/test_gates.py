"""What a gate says, with the arithmetic beside it; and the many ways in which it must not pass."""

import json
import re
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gating import mrr, report, row, rows
from ragassay.errors import BadSettings, NothingToEvaluate, UnknownName
from ragassay.gates import Gate, GateList, GateReport, check, files

READ = TypeAdapter(GateList)


def ask(found, *gates, baseline=None, **more):
    """The results of gates in the form in which a configuration has them."""
    return check(found, READ.validate_python(list(gates)), baseline, **more)


def only(found, gate, baseline=None, **more):
    (result,) = ask(found, gate, baseline=baseline, **more).results
    return result


def test_a_minimum_is_met_at_the_threshold_and_missed_below_it():
    found = mrr([1.0, 0.5, 0.6])  # mean 2.1 / 3 = 0.7
    assert only(found, {"metric": "mrr", "min": 0.7}).passed
    missed = only(found, {"metric": "mrr", "min": 0.71})
    assert (missed.passed, missed.cause) == (False, "threshold")
    assert missed.reason == "mrr is 0.700, not >= 0.710 (n=3)"


def test_a_maximum_is_met_at_the_threshold_and_missed_above_it():
    found = report([row(n, latency=100.0 * n, mrr=1.0) for n in range(1, 22)])
    # 21 latencies 100..2100: p95 is the 20th, 2000; the mean is 1100
    assert only(found, {"metric": "latency_ms.p95", "max": 2000}).passed
    assert (
        only(found, {"metric": "latency_ms.p95", "max": 1999}).reason
        == "latency_ms.p95 is 2000.000, not <= 1999.000 (n=21)"
    )
    assert only(found, {"latency_ms": "<= 1100"}).passed
    assert only(found, {"metric": "latency_ms.total", "max": 23100}).value == 23100


def test_cost_per_accurate_answer_divides_all_cost_by_the_accurate_ones():
    found = report([row(n, cost=0.02, accurate=float(n <= 5)) for n in range(1, 11)])
    result = only(found, {"metric": "cost_per_accurate_answer", "max": 0.04})  # 10 x 0.02 / 5
    assert (result.passed, result.value) == (True, pytest.approx(0.04))
    none = report([row(n, cost=0.02, accurate=0.0) for n in range(1, 11)])
    missed = only(none, {"metric": "cost_per_accurate_answer", "max": 0.04})
    assert (missed.cause, missed.reason) == ("missing", "cost_per_accurate_answer has no value: no answer is accurate")


def test_both_thresholds_of_a_gate_are_checked():
    assert [r.condition for r in ask(mrr([0.5, 0.6]), {"metric": "mrr", "min": 0.1, "max": 0.2}).results] == [
        "min",
        "max",
    ]


def test_an_interval_must_clear_the_threshold_with_its_worse_end():
    found = report([row(n, latency=600.0 + 100 * (n % 4)) for n in range(20)])
    # mean 750; t interval of 20 values: 750 -+ 2.093 x 114.7 / sqrt(20) = 696.3..803.7
    assert only(found, {"metric": "latency_ms", "min": 696, "on": "interval"}).passed
    missed = only(found, {"metric": "latency_ms", "min": 700, "on": "interval"})
    assert (missed.passed, missed.value) == (False, 750.0)
    assert missed.reason == "the lower bound of latency_ms is 696.315, not >= 700.000 (n=20)"
    assert only(found, {"metric": "latency_ms", "max": 804, "on": "interval"}).passed
    assert not only(found, {"metric": "latency_ms", "max": 803, "on": "interval"}).passed


def test_without_an_interval_a_gate_on_it_is_undecided():
    missed = only(report([row(1, latency=5.0)]), {"metric": "latency_ms", "max": 10, "on": "interval"})
    assert (missed.passed, missed.cause) == (False, "undecided")


def test_a_drop_is_measured_on_the_queries_of_both_runs():
    before, now = mrr([0.8] * 20), mrr([0.78] * 20)
    assert only(
        now, {"metric": "mrr", "max_drop": 0.02}, before
    ).passed  # 0.80 - 0.78, though binary says a little more
    missed = only(now, {"metric": "mrr", "max_drop": 0.01}, before)
    assert (missed.drop, missed.baseline, missed.value) == (
        pytest.approx(0.02),
        pytest.approx(0.8),
        pytest.approx(0.78),
    )
    assert missed.reason == "mrr went from 0.800 to 0.780 (n=20): worse by 0.020, not within 0.010"
    assert only(now, {"metric": "mrr", "relative_drop": 0.025}, before).passed  # 0.02 / 0.8
    assert not only(now, {"metric": "mrr", "relative_drop": 0.024}, before).passed
    assert only(before, {"metric": "mrr", "max_drop": 0.0}, now).passed  # it got better


def test_where_lower_is_better_a_rise_is_the_drop():
    before, now = (report([row(n, latency=value) for n in range(1, 11)]) for value in (100.0, 120.0))
    assert only(now, {"metric": "latency_ms", "max_drop": 20}, before).passed
    missed = only(now, {"metric": "latency_ms", "relative_drop": 0.1}, before)
    assert (missed.passed, missed.drop, missed.name) == (False, 20.0, "default: latency_ms rise <= 10 %")
    assert only(before, {"metric": "latency_ms.p95", "max_drop": 0}, now).passed


def test_only_a_significant_drop_misses_a_gate_that_asks_for_it():
    before = mrr([0.5] * 20)
    noisy = mrr([0.5 + (0.3 if n % 2 else -0.32) for n in range(20)])  # down by 0.01, lost in the noise
    clear = mrr([0.4 + 0.001 * n for n in range(20)])  # down on every query
    gate = {"metric": "mrr", "significant": True}
    assert only(noisy, gate, before).passed
    missed = only(clear, gate, before)
    assert (missed.passed, missed.cause, missed.condition) == (False, "threshold", "significant")
    assert missed.p < 0.001
    assert only(before, gate, clear).passed
    assert only(noisy, {"metric": "mrr", "max_drop": 0.005, "significant": True}, before).passed
    assert not only(clear, {"metric": "mrr", "max_drop": 0.005, "significant": True}, before).passed
    assert only(clear, {"metric": "mrr", "max_drop": 0.2, "significant": True}, before).passed  # found, and allowed
    assert not only(noisy, {"metric": "mrr", "max_drop": 0.005}, before).passed


def test_too_few_queries_for_a_test_do_not_pass_as_not_significant():
    # five signs: the least two-sided p is 2 / 32 = 0.0625 > 0.05; six: 0.03125
    gate = {"metric": "mrr", "significant": True}
    missed = only(mrr([0.1] * 5), gate, mrr([0.9] * 5))
    assert (missed.passed, missed.cause) == (False, "undecided")
    assert "5 queries are too few" in missed.reason
    assert only(mrr([0.1] * 6), gate, mrr([0.9] * 6)).cause == "threshold"
    assert only(mrr([0.9] * 5), gate, mrr([0.1] * 5)).passed  # no drop, so nothing to find


def test_a_t_test_may_find_a_drop_on_few_queries_and_gives_no_p_where_all_drops_are_equal():
    gate = {"metric": "mrr", "significant": True}
    found = only(mrr([0.1, 0.12, 0.11, 0.13]), gate, mrr([0.9] * 4), test="t")
    assert (found.cause, found.passed) == ("threshold", False)
    equal = only(mrr([0.1] * 30), gate, mrr([0.9] * 30), test="t")
    assert (equal.cause, equal.p, equal.passed) == ("undecided", None, False)
    assert "no p value" in equal.reason


def test_an_unchanged_value_is_said_to_be_unchanged():
    gate = {"metric": "mrr", "max_drop": 0.1}
    assert only(mrr([0.5] * 4), gate, mrr([0.5] * 4)).reason == "mrr went from 0.500 to 0.500 (n=4): unchanged"
    assert only(mrr([0.6] * 4), gate, mrr([0.5] * 4)).reason == "mrr went from 0.500 to 0.600 (n=4): better by 0.100"


def test_a_figure_that_one_side_lacks_cannot_be_compared():
    before = report([row(n, cost=0.02, accurate=0.0) for n in range(1, 11)])
    now = report([row(n, cost=0.02, accurate=1.0) for n in range(1, 11)])
    missed = only(now, {"metric": "cost_per_accurate_answer", "max_drop": 1.0}, before)
    assert missed.reason == "cost_per_accurate_answer can't be compared: in the baseline no answer is accurate"
    assert (missed.passed, missed.cause) == (False, "baseline")


def test_an_interval_without_an_upper_end_decides_nothing():
    few = report([row(n, cost=0.02, accurate=float(n == 1)) for n in range(1, 11)])
    missed = only(few, {"metric": "cost_per_accurate_answer", "max": 100.0, "on": "interval"})
    assert (missed.passed, missed.cause) == (False, "undecided")
    assert "it has no upper end" in missed.reason
    short = {"metric": "latency_ms", "max_drop": 9, "on": "interval"}
    one = report([row(1, latency=5.0)])
    assert only(one, short, one).cause == "undecided"


def test_p_values_are_corrected_for_the_number_of_tests():
    before = report([row(n, mrr=1.0, r_precision=1.0) for n in range(1, 8)])
    now = report([row(n, mrr=0.5 + n / 100, r_precision=0.4 + n / 100) for n in range(1, 8)])
    gates = [{"metric": "mrr", "significant": True}, {"metric": "r_precision", "significant": True}]
    alone = only(now, gates[0], before)
    assert alone.p == pytest.approx(2 / 2**7)
    assert [r.p for r in ask(now, *gates, baseline=before).results] == pytest.approx([2 * alone.p] * 2)
    plain = ask(now, *gates, baseline=before, correction="none").results
    assert [r.p for r in plain] == pytest.approx([alone.p] * 2)


@pytest.mark.parametrize("test", ["randomisation", "t", "wilcoxon"])
def test_the_test_can_be_chosen(test):
    before, now = mrr([0.5 + n / 100 for n in range(20)]), mrr([0.4 + (n % 3) / 100 for n in range(20)])
    assert not only(now, {"metric": "mrr", "significant": True}, before, test=test).passed


def test_a_drop_can_be_held_to_the_worse_end_of_its_interval():
    before = mrr([0.5] * 20)
    now = mrr(
        [0.5 + (0.3 if n % 2 else -0.32) for n in range(20)]
    )  # drop 0.01 -+ 2.093 x 0.318 / sqrt(20) = -0.139..0.159
    assert only(now, {"metric": "mrr", "max_drop": 0.16, "on": "interval"}, before).passed
    missed = only(now, {"metric": "mrr", "max_drop": 0.15, "on": "interval"}, before)
    assert "worst case worse by 0.159, not within 0.150" in missed.reason


NOTHING_SCORED = {
    "every score failed": mrr([None] * 10),
    "the metric was not asked for": report(rows([1.0] * 10, metric="map")),
    "no rows": report([row(1, mrr=1.0)]).model_copy(update={"systems": {"default": mrr([]).systems["default"]}}),
}
ANY_GATE = [
    {"metric": "mrr", "min": 0.0},
    {"metric": "mrr", "max": 1.0},
    {"metric": "mrr", "min": 0.0, "coverage": 0.001},
    {"metric": "mrr", "min": 0.0, "on": "interval"},
    {"metric": "mrr", "max_drop": 1.0},
    {"metric": "mrr", "relative_drop": 10.0},
    {"metric": "mrr", "significant": True},
    {"metric": "mrr", "max_drop": 1.0, "on": "interval"},
    {"metric": "latency_ms.p95", "max": 1e9},
    {"metric": "cost_per_accurate_answer", "max": 1e9},
    {"metric": "cost_usd.total", "max": 1e9},
]


@pytest.mark.parametrize("gate", ANY_GATE, ids=str)
@pytest.mark.parametrize("case", NOTHING_SCORED)
def test_a_gate_never_passes_where_nothing_was_scored(case, gate):
    for baseline in (mrr([0.5] * 10), NOTHING_SCORED[case]):
        result = only(NOTHING_SCORED[case], gate, baseline)
        assert not result.passed
        assert result.cause in ("missing", "coverage", "baseline")


@given(
    st.lists(st.none(), min_size=1, max_size=12),
    st.sampled_from(ANY_GATE),
    st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=12),
)
def test_no_gate_passes_with_zero_scored_rows_whatever_the_baseline(values, gate, before):
    assert not only(mrr(values), gate, mrr(before)).passed


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=30), st.floats(0.01, 1))
def test_a_gate_passes_only_at_its_coverage_floor_or_above(values, floor):
    result = only(mrr(values), {"metric": "mrr", "min": 0.0, "coverage": floor})
    scored = sum(value is not None for value in values)
    assert result.passed == (scored > 0 and scored / len(values) >= floor)
    assert (result.n, result.rows) == (scored, len(values))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12))
def test_swapping_the_runs_turns_the_sign_of_the_drop_and_keeps_p(pairs):
    a, b = (mrr(list(values)) for values in zip(*pairs, strict=True))
    gate = {"metric": "mrr", "max_drop": 2.0, "significant": True}
    there, back = only(b, gate, a), only(a, gate, b)
    assert there.drop == -back.drop
    assert there.p == back.p
    assert (there.passed, back.passed) == (True, True)  # no score drops by more than 1


def test_rows_that_were_not_scored_miss_the_floor_and_say_so():
    missed = only(mrr([1.0] * 18 + [None] * 2), {"metric": "mrr", "min": 0.5})
    assert (missed.cause, missed.coverage) == ("coverage", 0.9)
    assert missed.reason == "mrr: 18 of 20 rows have a score (90.0%), the gate asks for 95.0%"
    assert only(mrr([1.0] * 19 + [None]), {"metric": "mrr", "min": 0.5}).passed


def test_an_incomplete_run_passes_no_gate():
    missed = only(mrr([1.0] * 10, expected=11), {"metric": "mrr", "min": 0.5})
    assert missed.reason == "the run is incomplete: default has 10 of 11 rows"
    assert not missed.passed


def test_queries_that_one_run_lacks_are_not_compared_and_count_against_the_floor():
    before = mrr([0.5] * 10)
    missed = only(mrr([0.9] * 8), {"metric": "mrr", "max_drop": 0.1}, before)
    assert (
        missed.reason == "mrr: 8 of 10 queries of the baseline are scored in both runs (80.0%), the gate asks for 95.0%"
    )
    assert only(mrr([0.9] * 8), {"metric": "mrr", "max_drop": 0.1, "coverage": 0.8}, before).passed
    grown = only(mrr([0.5] * 10 + [0.0] * 10), {"metric": "mrr", "max_drop": 0.1}, before)
    assert (grown.passed, grown.value, grown.n) == (True, 0.5, 10)  # the new queries have no earlier score


def test_the_same_id_with_another_question_is_another_query():
    now = report([row(n, query=f"other {n}", mrr=0.5) for n in range(1, 11)])
    missed = only(now, {"metric": "mrr", "max_drop": 1.0}, mrr([0.5] * 10))
    assert (missed.cause, missed.n) == ("baseline", 0)


def test_a_zero_baseline_allows_no_relative_rise():
    before, now = (report([row(n, cost=value) for n in range(1, 11)]) for value in (0.0, 0.001))
    assert not only(now, {"metric": "cost_usd", "relative_drop": 0.5}, before).passed
    assert only(before, {"metric": "cost_usd", "relative_drop": 0.5}, before).passed


def test_every_system_is_held_to_a_gate_that_names_none():
    found = report({"a": rows([1.0] * 4, system="a"), "b": rows([0.0] * 4, system="b")})
    assert [(r.system, r.passed) for r in ask(found, {"mrr": ">= 0.5"}).results] == [("a", True), ("b", False)]
    assert only(found, {"metric": "mrr", "min": 0.5, "system": "a"}).passed
    missing = only(found, {"metric": "mrr", "min": 0.5, "system": "c"})
    assert (missing.passed, missing.cause) == (False, "missing")


def test_a_baseline_system_is_that_of_the_same_name_or_a_lone_or_a_named_one():
    now = report({"new": rows([0.5] * 8, system="new")})
    lone = report({"old": rows([0.5] * 8, system="old")})
    two = report({"old": rows([0.9] * 8, system="old"), "older": rows([0.5] * 8, system="older")})
    gate = {"metric": "mrr", "max_drop": 0.1}
    assert only(now, gate, lone).passed
    missed = only(now, gate, two)
    assert (missed.cause, missed.reason) == ("baseline", "mrr can't be compared: the baseline has no system 'new'")
    assert only(now, gate, two, baseline_system="older").passed
    assert not only(now, gate, two, baseline_system="old").passed


def test_a_slice_is_judged_by_its_own_rows():
    found = report([row(n, category="easy" if n <= 5 else "hard", mrr=float(n <= 5)) for n in range(1, 11)])
    assert only(found, {"metric": "mrr", "min": 1, "slice": "category=easy"}).passed
    every = ask(found, {"metric": "mrr", "min": 1, "slice": "category"}).results
    assert [(r.slice, r.passed, r.rows) for r in every] == [("category=easy", True, 5), ("category=hard", False, 5)]
    for slice_ in ("category=none", "metadata.tenant", "difficulty"):
        missed = only(found, {"metric": "mrr", "min": 0, "slice": slice_})
        assert (missed.passed, missed.cause) == (False, "missing")


def test_a_slice_that_vanished_is_noticed_against_the_baseline():
    before = report([row(n, metadata={"tenant": "a" if n <= 5 else "b"}, mrr=1.0) for n in range(1, 11)])
    now = report([row(n, metadata={"tenant": "a"}, mrr=1.0) for n in range(1, 6)])
    found = ask(now, {"metric": "mrr", "max_drop": 0.1, "slice": "metadata.tenant"}, baseline=before).results
    assert [(r.slice, r.passed) for r in found] == [("metadata.tenant=a", True), ("metadata.tenant=b", False)]


def test_the_value_of_a_gate_is_that_of_the_report():
    found = report([row(n, mrr=1 / n, accurate=float(n % 2), cost=0.01 * n) for n in range(1, 12)])
    system = found.systems["default"]
    for name in ("mrr", "accurate"):
        result = only(found, {"metric": name, "min": 0})
        assert (result.value, result.interval) == (system.metrics[name].mean, system.metrics[name].interval)
    result = only(found, {"metric": "cost_per_accurate_answer", "max": 1})
    assert (result.value, result.interval) == (
        system.cost_per_accurate_answer.value,
        system.cost_per_accurate_answer.interval,
    )
    assert only(found, {"metric": "cost_usd.p90", "max": 1}).value == pytest.approx(system.cost_usd.p90)


def test_numbers_that_would_look_equal_are_shown_longer():
    missed = only(mrr([0.69999] * 4), {"metric": "mrr", "min": 0.7})
    assert missed.reason == "mrr is 0.69999, not >= 0.7 (n=4)"


BAD_GATES = {
    "no threshold": ({"metric": "mrr"}, "has no threshold"),
    "unknown metric": ({"metric": "mmr", "min": 1}, "did you mean"),
    "no cutoff": ({"metric": "ndcg", "min": 1}, "ndcg@10"),
    "percentile of a score": ({"metric": "mrr.p95", "min": 1}, "percentiles"),
    "unknown percentile": ({"metric": "latency_ms.p42", "max": 1}, "p42"),
    "min above max": ({"metric": "mrr", "min": 0.9, "max": 0.1}, "nothing could pass"),
    "negative drop": ({"metric": "mrr", "max_drop": -0.1}, "greater than or equal to 0"),
    "coverage zero": ({"metric": "mrr", "min": 0, "coverage": 0}, "greater than 0"),
    "nan": ({"metric": "mrr", "min": float("nan")}, "finite"),
    "significant minimum": ({"metric": "mrr", "min": 0.1, "significant": True}, "make two gates"),
    "significant percentile": ({"metric": "latency_ms.p95", "significant": True}, "no paired test"),
    "interval of a percentile": ({"metric": "latency_ms.p95", "max": 1, "on": "interval"}, "on: mean"),
    "interval of a drop in a ratio": (
        {"metric": "cost_per_accurate_answer", "max_drop": 1, "on": "interval"},
        "on: mean",
    ),
    "interval and significant": ({"metric": "mrr", "max_drop": 1, "on": "interval", "significant": True}, "use one"),
    "slice": ({"metric": "mrr", "min": 1, "slice": "tenant=a"}, "metadata.NAME"),
    "short form": ({"mrr": "at least 0.7"}, 'mrr: ">= 0.7"'),
    "short form without a number": ({"mrr": ">= x"}, ">= x"),
    "short form nan": ({"mrr": ">= nan"}, ">= nan"),
    "short form of a number": ({"mrr": 0.7}, "can't read 0.7"),
}


@pytest.mark.parametrize("case", BAD_GATES)
def test_a_gate_that_makes_no_sense_is_refused(case):
    gate, says = BAD_GATES[case]
    with pytest.raises(ValidationError, match=re.escape(says)):
        READ.validate_python([gate])


def test_metric_names_take_the_usual_spellings():
    names = [
        gate.metric for gate in READ.validate_python([{"nDCG@10": ">= 0.5"}, {"RR": "<=1"}, {"LATENCY_MS.P95": "<= 1"}])
    ]
    assert names == ["ndcg@10", "mrr", "latency_ms.p95"]


def test_no_gate_or_no_baseline_is_an_error_and_not_a_pass():
    with pytest.raises(BadSettings, match="no gate"):
        check(mrr([1.0]), [])
    with pytest.raises(NothingToEvaluate, match="no system"):
        check(mrr([1.0]).model_copy(update={"systems": {}}), [Gate(metric="mrr", min=0.0)])
    with pytest.raises(BadSettings, match="--baseline"):
        check(mrr([1.0]), [Gate(metric="mrr", max_drop=0.1)])


NASTY = 'a|b <c> & "d" `e` \x07\ud7ff\n*f*'


@pytest.fixture
def mixed():
    found = report({"good": rows([1.0] * 4, system="good"), NASTY: rows([0.0] * 4, system=NASTY)}, dataset=NASTY)
    return ask(found, {"mrr": ">= 0.5"}, {"metric": "mrr", "max": 0.1, "system": "none"})


def test_junit_has_a_case_for_each_gate_and_survives_any_text(mixed):
    suite = ElementTree.fromstring(files.junit(mixed)).find("testsuite")
    cases = suite.findall("testcase")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
    assert [case.get("name") for case in cases] == [r.name.replace("\x07", "\ufffd") for r in mixed.results]
    assert [case.find("failure") is None for case in cases] == [r.passed for r in mixed.results]
    failure = cases[1].find("failure")
    assert (failure.get("type"), failure.get("message")) == ("threshold", "mrr is 0.000, not >= 0.500 (n=4)")
    assert [case.find("failure").get("type") for case in cases[1:]] == ["threshold", "missing"]


def test_markdown_has_a_marker_first_and_one_line_for_each_gate(mixed):
    first, *lines = files.markdown(mixed).decode().splitlines()
    assert first == "<!-- ragassay gates -->"
    assert lines[0] == "## ragassay: 2 of 3 gates missed"
    table = [line for line in lines if line.startswith("| ")]
    assert len(table) == 2 + 3
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 6 for line in table)
    assert [("missed" in line) for line in table[2:]] == [True, True, False]
    assert "<c>" not in "".join(lines).replace("\\<c\\>", "")
    passed = ask(
        mrr([1.0] * 3), {"mrr": ">= 0.5"}, {"metric": "mrr", "max_drop": 0.1}, baseline=mrr([1.0] * 3, run="old")
    )
    assert "all 2 gates passed" in files.markdown(passed).decode()
    assert "baseline `old`" in files.markdown(passed).decode()


def test_json_is_the_document_and_fits_its_schema(mixed, tmp_path):
    files.write(mixed, tmp_path / "g.json")
    document = json.loads((tmp_path / "g.json").read_bytes())
    jsonschema.validate(document, GateReport.model_json_schema())
    assert GateReport.model_validate(document) == mixed


def test_a_file_that_cannot_be_written_is_refused_before(tmp_path):
    with pytest.raises(UnknownName, match="docx"):
        files.writer_for(tmp_path / "g.docx")
    with pytest.raises(BadSettings, match="no folder"):
        files.writer_for(tmp_path / "nowhere" / "g.xml")
    (tmp_path / "d.xml").mkdir()
    with pytest.raises(BadSettings, match="is a folder"):
        files.writer_for(tmp_path / "d.xml")
