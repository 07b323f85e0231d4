"""Routes, gates, reranking, clicks, and the one primary document."""

import numpy as np
import pytest

from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Response, Sample
from ragassay.evaluation.aggregate import ScoreColumn
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import parse
from ragassay.metrics.scoring import score_chunk


def ask(name, response=None, **labels):
    """The score of one query with these labels and a response of these fields."""
    given = None if response is None else Response(**response)
    return score_chunk(parse(name), Chunk([Sample(query_id="q", query="?", response=given, **labels)]))[0]


@pytest.mark.parametrize(("chosen", "value"), [("sql", 1.0), ("web", 0.0)])
def test_a_route_is_right_when_it_is_the_labelled_one(chosen, value):
    score = ask("routing_accuracy", {"route": chosen}, best_route="sql")
    assert (score.value, score.details) == (value, {"chosen": chosen, "best": "sql"})


def test_a_route_without_a_label_or_a_choice_is_missing_and_a_missing_response_is_wrong():
    assert ask("routing_accuracy", {"route": "sql"}).reason == "the query has no best_route"
    assert ask("routing_accuracy", {"answer": "x"}, best_route="sql").reason == "the response has no route"
    assert ask("routing_accuracy", best_route="sql").value == 0.0


@pytest.mark.parametrize(
    ("needed", "response", "value"),
    [
        (False, {"retrieved_doc_ids": []}, 1.0),
        (False, {"contexts": []}, 1.0),
        (False, {"retrieved_doc_ids": [], "contexts": ["something"]}, 0.0),
        (False, {"retrieved_doc_ids": ["a"]}, 0.0),
        (False, {"retrieved_doc_ids": [], "error": "timed out"}, 0.0),
        (True, {"retrieved_doc_ids": []}, 0.0),
        (False, None, 0.0),
    ],
)
def test_a_gate_is_efficient_where_it_rightly_skips_retrieval(needed, response, value):
    assert ask("gate_efficiency", response, retrieval_needed=needed).value == value


def reranked(before, after, name="reranking_improvement@2", judgments=None):
    response = {"retrieved_doc_ids": after, "doc_ids_before_reranking": before}
    return ask(name, response, relevance_scores=judgments or {"a": 1})


def test_reranking_improvement_of_a_row_is_the_difference_of_ndcg():
    # before: 1/log2(3); after: 1
    score = reranked(["x", "a"], ["a", "x"])
    assert score.value == pytest.approx(1 - 0.6309297536)
    assert score.details == {"ndcg_before": pytest.approx(0.6309297536), "ndcg_after": 1.0}
    # without a cutoff, a at rank 3 is 1/log2(4) = 1/2
    assert reranked(["x", "y", "a"], ["a"], "reranking_improvement").value == pytest.approx(0.5)


def test_reranking_improvement_of_a_report_counts_rescued_queries():
    # q1: 0 -> 1 (rescued), q2: 1 -> 0.6309; mean 0.5 -> 0.8155, so (0.8155 - 0.5) / 0.5
    scores = [reranked(["x", "y"], ["a", "x"]), reranked(["a", "x"], ["x", "a"])]
    found = ScoreColumn(scores).aggregate(parse("reranking_improvement@2"), EvalConfig(), None)
    assert (found.value, found.n) == (pytest.approx(0.6309297536), 2)
    never = ScoreColumn(scores[:1]).aggregate(parse("reranking_improvement@2"), EvalConfig(), None)
    assert never.value is None
    assert never.interval.reason == "ndcg was 0 before reranking on every query"


def test_reranking_improvement_counts_several_answers_to_one_question_once():
    once = [reranked(["x", "y"], ["a", "x"]), reranked(["a", "x"], ["x", "a"])] * 5
    thrice, questions = [one for one in once for _ in range(3)], np.arange(30) // 3
    found = [
        ScoreColumn(scores).aggregate(parse("reranking_improvement@2"), EvalConfig(), of)
        for scores, of in ((once, None), (thrice, questions))
    ]
    assert (found[1].value, found[1].sd) == pytest.approx((found[0].value, found[0].sd))
    assert found[1].interval == found[0].interval
    # changes of 1 and -0.3691 in turn, mean 0.3155: the spread is that of the changes, not around the relative change
    assert found[0].sd == pytest.approx((10 / 9) ** 0.5 * (1 + 0.3690702464) / 2)


def test_the_primary_document_has_a_reciprocal_rank_of_its_own():
    response = {"retrieved_doc_ids": ["a", "b"]}
    score = ask("mrr_primary", response, primary_relevant="b", relevance_scores={"a": 1, "b": 3})
    assert (score.value, score.details) == (0.5, {"k": None, "primary_rank": 2})
    assert ask("mrr_primary@1", response, primary_relevant="b").value == 0.0
    assert ask("mrr_primary", primary_relevant="b").value == 0.0
    assert ask("mrr_primary", response).reason == "the query has no primary_relevant"
    assert ask("mrr_primary", {"answer": "x"}, primary_relevant="b").reason == "the response has no retrieved_doc_ids"


def test_clicks_are_counted_over_what_was_shown():
    shown = {"retrieved_doc_ids": ["a", "b", "c"]}
    assert ask("ctr@2", {**shown, "clicks": ["b", "c", "z"]}).value == 0.5
    assert ask("ctr@10", {**shown, "clicks": ["b"]}).value == pytest.approx(1 / 3)
    assert ask("ctr@2", {**shown, "clicks": []}).value == 0.0
    assert ask("ctr@2", {"retrieved_doc_ids": [], "clicks": []}).missing == "undefined"
    assert ask("ctr@2", shown).reason == "the response has no clicks"
    assert ask("ctr@2", {"clicks": ["a"]}).reason == "the response has no retrieved_doc_ids"
