"""Retrieval metrics against worked values."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from ragassay import retrieval
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.models import Response, Sample
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import parse
from ragassay.metrics.scoring import score_chunk

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "retrieval.json").read_text())["cases"]


def sample(retrieved, judgments, **more):
    return Sample(
        query_id="q", query="what?", relevance_scores=judgments, response=Response(retrieved_doc_ids=retrieved), **more
    )


def value(name, retrieved, judgments):
    return score_chunk(parse(name), Chunk([sample(retrieved, judgments)]))[0].value


def sample_of(case):
    return sample(case["retrieved"], case["judgments"], **case.get("sample", {}))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_worked_values_are_met_to_1e_9(case):
    if "error" in case:
        with pytest.raises(ValidationError, match=case["error"]):
            sample_of(case)
        return
    got = {name: score_chunk(parse(name), Chunk([sample_of(case)]))[0].value for name in case["expected"]}
    assert got == pytest.approx(case["expected"], abs=1e-9)
    if "run" in case:
        evaluation = retrieval({"q": case["judgments"]}, {"q": case["run"]}, case["expected"])
        assert evaluation.per_query["q"] == pytest.approx(case["expected"], abs=1e-9)


def test_details_tell_how_a_score_came_about():
    # ranks: x (0), a (2), b (1); dcg@2 = 2 / log2(3); ideal = 2 / log2(2) + 1 / log2(3)
    score = score_chunk(parse("ndcg@2"), Chunk([sample(["x", "a", "b"], {"a": 2, "b": 1})]))[0]
    assert score.details == {
        "k": 2,
        "relevant_in_k": 1,
        "relevant": 2,
        "first_relevant_rank": 2,
        "dcg": pytest.approx(1.2618595071),
        "idcg": pytest.approx(2.6309297535),
    }


def test_a_query_without_judgments_is_missing_and_one_with_nothing_relevant_is_zero():
    unjudged = Sample(query_id="q1", query="?", response=Response(retrieved_doc_ids=["a"]))
    nothing_relevant = Sample(query_id="q2", query="?", relevant_doc_ids=[], response=Response(retrieved_doc_ids=["a"]))
    first, second = score_chunk(parse("recall@5"), Chunk([unjudged, nothing_relevant]))
    assert (first.value, first.missing) == (None, "no_input")
    assert "no relevance judgments" in first.reason
    assert second.value == 0.0


def test_of_a_system_that_failed_the_reason_is_its_error():
    failed = Sample(query_id="q", query="?", relevant_doc_ids=["a"], response=Response(error="no reply: refused"))
    assert score_chunk(parse("hit@1"), Chunk([failed]))[0].reason == "the system failed: no reply: refused"


@pytest.mark.parametrize("name", ["bpref", "q_measure@3", "judged@3", "err@3", "rbp@0.8"])
def test_an_empty_list_and_a_missing_response_score_zero(name):
    silent = Sample(query_id="q", query="?", relevance_scores={"a": 1})
    empty, missing = score_chunk(parse(name), Chunk([sample([], {"a": 1}), silent]))
    assert (empty.value, missing.value) == (0.0, 0.0)
    assert missing.reason == "the system gave no response, which counts as nothing retrieved"


@pytest.mark.parametrize("name", ["kendall_tau", "spearman_rho"])
@pytest.mark.parametrize("retrieved", [[], ["a"], ["a", "b"]])
def test_an_order_of_equal_grades_has_no_correlation(name, retrieved):
    score = score_chunk(parse(name), Chunk([sample(retrieved, {"a": 1, "b": 1})]))[0]
    assert (score.value, score.missing, score.reason) == (None, "undefined", f"{name} is undefined here")


def test_relevant_from_raises_the_bar():
    chunk = Chunk([sample(["a", "b"], {"a": 1, "b": 2})], relevant_from=2)
    assert score_chunk(parse("precision@2"), chunk)[0].value == 0.5
    assert score_chunk(parse("mrr"), chunk)[0].value == 0.5
    assert score_chunk(parse("recall@2"), chunk)[0].value == 1.0


@pytest.mark.parametrize(
    "bad", ["ndcg@0", "ndcg@-1", "ndcg@1.5", "ndcg@x", "precision", "rbp@1", "rbp@0", "faithfulness@3"]
)
def test_a_bad_cutoff_is_an_error_that_names_the_metric(bad):
    with pytest.raises(BadSettings, match=bad.split("@")[0]):
        parse(bad)


def test_an_unknown_metric_lists_the_near_matches():
    with pytest.raises(UnknownName, match="unknown metric 'ngcd@10'; did you mean ndcg"):
        parse("ngcd@10")
