"""What a gate says, with the arithmetic beside it; and the many ways in which it must not pass."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gate_checks import check_gate, check_gates
from handmade_reports import make_report, mrr_report, row, rows
from ragassay.analysis.gates import Gate, check
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadSettings, NothingToEvaluate


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
    assert (
        check_gate(report, {"metric": "latency_ms.p95", "max": 1999}).reason
        == "latency_ms.p95 is 2000.000, not <= 1999.000 (n=21)"
    )
    assert check_gate(report, {"latency_ms": "<= 1100"}).passed
    assert check_gate(report, {"metric": "latency_ms.total", "max": 23100}).value == 23100


NOTHING_SCORED = {
    "every score failed": mrr_report([None] * 10),
    "the metric was not asked for": make_report(rows([1.0] * 10, metric="map")),
    "no rows": make_report([row(1, mrr=1.0)]).model_copy(
        update={"systems": {"default": mrr_report([]).systems["default"]}}
    ),
}
ANY_GATE = [
    {"metric": "mrr", "min": 0.0},
    {"metric": "mrr", "max": 1.0},
    {"metric": "mrr", "min": 0.0, "coverage": 0.001},
    {"metric": "mrr", "max_drop": 1.0},
    {"metric": "mrr", "relative_drop": 10.0},
    {"metric": "latency_ms.p95", "max": 1e9},
    {"metric": "cost_per_accurate_answer", "max": 1e9},
    {"metric": "cost_usd.total", "max": 1e9},
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
    assert "write coverage: 0.9. mrr is 1.000, >= 0.500 (n=18)" in missed.reason
    assert check_gate(mrr_report([1.0] * 19 + [None]), {"metric": "mrr", "min": 0.5}).passed


def test_an_incomplete_run_passes_no_gate():
    missed = check_gate(mrr_report([1.0] * 10, expected=11), {"metric": "mrr", "min": 0.5})
    assert missed.reason == "the run is incomplete: default has 10 of 11 rows"
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
    missed = check_gate(now, gate, two)
    assert (missed.cause, missed.reason) == ("baseline", "mrr can't be compared: the baseline has no system 'new'")
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
    for name in ("mrr", "accurate"):
        result = check_gate(report, {"metric": name, "min": 0})
        assert (result.value, result.interval) == (system.metrics[name].value, system.metrics[name].interval)
    result = check_gate(report, {"metric": "cost_per_accurate_answer", "max": 1})
    assert (result.value, result.interval) == (
        system.cost_per_accurate_answer.value,
        system.cost_per_accurate_answer.interval,
    )
    assert check_gate(report, {"metric": "cost_usd.p90", "max": 1}).value == pytest.approx(system.cost_usd.p90)


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
        ProjectConfig.model_validate({"gates": [gate]})


def test_no_gate_or_no_baseline_is_an_error_and_not_a_pass():
    with pytest.raises(BadSettings, match="no gate"):
        check(mrr_report([1.0]), [])
    with pytest.raises(NothingToEvaluate, match="no system"):
        check(mrr_report([1.0]).model_copy(update={"systems": {}}), [Gate(metric="mrr", min=0.0)])
    with pytest.raises(BadSettings, match="--baseline"):
        check(mrr_report([1.0]), [Gate(metric="mrr", max_drop=0.1)])
