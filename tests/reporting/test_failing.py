"""What limits a report, and which rows failed and why: in the terminal and as Markdown."""

import pytest

from offline_runs import ScriptedJudge, evaluated, new_run, sample
from ragassay.cli.terminal import print_report
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import FactVerdict, Rating, SentenceVerdict, Verdict
from ragassay.reporting import EXPORTERS
from ragassay.reporting.failing import headline, worst_first


def judged(covered, why, **more):
    """A verdict on one sentence and one fact."""
    sentence = SentenceVerdict(id="A1", text="It is Lyon.", support="supported", truth="absent")
    fact = FactVerdict(id="G1", text="Paris.", covered=covered, why=why, evidence=("C1.1",))
    about = {"judge": "t", "relevance": "full", "has_contexts": True, "has_truth": True, **more}
    return Rating(verdict=Verdict(sentences=(sentence,), facts=(fact,), **about))


JUDGE = ScriptedJudge(
    q2=judged("no", "it names another city", suspicious=("A1", "C1.3")),
    q3=judged("partly", "it says it in half"),
    q5=judged("no", "wrong"),
)
LOCAL = ScriptedJudge()
LOCAL.name = "local"


@pytest.fixture
def report(tmp_path):
    samples = [sample(n, query=f"Question {n}?", category=f"c{n % 7}") for n in range(1, 15)]
    return evaluated(new_run(tmp_path, samples, judge=JUDGE), JUDGE)


@pytest.fixture
def shown(tmp_path, capsys):
    """What the terminal and Markdown show, blanks folded."""

    def texts(report):
        EXPORTERS.write(report, tmp_path / "r.md")
        print_report(report, "here", [])
        return [" ".join(text.split()) for text in (capsys.readouterr().out, (tmp_path / "r.md").read_text())]

    return texts


def test_headline_comes_first_and_the_places_last(report, shown):
    terminal, markdown = shown(report)
    said = headline(report.systems["default"])
    assert said == "11 of 14 answers are accurate (79 %, 95 % interval 52 % to 92 %)"
    places = f"report: here rows: ragassay show {report.run.id} --wrong"
    assert terminal.index(said) < terminal.index("Worst rows") < terminal.index(places)
    assert markdown.index(said) < markdown.index("## Retrieval")


def test_worst_rows_are_not_accurate_then_have_a_low_mean_or_little_of_the_metric_asked_for(report):
    system, rows = report.systems["default"], report.results["default"]
    assert [row.query_id for row in worst_first(system, rows)][:4] == ["q2", "q5", "q3", "q1"]
    assert [row.query_id for row in worst_first(system, rows, "completeness")][:3] == ["q2", "q5", "q3"]


def test_field_with_too_many_values_is_named_and_two_categories_of_three_rows_have_slices(tmp_path, shown):
    samples = [sample(n, category=f"c{n}", metadata={"tier": str(n % 2)}) for n in range(1, 25)]
    spec = EvalConfig(metrics=("mrr",))
    for text in shown(evaluated(new_run(tmp_path, samples, spec))):
        assert "more than 20 values are too many for slices" in text
        assert "--where category=NAME" in text.replace("\\", "")
        assert "difficulty" not in text  # the same in all rows
        assert "hold text that addresses the judge" not in text
    few = evaluated(new_run(tmp_path, [sample(n) for n in (1, 2, 3)], spec))
    assert list(few.systems["default"].slices["category"]) == ["conceptual", "factual"]


def test_suspicious_rows_are_counted_and_named(report, shown):
    for text in shown(report):
        assert "1 of 14 rows hold text that addresses the judge" in text
        assert "q2 (A1 and C1.3)" in text


def test_scores_of_the_local_judge_come_with_its_agreement_with_people(tmp_path, shown):
    report = evaluated(new_run(tmp_path, [sample(1)], judge=LOCAL), LOCAL)
    assert [caution.count("balanced accuracy") for caution in report.cautions] == [1]
    for text in shown(report):
        assert text.count("judge local is a triage") == 1
    unjudged = evaluated(new_run(tmp_path, [sample(1)], EvalConfig(metrics=("mrr",)), judge=LOCAL), LOCAL)
    assert unjudged.cautions == ()
