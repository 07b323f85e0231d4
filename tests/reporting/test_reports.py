"""From results to a report, with the arithmetic beside it; what limits it, and which rows failed, in terminal and Markdown."""

import math
import tracemalloc
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade_reports import make_report, row
from offline_runs import ScriptedJudge, evaluated, new_run, sample
from ragassay.cli.terminal import show_report
from ragassay.core.eval_config import RunConfig
from ragassay.core.files import MappedRows
from ragassay.core.models import FactVerdict, Rating, Response, Score, SentenceVerdict, Verdict
from ragassay.evaluation.aggregate import ScoreColumn, distribution
from ragassay.metrics.metric import parse
from ragassay.reporting import junit
from ragassay.reporting.failing import headline
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.listing import Headline


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
        show_report(report, "here", [], as_json=False)
        return [" ".join(text.split()) for text in (capsys.readouterr().out, (tmp_path / "r.md").read_text())]

    return texts


def test_aggregate_keeps_a_few_numbers_of_each_row():
    """What no row reports takes no memory: 40 columns of it would be 320 bytes a row."""
    make_report([row(n, mrr=0.5, accurate=n % 2) for n in range(9)])  # what is imported is not counted
    tracemalloc.start()
    try:
        report = make_report({"default": MappedRows(range(5_000), lambda n: row(n, mrr=0.5, accurate=n % 2))})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.systems["default"].metrics["mrr"].n == 5_000
    assert report.systems["default"].latency_ms.missing == 5_000
    assert peak < 200 * 5_000


def test_headline_comes_first_and_the_places_last(report, shown):
    terminal, markdown = shown(report)
    said = headline(report.systems["default"])
    assert said == "11 of 14 answers are accurate (79 %, 95 % interval 52 % to 92 %)"
    places = f"report: here rows: ragassay show {report.run.id} --wrong"
    assert terminal.index(said) < terminal.index("Worst rows") < terminal.index(places)
    assert markdown.index(said) < markdown.index("## Retrieval")


def test_headline_counts_no_answers_where_those_to_one_question_are_averaged(tmp_path):
    # two right answers to one question and a wrong one to another: 1 and 0, whose mean is 1/2, not 2/3
    judge = ScriptedJudge(q3=judged("no", "wrong"))
    rows = [sample(1), sample(2), sample(3, query="And of Italy?")]
    found = evaluated(new_run(tmp_path, rows, judge=judge), judge).systems["default"]
    assert found.metrics["accurate"].value == 0.5
    assert headline(found).startswith("50 % of 3 answers are accurate (the mean of 2 questions or conversations, 95 %")


def test_gate_efficiency_is_printed_as_a_percentage(tmp_path, shown):
    response = Response(retrieved_doc_ids=())
    rows = [sample(n, retrieval_needed=n > 1, category=f"c{n % 2}", response=response) for n in (1, 2, 3)]
    report = evaluated(new_run(tmp_path, rows, RunConfig(metrics=("gate_efficiency", "mrr"))))
    for text in shown(report):
        assert "33.3 %" in text  # 1 of 3
        by_category = text.partition("efficiency by category")[2]
        assert "50 %" in by_category  # q1 of q1 and q3
    [suite] = ElementTree.fromstring(b"".join(junit.export(report)))
    values = {one.get("name"): one.get("value") for one in suite.find("properties")}
    assert values["headline"] == f"gate_efficiency {values['gate_efficiency']}"
    assert values["gate_efficiency"].startswith("33.3 % [")
    (figure,) = (one.shown for one in Headline.of_report(report).figures.values())
    assert f"{figure.value} {figure.detail}" == values["gate_efficiency"].partition(" n=")[0]


def test_scores_of_the_local_judge_come_with_its_agreement_with_people(tmp_path, shown):
    report = evaluated(new_run(tmp_path, [sample(1)], judge=LOCAL), LOCAL)
    assert [caution.count("balanced accuracy") for caution in report.cautions] == [1]
    for text in shown(report):
        assert text.count("judge local is a triage") == 1
    unjudged = evaluated(new_run(tmp_path, [sample(1)], RunConfig(metrics=("mrr",)), judge=LOCAL), LOCAL)
    assert unjudged.cautions == ()


@pytest.fixture
def system(tmp_path):
    """The report of one system on samples."""
    return lambda samples, spec=None: evaluated(new_run(tmp_path, samples, spec)).systems["default"]


def test_mean_travels_with_its_count_its_interval_what_is_missing_and_its_bounds(system):
    metric = system([sample(1), sample(2), sample(3, response=Response(answer="Paris."))]).metrics["mrr"]
    assert (metric.value, metric.n, metric.unscored, metric.failed) == (1.0, 2, 1, 0)
    assert metric.missing == {"the response has no retrieved_doc_ids": 1}
    assert metric.interval.low is not None
    # two rows score 1, one is missing: worst (1 + 1 + 0) / 3, best (1 + 1 + 1) / 3
    assert (metric.bounds.worst, metric.bounds.best) == (pytest.approx(2 / 3), 1.0)


def test_cost_per_accurate_answer_divides_all_cost_by_the_accurate_ones(system):
    rows = [sample(1, cost_usd=0.02), sample(2, cost_usd=0.03), sample(3, cost_usd=0.01, response=None)]
    cost = system(rows).cost_per_accurate_answer
    # both answered rows are accurate: (0.02 + 0.03) / 2; the third has neither cost nor accuracy
    assert cost.value == pytest.approx(0.025)
    assert (cost.accurate, cost.n, cost.unscored) == (2, 2, 1)
    none = system(rows, RunConfig(accurate="faithfulness > 1")).cost_per_accurate_answer
    assert (none.value, none.reason) == (None, "no answer is accurate")


def test_slices_group_by_category_difficulty_and_metadata_that_groups(system):
    samples = [sample(n, metadata={"tenant": "a" if n < 3 else "b", "row": n}) for n in range(1, 5)]
    slices = system(samples).slices
    assert set(slices) == {"category", "difficulty", "metadata.tenant"}  # "row" tells every row apart
    assert {name: part.n for name, part in slices["category"].items()} == {"factual": 2, "conceptual": 2}
    assert slices["category"]["factual"].metrics["mrr"].n == 2


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_distribution_has_numpys_percentiles(values):
    found = distribution(np.array([*values, np.nan]))
    expected = np.percentile(values, [50, 90, 95, 99]).tolist()
    assert [found.p50, found.p90, found.p95, found.p99] == pytest.approx(expected)
    assert (found.n, found.missing, found.total) == (len(values), 1, pytest.approx(math.fsum(values)))


def test_share_of_failed_rows_leaves_out_rows_that_lacked_input():
    scores = [Score(value=1.0), Score.absent("no key", "failed"), Score.absent("no answer", "no_input")]
    column = ScoreColumn()
    for score in scores:
        column.add(score)
    metric = column.aggregate(parse("faithfulness"), RunConfig(), None)
    assert (metric.failed, metric.n) == (1, 1)
