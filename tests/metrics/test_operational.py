"""Routes, gates, reranking, clicks, the one primary document; novelty, diversity and freshness of a list."""

import json
from pathlib import Path

import numpy as np
import pytest

from fakes import score_chunk
from ragassay.core.eval_config import RunConfig
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
        ("gate_efficiency", {"retrieved_doc_ids": []}, {"retrieval_needed": False}, 1.0),
        ("gate_efficiency", {"contexts": []}, {"retrieval_needed": False}, 1.0),
        ("gate_efficiency", {"retrieved_doc_ids": [], "contexts": ["some"]}, {"retrieval_needed": False}, 0.0),
        ("gate_efficiency", {"retrieved_doc_ids": [], "error": "timed out"}, {"retrieval_needed": False}, 0.0),
        ("gate_efficiency", {"retrieved_doc_ids": []}, {"retrieval_needed": True}, 0.0),
        ("gate_efficiency", None, {"retrieval_needed": False}, 0.0),
        ("mrr_primary", SHOWN, {"primary_relevant": "b", "relevance_scores": {"a": 1, "b": 3}}, 0.5),
        ("mrr_primary@1", SHOWN, {"primary_relevant": "b"}, 0.0),
        ("mrr_primary", None, {"primary_relevant": "b"}, 0.0),
        ("mrr_primary", SHOWN, {}, "the query has no primary_relevant"),
        ("ctr@2", {**SHOWN, "clicks": ["b", "c", "z"]}, {}, 0.5),
        ("ctr@10", {**SHOWN, "clicks": ["b"]}, {}, 1 / 3),
        ("ctr@2", {"retrieved_doc_ids": [], "clicks": []}, {}, "nothing was shown, so nothing could be clicked"),
        ("ctr@2", SHOWN, {}, "the response has no clicks"),
    ],
)
def test_a_decision_metric_has_a_value_or_a_reason(name, response, labels, expected):
    score = ask(name, response, **labels)
    assert (score.reason if score.value is None else score.value) == (
        expected if isinstance(expected, str) else pytest.approx(expected)
    )


def reranked(before, after, name="reranking_improvement@2"):
    response = {"retrieved_doc_ids": after, "doc_ids_before_reranking": before}
    return ask(name, response, relevance_scores={"a": 1})


RESCUED, SPOILED = reranked(["x", "y"], ["a", "x"]), reranked(["a", "x"], ["x", "a"])  # NDCG 0 -> 1, and 1 -> 0.6309


def improvement(scores, questions=None):
    column = ScoreColumn()
    for score in scores:
        column.add(score)
    return column.aggregate(parse("reranking_improvement@2"), RunConfig(), questions)


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
    of_one_question = improvement([RESCUED, RESCUED], np.zeros(2, np.int64))
    assert (of_one_question.value, of_one_question.reason) == (None, None)  # it is the mean of nothing


@pytest.mark.parametrize(
    ("contexts", "k", "value", "pairs"),
    [
        (["x", "y", "x"], 10, 2 / 3, 3),  # x y: 1, x x: 0, y x: 1
        (["x", "x", "y"], 2, 0.0, 1),
    ],
)
def test_diversity_of_a_list_is_the_mean_distance_of_its_pairs(contexts, k, value, pairs):
    score = ask(f"intra_list_diversity@{k}", {"contexts": contexts}, embedder=Axes())
    assert (score.value, score.details) == (pytest.approx(value, abs=1e-6), {"pairs": pairs})


def novelty(retrieved, subtopics, k):
    response = None if retrieved is None else {"retrieved_doc_ids": retrieved}
    return ask(f"alpha_ndcg@{k}", response, subtopics=subtopics)


def test_ndeval_gives_the_same_novelty():
    cases = json.loads((Path(__file__).parents[1] / "vectors" / "alpha_ndcg.json").read_text())["cases"]
    for case in cases:
        got = {name: novelty(case["retrieved"], case["subtopics"], int(name[11:])).value for name in case["expected"]}
        assert got == pytest.approx(case["expected"], abs=1e-6), case


def fresh(retrieved, judgments, timestamps):
    response = {"retrieved_doc_ids": retrieved}
    return ask("time_decayed_ndcg@3", response, relevance_scores=judgments, doc_timestamps=timestamps)


def test_time_decayed_ndcg_halves_the_gain_after_365_days():
    score = fresh(["old", "new"], {"old": 1, "new": 1}, {"old": 0, "new": 365 * DAY})
    assert score.value == pytest.approx((0.5 + AT_2) / (1 + 0.5 * AT_2))
    assert fresh(["n", "a"], {"a": 1, "n": 0}, {"a": 0}).value == pytest.approx(AT_2)
    missing = fresh(["a"], {"a": 1, "n": 0}, {"b": 0})
    assert (missing.missing, missing.reason) == ("no_input", "relevant document 'a' has no timestamp")
