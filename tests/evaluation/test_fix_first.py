"""What to fix first: accuracy without each cause of failure, never more than the rows carry."""

import importlib.util
from pathlib import Path

import pytest

import ragassay
from handmade_reports import make_report
from provider import Provider
from ragassay.core.models import Result, Score
from ragassay.metrics.failures import NEXT_STEPS

DATASETS = Path(__file__).parents[2] / "datasets"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))


def row(n, accurate=0.0, cause=None, query=""):
    """A row that is accurate, of unknown accuracy (None), or not accurate for a cause that follows from what it retrieved."""
    ranks = {"retrieval_miss": (), "ranking_miss": (9,)}
    score = Score(value=accurate) if accurate is not None else Score.absent("the judge failed", "failed")
    return Result(
        query_id=f"q{n}", system="s", query=query or f"{n}?", relevant=1, relevant_ranks=ranks.get(cause, (1,)),
        scores={"accurate": score},
    )  # fmt: skip


def fix_first(rows):
    return make_report(rows).systems["default"].fix_first


def test_each_cause_alone_and_one_after_the_other():
    causes = ["retrieval_miss"] * 2 + ["ranking_miss"] * 3 + [None]
    rows = [*(row(n, 1.0) for n in range(4)), *(row(n, 0.0, cause) for n, cause in enumerate(causes, 4)), row(10, None)]
    found = fix_first(rows)
    assert (found.accurate.value, found.accurate.n, found.unattributed, found.unknown) == (0.4, 10, 1, 1)
    first, second = found.causes
    # 4 of 10 are accurate; (4 + 3) / 10, then (4 + 2) / 10; both: (4 + 3 + 2) / 10, as no cause is known of the last row
    assert [(one.cause, one.rows, one.next_step) for one in (first, second)] == [
        ("ranking_miss", 3, NEXT_STEPS["ranking_miss"]),
        ("retrieval_miss", 2, NEXT_STEPS["retrieval_miss"]),
    ]
    assert [one.alone.value for one in (first, second)] == pytest.approx([0.7, 0.6])
    assert [one.gain.value for one in (first, second)] == pytest.approx([0.3, 0.2])
    assert [one.cumulative.value for one in (first, second)] == pytest.approx([0.7, 0.9])
    assert first.alone.interval.low < 0.7 < first.alone.interval.high
    assert (first.leads, second.leads) == (False, None), "three rows against two show nothing"


def test_a_cause_leads_if_the_rows_show_that_it_costs_more():
    rows = [row(n, 0.0, "ranking_miss" if n < 5 else "retrieval_miss") for n in range(60)]
    assert [one.leads for one in fix_first(rows).causes] == [True, None]


def test_several_answers_to_a_question_are_averaged_first():
    rows = [row(n, float(n < 4), "ranking_miss", query=f"{n // 2}?") for n in range(20)]
    found = fix_first(rows)
    # two of ten questions are answered accurately, each by both of its answers
    assert (found.accurate.value, found.accurate.n, found.accurate.interval.method) == (0.2, 20, "wilson")
    [(_, alone)] = [(one.cause, one.alone) for one in found.causes]
    assert (alone.value, alone.interval.low) == (1.0, pytest.approx(0.722, abs=0.001))  # Wilson's of 10 of 10


def test_failures_without_a_known_cause_are_counted():
    found = fix_first([row(1, 1.0), row(2)])
    assert (found.causes, found.unattributed, found.accurate.value) == ((), 1, 0.5)


def test_without_a_known_failure_there_is_nothing_to_fix():
    assert fix_first([row(1, 1.0), row(2, None)]) is None


def test_the_first_cause_of_answers_with_known_faults_is_the_planted_one(home):
    spec = importlib.util.spec_from_file_location("judge_faults", DATASETS.parent / "scripts" / "judge_faults.py")
    spec.loader.exec_module(faults := importlib.util.module_from_spec(spec))
    planted = [one["cause"] for one in faults.VERDICTS.values() if one["accurate"] == 0]
    with Provider(then=faults.right) as provider:
        report = ragassay.evaluate(DATASETS / "faults" / "answers.jsonl", judge="gpt-4o-mini", api_base=provider.url)
    found = report.fix_first["default"]
    assert {one.cause: one.rows for one in found.causes} == {cause: planted.count(cause) for cause in set(planted)}
    assert (found.causes[0].cause, found.causes[0].rows) == ("unfaithful", 13)
    right = sum(one["accurate"] == 1 for one in faults.VERDICTS.values())
    assert found.causes[0].alone.value == pytest.approx((right + 13) / found.accurate.n)
