"""Cost reports over reports made by hand, and ``ragassay cost`` over runs as they are made, copied and damaged."""

import csv
import io
import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace

import orjson
import pytest

import ragassay
from handmade_reports import make_report, row
from offline_runs import evaluated, new_run, sample
from ragassay.analysis.costs import CostReport, cost_query, cost_report
from ragassay.core.errors import BadSettings, NothingToEvaluate, UnknownName
from ragassay.core.formatting import number
from ragassay.core.models import Usage
from ragassay.reporting.costs import of_costs
from ragassay.reporting.text import as_text
from ragassay.stats.ratio import incremental_cost
from ragassay.storage.cost_records import CostRecord, record_of
from ragassay.storage.runs import Entry

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def answers(costs, right, system="default", *, first=1, **more):
    """A row for each cost and whether it is accurate; None is not known. ``more`` goes into each row as it is."""
    made = [
        row(n, system, cost=cost, accurate=value)
        for n, (cost, value) in enumerate(zip(costs, right, strict=True), first)
    ]
    return [one.model_copy(update=more) for one in made]


def night(rows, day="2026-11-01", *, run=None, time="02:00:00+00:00", **more):
    """The report of a run on that day."""
    return make_report(rows, run=run or f"run-{day}", created=f"{day}T{time}", **more)


def costs(*reports, now=NOW, **options):
    """The cost report over these reports or records."""
    records = [one if isinstance(one, CostRecord) else record_of(one) for one in reports]
    entries = [Entry(one.run, "finished", SimpleNamespace(record=one, costs=lambda one=one: one)) for one in records]
    return cost_report(entries, cost_query(**options), now)


def only(report):
    (group,) = report.groups
    return group


def per_accurate(*reports):
    """The cost of an accurate answer in the only group of these reports."""
    return only(costs(*reports)).cost_per_accurate_answer


COSTS, RIGHT = [0.01, 0.01, 0.02, 0.02, 0.01, 0.01, 0.02, 0.02], [1, 1, 1, 0, 1, 0, 1, 1]
OTHER_COSTS, OTHER_RIGHT = [0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.02, 0.02], [1, 0, 1, 0, 1, 0, 1, 0]


def test_only_reports_of_the_days_that_are_asked_for_count_as_read(monkeypatch):
    monkeypatch.setattr("ragassay.analysis.costs.MAX_REPORTS", 1)
    nights = [night(answers(COSTS, RIGHT), day) for day in ("2026-11-20", "2026-11-02", "2026-11-01")]
    since = costs(*nights, since="2026-11-10")
    assert (since.reports, since.left_out, since.warnings) == (1, {"outside the time asked for": 2}, ())
    assert "only the newest 1 reports were read" in costs(*nights).warnings[0]


# --- one report ---


def test_a_lone_report_has_the_number_and_the_interval_that_it_says_itself():
    rows = answers(COSTS * 4, RIGHT * 4)
    rows = [one.model_copy(update={"category": "even" if n % 2 else "odd"}) for n, one in enumerate(rows)]
    report = night(rows)
    own = report.systems["default"]
    group = only(costs(report))
    assert group.key == {"dataset": "france", "system": "default"}
    assert group.cost_per_accurate_answer == own.cost_per_accurate_answer
    by_category = costs(report, by="category")
    for one in by_category.groups:
        part = own.slices["category"][one.key["category"]].cost_per_accurate_answer
        assert one.cost_per_accurate_answer == part
    assert sum(one.rows for one in by_category.groups) == 32


# --- many ---


def test_reports_add_up_to_total_cost_over_all_accurate_answers():
    # 12 cents for 6 and 10 cents for 4: 22 / 10, and not the mean of 2 and 2.5
    group = only(costs(night(answers(COSTS, RIGHT)), night(answers(OTHER_COSTS, OTHER_RIGHT), "2026-11-02")))
    cost = group.cost_per_accurate_answer
    assert cost.value == pytest.approx(0.022)
    assert (group.reports, group.rows, cost.n, cost.accurate, cost.questions) == (2, 16, 16, 10, 8)
    assert (cost.interval.low, cost.interval.high) == pytest.approx(
        (0.01385, 0.05856), abs=5e-6
    )  # as docs/cost.md says
    assert (group.first[:10], group.last[:10]) == ("2026-11-01", "2026-11-02")


def test_nights_on_the_same_questions_say_no_more_of_other_questions():
    def interval(nights):
        days = [night(answers(COSTS * 4, RIGHT * 4), f"2026-11-{day:02}") for day in range(1, nights + 1)]
        return per_accurate(*days).interval

    few, many = interval(2), interval(20)
    assert (many.low, many.high) == pytest.approx((few.low, few.high))
    others = [night(answers(COSTS * 4, RIGHT * 4), f"2026-11-{day:02}", digest=f"{day:064}") for day in range(1, 21)]
    assert per_accurate(*others).interval.width < many.width / 3


