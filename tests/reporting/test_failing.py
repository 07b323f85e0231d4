"""What a report ends with: headline, causes, worst rows and slices, in the terminal and as Markdown."""

import pytest

from offline_runs import ScriptedJudge, evaluated, new_run, sample
from ragassay.cli.terminal import print_report
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import FactVerdict, Rating, SentenceVerdict, Verdict
from ragassay.reporting import EXPORTERS
from ragassay.reporting.failing import headline, worst_first


def judged(covered, why, **more):
    """A verdict on one sentence and one fact."""
    verdict = Verdict(
        judge="t",
        sentences=(SentenceVerdict(id="A1", text="It is Lyon.", support="supported", truth="absent", **more),),
        facts=(FactVerdict(id="G1", text="Paris.", covered=covered, why=why, evidence=("C1.1",)),),
        relevance="full",
        has_contexts=True,
        has_truth=True,
    )
    return Rating(verdict=verdict)


JUDGE = ScriptedJudge(
    q2=judged("no", "it names another city"), q3=judged("partly", "it says it in half"), q5=judged("no", "wrong")
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    samples = [sample(n, query=f"Question {n}?", category=f"c{n % 7}") for n in range(1, 15)]
    return evaluated(new_run(tmp_path_factory.mktemp("run"), samples, judge=JUDGE), JUDGE)


def shown(report, tmp_path, capsys):
    """What the terminal and Markdown show, blanks folded."""
    EXPORTERS.write(report, tmp_path / "r.md")
    print_report(report, "here", [])
    return [" ".join(text.split()) for text in (capsys.readouterr().out, (tmp_path / "r.md").read_text())]


def test_the_headline_comes_first_and_the_places_last(report, tmp_path, capsys):
    terminal, markdown = shown(report, tmp_path, capsys)
    said = headline(report.systems["default"])
    assert said == "11 of 14 answers are accurate (79 %, 95 % interval 52 % to 92 %)"
    places = f"report: here rows: ragassay show {report.run.id} --wrong"
    assert terminal.index(said) < terminal.index("Worst rows") < terminal.index(places)
    assert markdown.index(said) < markdown.index("## Retrieval")


def test_rows_that_are_not_accurate_are_worst_then_a_low_mean_or_the_metric_asked_for(report):
    system, rows = report.systems["default"], report.results["default"]
    assert [row.query_id for row in worst_first(system, rows)][:4] == ["q2", "q5", "q3", "q1"]
    assert [row.query_id for row in worst_first(system, rows, "completeness")][:3] == ["q2", "q5", "q3"]


def test_a_category_with_too_many_values_is_named_and_two_categories_of_three_rows_have_slices(tmp_path, capsys):
    samples = [sample(n, category=f"c{n}", metadata={"tier": str(n % 2)}) for n in range(1, 25)]
    many = evaluated(new_run(tmp_path, samples, EvalConfig(metrics=("mrr",))))
    for text in shown(many, tmp_path, capsys):
        assert "more than 20 values are too many for slices" in text
        assert "--where category=NAME" in text.replace("\\", "")
        assert "difficulty" not in text  # the same in all rows
    few = evaluated(new_run(tmp_path, [sample(n) for n in (1, 2, 3)], EvalConfig(metrics=("mrr",))))
    assert list(few.systems["default"].slices["category"]) == ["conceptual", "factual"]


def test_scores_of_the_local_judge_come_with_its_agreement_with_people(tmp_path, capsys):
    judge = ScriptedJudge()
    judge.name = "local"
    report = evaluated(new_run(tmp_path, [sample(1)], judge=judge), judge)
    assert [caution.count("balanced accuracy") for caution in report.cautions] == [1]
    for text in shown(report, tmp_path, capsys):
        assert text.count("judge local is a triage") == 1
    unjudged = evaluated(new_run(tmp_path, [sample(1)], EvalConfig(metrics=("mrr",)), judge=judge), judge)
    assert unjudged.cautions == ()
