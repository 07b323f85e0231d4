"""Routes, gates, reranking, clicks, the one primary document; novelty, diversity and freshness of a list."""

import json
from pathlib import Path

import numpy as np
import pytest

from fakes import score_chunk
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Response, Sample
from ragassay.evaluation.aggregate import ScoreColumn
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import parse

DAY = 86_400
AT_2 = 0.6309297536  # 1 / log2(3)


class Axes:
    """Embeds a text as the axis that it names."""

    name = "axes"

    def embed(self, texts):
        return np.array([np.eye(3)["xyz".index(text)] for text in texts], np.float32)


def ask(name, response=None, *, embedder=None, no_embedder="", **labels):
    """The score of one query with these labels and a response of these fields."""
    given = None if response is None else Response(**response)
    chunk = Chunk(
        [Sample(query_id="q", query="?", response=given, **labels)], embedder=embedder, no_embedder=no_embedder
    )
    return score_chunk(parse(name), chunk)[0]


SHOWN = {"retrieved_doc_ids": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("name", "response", "labels", "expected"),
    [
        ("routing_accuracy", {"route": "sql"}, {"best_route": "sql"}, 1.0),
        ("routing_accuracy", {"route": "web"}, {"best_route": "sql"}, 0.0),
        ("routing_accuracy", None, {"best_route": "sql"}, 0.0),
        ("routing_accuracy", {"route": "sql"}, {}, "the query has no best_route"),
        ("routing_accuracy", {"answer": "x"}, {"best_route": "sql"}, "the response has no route"),
        ("gate_efficiency", {"retrieved_doc_ids": []}, {"retrieval_needed": False}, 1.0),
        ("gate_efficiency", {"contexts": []}, {"retrieval_needed": False}, 1.0),
        ("gate_efficiency", {"retrieved_doc_ids": [], "contexts": ["some"]}, {"retrieval_needed": False}, 0.0),
        ("gate_efficiency", {"retrieved_doc_ids": ["a"]}, {"retrieval_needed": False}, 0.0),
        ("gate_efficiency", {"retrieved_doc_ids": [], "error": "timed out"}, {"retrieval_needed": False}, 0.0),
        ("gate_efficiency", {"retrieved_doc_ids": []}, {"retrieval_needed": True}, 0.0),
        ("gate_efficiency", None, {"retrieval_needed": False}, 0.0),
        ("mrr_primary", SHOWN, {"primary_relevant": "b", "relevance_scores": {"a": 1, "b": 3}}, 0.5),
        ("mrr_primary@1", SHOWN, {"primary_relevant": "b"}, 0.0),
        ("mrr_primary", None, {"primary_relevant": "b"}, 0.0),
        ("mrr_primary", SHOWN, {}, "the query has no primary_relevant"),
        ("mrr_primary", {"answer": "x"}, {"primary_relevant": "b"}, "the response has no retrieved_doc_ids"),
        ("ctr@2", {**SHOWN, "clicks": ["b", "c", "z"]}, {}, 0.5),
        ("ctr@10", {**SHOWN, "clicks": ["b"]}, {}, 1 / 3),
        ("ctr@2", {**SHOWN, "clicks": []}, {}, 0.0),
        ("ctr@2", {"retrieved_doc_ids": [], "clicks": []}, {}, "nothing was shown, so nothing could be clicked"),
        ("ctr@2", SHOWN, {}, "the response has no clicks"),
        ("ctr@2", {"clicks": ["a"]}, {}, "the response has no retrieved_doc_ids"),
    ],
)
def test_a_decision_metric_has_a_value_or_a_reason(name, response, labels, expected):
    score = ask(name, response, **labels)
    assert (score.reason if score.value is None else score.value) == (
        expected if isinstance(expected, str) else pytest.approx(expected)
    )


def test_details_of_decision_metrics_name_what_was_chosen_and_found():
    assert ask("routing_accuracy", {"route": "web"}, best_route="sql").details == {"chosen": "web", "best": "sql"}
    assert ask("mrr_primary", SHOWN, primary_relevant="b").details == {"k": None, "primary_rank": 2}


def reranked(before, after, name="reranking_improvement@2"):
    response = {"retrieved_doc_ids": after, "doc_ids_before_reranking": before}
    return ask(name, response, relevance_scores={"a": 1})


RESCUED, SPOILED = reranked(["x", "y"], ["a", "x"]), reranked(["a", "x"], ["x", "a"])  # NDCG 0 -> 1, and 1 -> 0.6309