def test_an_unknown_cost_is_none_and_none_is_not_zero():
    given = [0.01, None, 0.02, None, 0.01, 0.01, 0.02, 0.02]
    group = only(costs(night(answers(given, RIGHT)), night(answers([None] * 8, RIGHT), "2026-11-02")))
    cost = group.cost_per_accurate_answer
    assert (group.rows, cost.n, cost.accurate, cost.questions) == (16, 6, 5, 6)
    assert cost.value == pytest.approx(0.09 / 5)
    assert (group.serving.cost_usd, group.serving.unknown) == (pytest.approx(0.09), 10)


def test_without_any_cost_there_is_a_sentence_and_no_table_and_a_group_without_one_is_unknown():
    unpriced, priced = answers([None] * 2, [1, 1]), answers([0.01] * 2, [1, 0], "paid", first=3)
    alone = as_text(of_costs(costs(night(unpriced))))
    assert alone.splitlines()[0] == "What an accurate answer costs is not known: no row has a known cost."
    assert "0 of 0" not in alone
    assert "Spent" not in alone
    both = as_text(of_costs(costs(night({"default": unpriced, "paid": priced}))))
    assert re.search(r"default +none +unknown", both)
    assert "Spent" in both


@pytest.mark.parametrize(("rows", "why"), [(3, "."), (8, ": the intervals of the two costs overlap.")])
def test_that_intervals_overlap_is_said_only_if_there_are_intervals(rows, why):
    one, other = answers(COSTS[:rows], RIGHT[:rows]), answers(OTHER_COSTS[:rows], OTHER_RIGHT[:rows], "other")
    said = as_text(of_costs(costs(night({"default": one, "other": other}))))
    assert f"These data are too few to be sure{why}\n" in said


def test_of_costs_that_are_equal_none_seems_to_be_less():
    one, other = answers(COSTS, RIGHT), answers(COSTS, RIGHT, "other")
    assert "cost less" not in as_text(of_costs(costs(night({"default": one, "other": other}))))


def test_many_replacements_are_listed_up_to_three_those_with_a_price_first():
    def replaced(cost_usd):
        return incremental_cost([0.01, 0.01], [0, 1], [cost_usd, cost_usd], [1, 1], names=("old", "new"))

    marginal = {f"new{n} instead of old": replaced(0.02 if n == 4 else 0.001) for n in range(5)}
    lines = of_costs(costs(night(answers(COSTS, RIGHT))), marginal).answer[1:]
    assert [line.partition(",")[0] for line in lines[:-1]] == [f"With new{n} instead of old" for n in (4, 0, 1)]
    assert lines[-1] == "Systems not listed: 2, of these without a price: 2."


def test_a_cost_that_is_undefined_says_why():
    for given, right, reason in (
        ([None] * 8, RIGHT, "no row has a known cost"),
        (COSTS, [0] * 8, "no answer is accurate"),
    ):
        cost = per_accurate(night(answers(given, right)), night(answers(given, right), "2026-11-02"))
        assert (cost.value, cost.reason, cost.interval.low) == (None, reason, None)


def test_serving_judging_and_waste_stand_apart():
    bill = {"evaluation": Usage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.5)}
    rows = answers(COSTS, RIGHT, **bill)
    rows[0] = rows[0].model_copy(update={"waste": Usage(calls=1, input_tokens=7, cost_usd=0.25)})
    rows[1] = rows[1].model_copy(update={"evaluation": Usage(calls=1, input_tokens=3, cost_usd=None)})
    lost = Usage(calls=3, uncertain_calls=3, cost_usd=0.75)
    found = costs(night(rows).model_copy(update={"interrupted": lost}))
    assert only(found).cost_per_accurate_answer.value == pytest.approx(0.02)
    for group in (only(found), found.total):
        assert group.serving.cost_usd == pytest.approx(0.12)
        assert (group.judging.cost_usd, group.judging.unknown, group.judging.input_tokens) == (3.5, 1, 703)
        assert (group.waste.cost_usd, group.waste.unknown, group.waste.input_tokens) == (0.25, 0, 7)
    assert found.interrupted == lost


# --- what outlives the rows ---


def test_the_figures_are_the_same_when_the_rows_are_gone():
    reports = [
        night({name: answers(COSTS * 2, right * 2, name) for name, right in (("a", RIGHT), ("b", OTHER_RIGHT))}, day)
        for day in ("2026-11-01", "2026-11-02")
    ]
    gone = [report.without_rows for report in reports]
    assert costs(*reports, by="day,system") == costs(*gone, by="day,system")
    kept = [CostRecord.model_validate_json(record_of(report).model_dump_json()) for report in reports]
    assert costs(*reports) == costs(*kept)


# --- which reports, in which groups ---


def test_a_day_is_one_of_the_zone():
    late = night(answers(COSTS, RIGHT), time="23:30:00+00:00")
    assert only(costs(late, by="day")).key == {"day": "2026-11-01"}
    assert only(costs(late, by="day", zone="Europe/Berlin")).key == {"day": "2026-11-02"}
    assert only(costs(late, by="month")).key == {"month": "2026-11"}


