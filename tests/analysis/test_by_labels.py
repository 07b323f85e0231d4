"""Gates on figures that labels correct: what decides, what is said, and what happens where labels are too few."""

import random

import pytest

from gate_checks import check_gate, check_gates
from handmade_reports import make_report, row


def labelled(
    *,
    people=0.6,
    judge_errs=0.5,
    labels=100,
    rows=400,
    metric="faithfulness",
    seed=0,
    cost=None,
    category=None,
    **report,
):
    """A report on rows of which people call a share right, and the judge those as well and some of the others."""
    draw, made = random.Random(seed), []
    for n in range(rows):
        right = draw.random() < people
        score = float(right or draw.random() < judge_errs)
        one = row(n, cost=cost, category=category, **{metric: score})
        made.append(one.with_labels({metric: float(right)}) if n < labels else one)
    return make_report(made, **report)


def test_a_gate_goes_by_the_corrected_mean_and_says_so():
    report = labelled()
    mean = report.systems["default"].metrics["faithfulness"]
    assert mean.value > 0.75 > mean.corrected.interval.high  # the judge is too kind: 0.6 + 0.4 * 0.5
    missed = check_gate(report, {"metric": "faithfulness", "min": 0.7})
    assert (missed.passed, missed.cause) == (False, "threshold")
    assert (missed.corrected_by, missed.uncorrected) == (100, mean.value)
    assert (missed.value, missed.interval) == (mean.corrected.mean, mean.corrected.interval)
    assert missed.reason == f"faithfulness is {missed.value:.3f}, not >= 0.700 (n=400, corrected by 100 labels)"
    assert check_gate(report, {"metric": "faithfulness", "min": mean.corrected.mean}).passed
    unlabelled = check_gate(labelled(labels=0), {"metric": "faithfulness", "min": 0.7})
    assert (unlabelled.passed, unlabelled.corrected_by, unlabelled.uncorrected) == (True, None, None)


def test_too_few_labels_leave_a_gate_to_the_judge_and_that_is_said():
    result = check_gate(labelled(labels=9), {"metric": "faithfulness", "min": 0.7})
    assert (result.passed, result.corrected_by) == (True, None)
    assert result.reason.endswith(
        "(n=400, not corrected: a correction needs 10 labels of rows with a score, there are 9)"
    )
    rows = [
        one
        for category, count in (("many", 60), ("few", 3))
        for one in labelled(labels=count, rows=200, category=category).results["default"]
    ]
    rows = [one.model_copy(update={"query_id": f"q{n}", "query": f"question {n}"}) for n, one in enumerate(rows)]
    gate = {"metric": "faithfulness", "min": 0.7, "slice": "category"}
    few, many = check_gates(make_report(rows), gate).results
    assert (few.slice, few.passed, few.corrected_by) == ("category=few", True, None)
    assert (many.slice, many.passed, many.corrected_by) == ("category=many", False, 60)


def test_a_drop_that_people_see_and_the_judge_does_not_misses_its_gates():
    before, now = labelled(people=0.8, judge_errs=0.2), labelled(people=0.5, judge_errs=0.7, seed=1, run="now")
    judged = [report.systems["default"].metrics["faithfulness"].value for report in (before, now)]
    assert abs(judged[0] - judged[1]) < 0.05
    for more in (
        {"max_drop": 0.1},
        {"relative_drop": 0.15},
    ):
        missed = check_gate(now, {"metric": "faithfulness", **more}, before)
        assert (missed.passed, missed.cause, missed.corrected_by) == (False, "threshold", 100), more
        assert "(n=400, corrected by 100 labels): " in missed.reason
        assert missed.drop == pytest.approx(0.3, abs=0.12)
        assert missed.baseline - missed.value == pytest.approx(missed.drop)
        assert missed.uncorrected == pytest.approx(judged[1])
        assert missed.interval.low <= missed.drop <= missed.interval.high
    back = check_gate(before, {"metric": "faithfulness", "max_drop": 0}, now)
    assert (back.passed, back.drop) == (True, pytest.approx(-missed.drop))


def test_a_baseline_without_labels_is_compared_by_the_judge_and_that_is_said():
    before, now = labelled(people=0.8, labels=0), labelled(people=0.5, judge_errs=0.7, seed=1)
    result = check_gate(now, {"metric": "faithfulness", "max_drop": 0.1}, before)
    assert (result.passed, result.corrected_by) == (True, None)
    assert "not corrected: a correction needs 10 queries with labels on both sides, there are 0" in result.reason