def improvement(scores, questions=None):
    return ScoreColumn(scores).aggregate(parse("reranking_improvement@2"), EvalConfig(), questions)


def test_reranking_improvement_of_a_row_is_the_difference_of_ndcg():
    score = reranked(["x", "a"], ["a", "x"])
    assert score.value == pytest.approx(1 - AT_2)
    assert score.details == {"ndcg_before": pytest.approx(AT_2), "ndcg_after": 1.0}
    # without a cutoff, a at rank 3 is 1/log2(4) = 1/2
    assert reranked(["x", "y", "a"], ["a"], "reranking_improvement").value == pytest.approx(0.5)


def test_reranking_improvement_of_a_report_counts_rescued_queries():
    # mean 0.5 -> 0.8155, so (0.8155 - 0.5) / 0.5
    found = improvement([RESCUED, SPOILED])
    assert (found.value, found.n) == (pytest.approx(AT_2), 2)
    never = improvement([RESCUED])
    assert (never.value, never.interval.reason) == (None, "ndcg was 0 before reranking on every query")


def test_reranking_improvement_counts_several_answers_to_one_question_once():
    once = [RESCUED, SPOILED] * 5
    alone, thrice = improvement(once), improvement([one for one in once for _ in range(3)], np.arange(30) // 3)
    assert (thrice.value, thrice.sd) == pytest.approx((alone.value, alone.sd))
    assert thrice.interval == alone.interval
    # changes of 1 and -0.3691 in turn, mean 0.3155: the spread is that of the changes, not around the relative change
    assert alone.sd == pytest.approx((10 / 9) ** 0.5 * (2 - AT_2) / 2)


@pytest.mark.parametrize(
    ("contexts", "k", "value", "pairs"),
    [
        (["x", "y", "x"], 10, 2 / 3, 3),  # x y: 1, x x: 0, y x: 1
        (["z", "z"], 10, 0.0, 1),
        (["x", "x", "y"], 2, 0.0, 1),
    ],
)
def test_diversity_of_a_list_is_the_mean_distance_of_its_pairs(contexts, k, value, pairs):
    score = ask(f"intra_list_diversity@{k}", {"contexts": contexts}, embedder=Axes())
    assert (score.value, score.details) == (pytest.approx(value, abs=1e-6), {"pairs": pairs})


def test_without_an_embedder_diversity_is_missing_with_the_reason():
    score = ask("intra_list_diversity@5", {"contexts": ["x", "y"]}, no_embedder="install the extra models")
    assert (score.value, score.missing, score.reason) == (None, "no_input", "install the extra models")


def novelty(retrieved, subtopics, k):
    response = None if retrieved is None else {"retrieved_doc_ids": retrieved}
    return ask(f"alpha_ndcg@{k}", response, subtopics=subtopics)


def test_ndeval_gives_the_same_novelty():
    cases = json.loads((Path(__file__).parents[1] / "vectors" / "alpha_ndcg.json").read_text())["cases"]
    for case in cases:
        got = {name: novelty(case["retrieved"], case["subtopics"], int(name[11:])).value for name in case["expected"]}
        assert got == pytest.approx(case["expected"], abs=1e-6), case


def test_alpha_ndcg_of_too_many_documents_has_a_reason():
    subtopics = {f"d{n}": ["a", "b"] for n in range(2000)}  # 2,000 x 4,000 gains
    score = novelty(list(subtopics), subtopics, 2000)
    assert (score.value, "too many documents" in score.reason) == (None, True)
    assert novelty(list(subtopics), subtopics, 10).value is not None


def fresh(retrieved, judgments, timestamps):
    response = {"retrieved_doc_ids": retrieved}
    return ask("time_decayed_ndcg@3", response, relevance_scores=judgments, doc_timestamps=timestamps)


def test_time_decayed_ndcg_halves_the_gain_after_365_days():
    score = fresh(["old", "new"], {"old": 1, "new": 1}, {"old": 0, "new": 365 * DAY})
    assert score.value == pytest.approx((0.5 + AT_2) / (1 + 0.5 * AT_2))
    assert fresh(["n", "a"], {"a": 1, "n": 0}, {"a": 0}).value == pytest.approx(AT_2)
    missing = fresh(["a"], {"a": 1, "n": 0}, {"b": 0})
    assert (missing.missing, missing.reason) == ("no_input", "relevant document 'a' has no timestamp")
