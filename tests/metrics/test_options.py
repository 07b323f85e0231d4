"""Options in a metric's name: read in one place, checked, shown in the name, and passed to the function."""

import json
from typing import Annotated

import pytest
from annotated_types import Ge
from rouge_score.rouge_scorer import RougeScorer

from offline_runs import GOOD, sample, write_jsonl
from ragassay.errors import BadSettings
from ragassay.metrics import Chunk, metric, parse
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.options import listed
from ragassay.metrics.own import own_metrics
from ragassay.specification import JobSpec

pytestmark = pytest.mark.usefixtures("own_metrics")


def value(name, **fields):
    return parse(name).score(Chunk([sample(**fields)]))[0].value


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("rougeL(stem=true)", "rougeL(stem=true)"),
        (" Rouge-L ( stem = True ) ", "rougeL(stem=true)"),
        ("rougeL(stem=false)", "rougeL"),
        ("rougeL()", "rougeL"),
        ("alpha_ndcg@10(alpha=0.3)", "alpha_ndcg@10(alpha=0.3)"),
        ("alpha_ndcg@10(alpha=0.50)", "alpha_ndcg@10"),
        ("time_decayed_ndcg@5(half_life_days=30)", "time_decayed_ndcg@5(half_life_days=30)"),
        ("q_measure(beta=10)", "q_measure(beta=10)"),
    ],
)
def test_a_name_with_options_prints_back_the_same_and_what_is_usual_is_left_out(written, name):
    assert parse(written).name == name
    assert parse(name).name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("rougeL(stemmer=true)", "metric 'rougeL': has no option 'stemmer'; it has: stem=false"),
        ("mrr(stem=true)", "metric 'mrr': has no option 'stem'; it has none"),
        ("rougeL(stem=2)", "metric 'rougeL': stem should be true or false, is the number 2"),
        ("alpha_ndcg@10(alpha=1.5)", "metric 'alpha_ndcg@10': alpha should be at most 1, is the number 1.5"),
        ("alpha_ndcg@10(alpha=much)", "alpha should be a number, is 'much'"),
        ("alpha_ndcg(alpha=0.5)", "needs a value after @"),
        ("rougeL(stem)", "can't read the option 'stem'; write (option=value)"),
        ("rougeL(stem=true,stem=false)", "stem is given twice"),
        ("mrr(k=10)", "has no option 'k'"),
    ],
)
def test_an_option_that_a_metric_has_not_or_that_does_not_fit_is_refused(name, says):
    with pytest.raises(BadSettings) as refused:
        parse(name)
    assert says in str(refused.value)


@pytest.mark.parametrize("kind", ["rouge1", "rouge2", "rougeL"])
def test_stemmed_rouge_is_that_of_rouge_score(kind):
    answer, truth = "the payments were refunded to customers quickly", "Refunding a customer's payment takes two days"
    oracle = RougeScorer([kind], use_stemmer=True).score(truth, answer)[kind].fmeasure
    assert value(f"{kind}(stem=true)", answer=answer, ground_truth_answer=truth) == pytest.approx(oracle, abs=1e-12)
    if kind == "rouge1":
        assert oracle > value(kind, answer=answer, ground_truth_answer=truth)


def test_alpha_half_life_and_beta_change_what_they_should():
    subtopics = {"a": ["x"], "b": ["x"], "c": ["y"]}
    # alpha 0: what was met counts in full, so any order is ideal; alpha 1: not at all: 1 / (1 + 1/1.585)
    assert value("alpha_ndcg@2(alpha=0)", retrieved_doc_ids=["a", "b"], subtopics=subtopics) == 1.0
    assert value("alpha_ndcg@2(alpha=1)", retrieved_doc_ids=["a", "b"], subtopics=subtopics) == pytest.approx(
        0.6131, abs=1e-4
    )
    dated = {
        "retrieved_doc_ids": ["old", "new"],
        "relevance_scores": {"old": 1, "new": 1},
        "relevant_doc_ids": ["old", "new"],
        "doc_timestamps": {"old": "2023-01-01", "new": "2024-01-01"},
    }
    assert value("time_decayed_ndcg@2(half_life_days=365)", **dated) == value("time_decayed_ndcg@2", **dated)
    assert value("time_decayed_ndcg@2(half_life_days=30)", **dated) < value("time_decayed_ndcg@2", **dated)
    graded = {"retrieved_doc_ids": ["x", "a"], "relevance_scores": {"a": 3, "b": 1}, "relevant_doc_ids": ["a", "b"]}
    # one hit at rank 2 of two relevant: (1 + beta 3) / (2 + beta (3 + 1)) / 2
    assert value("q_measure(beta=10)", **graded) == pytest.approx(31 / 42 / 2)
    assert value("q_measure(beta=0)", **graded) == value("map", **graded)


def test_a_metric_of_ones_own_has_the_options_of_its_function():
    @metric(better="higher")
    def brief(row, words: int = 10, *, strict: Annotated[float, Ge(0)] = 0.5, unit="words", pattern=()):
        return float(len(row.answer.split()) <= words)

    assert parse("brief(words=3)").name == "brief(words=3)"
    assert [value(f"brief(words={n})", answer="one two three four") for n in (3, 4)] == [0.0, 1.0]
    assert parse("brief(unit=letters, strict=2)").options == (("strict", 2.0), ("unit", "letters"))
    for wrong in ("brief(words=2.5)", "brief(strict=-1)", "brief(unit=3)", "brief(pattern=x)"):
        with pytest.raises(BadSettings):
            parse(wrong)


def test_names_in_a_list_may_hold_commas_within_parentheses():
    assert listed("mrr, own(a=1, b=2),rougeL(stem=true)") == ["mrr", "own(a=1, b=2)", "rougeL(stem=true)"]


def test_options_stand_wherever_a_metric_is_named(cli, tmp_path):
    write_jsonl(tmp_path / "d.jsonl", [GOOD | {"query_id": f"q{n}", "query": f"{n}?"} for n in range(3)])
    (tmp_path / "ragassay.yaml").write_text(
        "data: d.jsonl\nmetrics: [rougeL, rougeL(stem=true), accurate]\naccurate: rougeL(stem=true) >= 0.1\n"
        "composites: {gain: 'rougeL(stem=true) - rougeL, higher is better'}\ngates: [rougeL(stem=true): '>= 0.1']\n"
    )
    code, out, err = cli("evaluate", "--json", "-o", "rows.csv")
    assert code == 0, err
    assert list(json.loads(out)["systems"]["default"]["metrics"]) == ["rougeL", "rougeL(stem=true)", "accurate", "gain"]
    assert ",rougeL(stem=true)," in (tmp_path / "rows.csv").read_text()
    assert cli("gate")[0] == 0
    assert cli("trend", "rougeL(stem=true)")[0] == 0
    listed = {one["name"]: one["options"] for one in json.loads(cli("metrics", "--json")[1])}
    assert listed["rougeL"] == {"stem": False}
    assert listed["alpha_ndcg@k"] == {"alpha": 0.5}
    assert "Options: (stem=false)" in " ".join(cli("metrics")[1].split())


def test_a_rule_and_a_composite_read_names_with_options():
    assert AccuracyRule.parse("alpha_ndcg@10(alpha=0.3)>=0.5 and mrr > 0").metrics == (
        "alpha_ndcg@10(alpha=0.3)",
        "mrr",
    )
    own = own_metrics(JobSpec(composites={"x": "min(rougeL(stem=true), 0.5) + rouge1"}))
    assert [part.name for part in own["x"].parts] == ["rougeL(stem=true)", "rouge1"]
