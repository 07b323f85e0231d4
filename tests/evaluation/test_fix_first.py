"""What to fix first: accuracy without each cause of failure, never more than the rows carry."""

import importlib.util
import json
from pathlib import Path

import pytest

import ragassay
from handmade_reports import make_report
from provider import Provider
from ragassay.core.models import Result, Score
from ragassay.metrics.failures import NEXT_STEPS

DATASETS = Path(__file__).parents[2] / "datasets"
QUICKSTART = DATASETS / "quickstart"


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


@pytest.mark.parametrize(
    ("planted", "broken"),
    [
        ("retrieval_miss", {"retrieved_doc_ids": ["other"], "contexts": ["Nothing is said here."], "answer": "A cat."}),
        ("unfaithful", {"answer": "The ticket for tram {n} costs 977 euros."}),
        ("wrong_refusal", {"answer": "I don't know."}),
    ],
)
def test_the_fault_that_most_of_25_rows_have_is_named_first(planted, broken, home):
    def case(n):
        text = f"The ticket for tram {n} costs {n + 3} euros."
        good = {"retrieved_doc_ids": [f"d{n}"], "contexts": [text], "answer": text}
        wrong, refusal = "The ticket for tram {n} costs 977 euros.", "I don't know."
        other = {"answer": refusal if planted == "unfaithful" else wrong} if 12 <= n < 15 else {}
        bad = broken if n < 12 else other
        return {
            "query": f"What does the ticket for tram {n} cost?",
            "ground_truth_answer": text,
            "relevant_doc_ids": [f"d{n}"],
            **good,
            **{key: value.format(n=n) if isinstance(value, str) else value for key, value in bad.items()},
        }

    first = ragassay.evaluate([case(n) for n in range(25)]).fix_first["default"].causes[0]
    assert (first.cause, first.rows, first.leads) == (planted, 12, True)


def test_the_quickstart_says_what_to_fix_first_in_every_export(home, tmp_path):
    systems = {name: str(QUICKSTART / "responses" / f"{name}.jsonl") for name in ("baseline", "candidate")}
    report = ragassay.evaluate(QUICKSTART / "queries.jsonl", systems=systems)
    found = report.fix_first["baseline"]
    assert (found.causes[0].cause, found.causes[0].rows) == ("retrieval_miss", 6)
    assert found.causes[-1].cumulative.value <= 1 - found.unattributed / found.accurate.n + 1e-12
    for name in ("report.md", "report.html", "report.summary.csv", "report.xml", "report.json", "report.xlsx"):
        report.save(tmp_path / name)
    texts = {
        name: (tmp_path / name).read_text() for name in ("report.md", "report.html", "report.summary.csv", "report.xml")
    }
    assert "What to fix first: baseline" in str(report)
    assert "| retrieval miss | 6 |" in texts["report.md"]
    waterfall = f"<title>retrieval miss: {found.causes[0].cumulative.value:.3f}"
    assert waterfall in texts["report.html"]
    assert "accurate without retrieval_miss" in texts["report.summary.csv"]
    assert "retrieval miss on 6 of 30 rows" in texts["report.xml"]
    kept = json.loads((tmp_path / "report.json").read_bytes())["systems"]["baseline"]["fix_first"]
    assert kept == found.model_dump(mode="json")