@pytest.mark.parametrize(
    ("since", "until", "days"),
    [
        (None, "2026-11-02", [1, 2]),
        ("2026-11-02", "2026-11-02", [2]),
        ("2026-11-01T02:00", "2026-11-02T02:00Z", [1, 2]),
        ("2026-11-01T02:01", "2026-11-02T01:59", []),
    ],
)
def test_since_and_until_are_days_or_times(since, until, days):
    nights = [night(answers(COSTS, RIGHT), f"2026-11-0{day}") for day in (1, 2, 3)]
    if not days:
        with pytest.raises(NothingToEvaluate, match="3 outside the time asked for"):
            costs(*nights, since=since, until=until)
        return
    found = costs(*nights, since=since, until=until, by=["day"])
    assert [int(group.key["day"][-2:]) for group in found.groups] == days


def test_systems_and_datasets_are_chosen_by_name():
    both = night({name: answers(COSTS, RIGHT, name) for name in "ab"}, dataset="x")
    other = night(answers(COSTS, RIGHT, "c"), dataset="y", run="other")
    assert [group.key["system"] for group in costs(both, other, system="b").groups] == ["b"]
    assert [group.key["dataset"] for group in costs(both, other, dataset=["x"]).groups] == ["x", "x"]
    assert costs(both, other, dataset="x").left_out == {"on another dataset": 1}
    with pytest.raises(NothingToEvaluate, match="2 of other systems"):
        costs(both, other, system="z")


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"by": "sytem"}, UnknownName, "unknown dimension 'sytem'; did you mean system"),
        ({"since": "2026-13-01"}, BadSettings, "since: should be a day or time"),
        ({"since": "2026-11-02", "until": "2026-11-01"}, BadSettings, "is before"),
        ({"zone": "../etc/passwd"}, BadSettings, "zone: should be a time zone"),
    ],
)
def test_what_can_not_be_asked_is_named(options, kind, said):
    with pytest.raises(kind, match=said):
        cost_query(**options)


def test_accuracy_by_different_judges_is_said_and_can_be_kept_apart():
    reports = [night(answers(COSTS, RIGHT), run=judge, judges=(judge,)) for judge in ("local", "gpt-9")]
    found = costs(*reports)
    assert found.warnings == ("france, default: accuracy is by 2 judges; group by judge to keep them apart",)
    assert costs(*reports, by="judge").warnings == ()


# --- the command ---

PRICE = (1000 * 0.15 + 100 * 0.60) / 1e6  # of a sample's tokens by gpt-4o-mini


def run_in(home):
    """A finished run of two systems; the judge spends 0.001 USD a row."""
    run = new_run(home, [sample(k) for k in range(1, 11)], systems=("a", "b"))
    evaluated(run)
    return run


def shown(cli, *arguments):
    code, out, err = cli("cost", *arguments)
    assert (code, err) == (0, "")
    return out


def test_the_figures_are_those_of_the_reports(cli, tmp_path):
    run = run_in(tmp_path / "home")
    report, found = run.report(), CostReport.model_validate_json(shown(cli, "--json"))
    for group in found.groups:
        own = report.systems[group.key["system"]]
        assert group.cost_per_accurate_answer == own.cost_per_accurate_answer
        assert group.serving.cost_usd == own.cost_usd.total == pytest.approx(10 * PRICE)
        assert group.judging.cost_usd == own.evaluation.usage.cost_usd == pytest.approx(0.01)
    costs, per_answer = ragassay.Costs.of_runs(), number(found.total.cost_per_accurate_answer.value)
    assert costs.groups == found.groups
    assert repr(costs) == f"<Costs: reports 1, groups {len(costs.groups)}, {per_answer} USD per accurate answer>"


def test_all_forms_have_the_same_groups(cli, tmp_path):
    run_in(tmp_path / "home")
    files = [tmp_path / f"costs.{form}" for form in ("csv", "json", "md")]
    document = json.loads(shown(cli, "--by", "system,category", "--json", *(x for file in files for x in ("-o", file))))
    rows = list(csv.DictReader(io.StringIO(files[0].read_text())))
    of_json = [(one["key"]["system"], one["cost_per_accurate_answer"]["cost_usd"]) for one in document["groups"]]
    assert [(row["system"], float(row["cost_usd"])) for row in rows] == of_json
    assert json.loads(files[1].read_text())["groups"] == document["groups"]
    assert "| a | conceptual |" in files[2].read_text()


def test_what_can_not_be_read_is_named_and_the_others_count(cli, tmp_path):
    good, broken, newer, begun = (run_in(tmp_path / "home") for _ in range(4))
    broken.report_file.write_text('{"systems"')
    document = orjson.loads(newer.report_file.read_bytes())
    newer.report_file.write_bytes(orjson.dumps({**document, "schema_version": 2, "moon": "full"}))
    begun.report_file.unlink()
    found = CostReport.model_validate_json(shown(cli, "--json"))
    (warning,) = found.warnings
    assert [run.folder.name in warning for run in (broken, newer, begun)] == [True, True, False]
    assert found.left_out == {"without a report": 1}
    assert [group.reports for group in found.groups] == [1, 1]
    good.report_file.unlink()
    assert cli("cost")[0] == 5
