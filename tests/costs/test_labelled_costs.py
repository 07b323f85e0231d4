"""Cost reports over reports in which labels correct the number of accurate answers."""

import csv
import io
import random
from datetime import UTC, datetime

import pytest

from handmade_reports import make_report, row
from ragassay.cost_records import CostRecord, record_of
from ragassay.costs import Gathered, asked, cost_report
from ragassay.exporters.costs import tables, to_csv
from ragassay.exporters.summary import sections


def answers(labels=100, *, system="default", seed=0, cost=0.01, right=0.5, count=300):
    """Answers of which people call half accurate, the judge half of the others as well; the first ``labels`` have both."""
    draw, made = random.Random(seed), []
    for n in range(count):
        people = draw.random() < right
        score = float(people or draw.random() < 0.5)
        one = row(n, system, cost=cost * (1 + 0.1 * (n % 5)), accurate=score)
        said = {"accurate": float(people)} if n < labels else {}
        made.append(one.model_copy(update={"reference_labels": said, "category": "ab"[n % 2]}))
    return made


def night(rows, day):
    return make_report(rows, run=f"run-{day}", created=f"2026-11-{day:02}T02:00:00+00:00")


def costs(*reports, **options):
    gathered = Gathered(asked(**options))
    for one in reports:
        record = record_of(one)
        gathered.add(CostRecord.model_validate_json(record.model_dump_json(exclude_defaults=True)))
    return cost_report(gathered, datetime(2026, 11, 22, tzinfo=UTC))


def test_a_report_has_the_corrected_cost_beside_the_judges_own():
    report = night(answers(), 1)
    cost = report.systems["default"].cost_per_accurate_answer
    assert cost.value == pytest.approx(0.012 / 0.75, rel=0.05)
    assert (cost.corrected.labels, cost.corrected.rows, cost.corrected.judged) == (100, 300, cost.value)
    assert cost.corrected.interval.low < 0.012 / 0.5 < cost.corrected.interval.high
    assert cost.corrected.value > 1.2 * cost.value
    (shown,) = [text for one in sections(report) for label, text in one.rows if label.endswith("answer, corrected")]
    assert shown[0].endswith("100 labels")
    few = night(answers(labels=9), 1).systems["default"].cost_per_accurate_answer.corrected
    assert (few.value, few.sums) == (None, None)
    assert few.reason == "a correction needs 10 labels of rows with a score, there are 9"
    assert night(answers(labels=0), 1).systems["default"].cost_per_accurate_answer.corrected is None


def test_costs_over_runs_go_by_labels_where_each_run_has_them():
    one, other = night(answers(), 1), night(answers(seed=1), 2)
    alone = costs(one).groups[0]
    own = one.systems["default"].cost_per_accurate_answer
    assert (alone.cost_per_accurate_answer, alone.interval) == (own.corrected.value, own.corrected.interval)
    assert (alone.corrected_by, alone.judged, alone.interval_of) == (100, own.value, "report")
    report = costs(one, other)
    (group,) = report.groups
    sums = [night.systems["default"].cost_per_accurate_answer.corrected.sums for night in (one, other)]
    assert group.cost_per_accurate_answer == pytest.approx(
        sum(part.cost_usd for part in sums) / sum(part.accurate for part in sums)
    )
    assert (group.corrected_by, group.questions, group.interval_of) == (200, 300, "sums")
    # the same questions again: no narrower than one night, because they tell nothing of others
    ratio = group.interval.high / group.interval.low
    assert ratio == pytest.approx(alone.interval.high / alone.interval.low, rel=0.1)
    assert group.interval.low < 0.012 / 0.5 < group.interval.high
    assert "corrected by 200 labels" in next(tables(report)).note
    (line,) = csv.DictReader(io.StringIO(to_csv(report).decode()))
    assert (line["corrected_by"], float(line["judged"])) == ("200", pytest.approx(group.judged))
    by_category = costs(one, by="category")
    assert {part.corrected_by for part in by_category.groups} == {50}


def test_labels_on_a_part_of_the_runs_correct_nothing_and_a_warning_says_so():
    report = costs(night(answers(), 1), night(answers(labels=0, seed=1), 2))
    assert (report.groups[0].corrected_by, report.groups[0].judged) == (None, None)
    assert report.warnings == ("labels correct only a part, so accuracy is the judge's own: france, default: 1 of 2",)


def test_one_more_accurate_answer_by_labels_of_both_systems():
    sides = {"a": answers(system="a"), "b": answers(system="b", right=0.8, cost=0.03, seed=2)}
    report = costs(make_report(sides))
    (more,) = report.increments
    assert more.corrected_by == 100
    assert more.accuracy.interval.low < 0.3 < more.accuracy.interval.high
    assert more.usd_per_accurate_answer == pytest.approx(0.024 / more.accuracy.value)
    assert more.sentence.endswith("; by 100 labels")
    turned = costs(make_report(sides, run="r1"), make_report(dict(reversed(sides.items())), run="r2"))
    assert turned.increments[0].accuracy.value == pytest.approx(more.accuracy.value)
    assert turned.increments[0].corrected_by == 200
    judged = costs(make_report({"a": sides["a"], "b": answers(0, system="b", right=0.8, cost=0.03, seed=2)}))
    assert judged.increments[0].corrected_by is None
