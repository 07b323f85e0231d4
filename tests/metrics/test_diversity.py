"""Novelty, diversity of texts, and freshness."""

import json
from pathlib import Path

import numpy as np
import pytest

from ragassay.core.models import Response, Sample
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import parse
from ragassay.metrics.scoring import score_chunk

DAY = 86_400


class Axes:
    """Embeds a text as the axis that it names."""

    name = "axes"

    def embed(self, texts):
        return np.array([np.eye(3)["xyz".index(text)] for text in texts], np.float32)


def spread(*lists, embedder=None, k=10):
    samples = [
        Sample(query_id=f"q{n}", query="?", response=Response(contexts=contexts)) for n, contexts in enumerate(lists)
    ]
    return score_chunk(parse(f"intra_list_diversity@{k}"), Chunk(samples, embedder=embedder or Axes()))


def test_diversity_of_a_list_is_the_mean_distance_of_its_pairs():
    # x y: 1, x x: 0, y x: 1
    both, cut, same = spread(["x", "y", "x"], ["x", "x", "y"], ["z", "z"])
    assert (both.value, both.details) == (pytest.approx(2 / 3, abs=1e-6), {"pairs": 3})
    assert (cut.value, same.value) == (pytest.approx(2 / 3, abs=1e-6), 0.0)
    assert spread(["x", "x", "y"], k=2)[0].value == 0.0


def test_without_an_embedder_diversity_is_missing_with_the_reason():
    sample = Sample(query_id="q", query="?", response=Response(contexts=["x", "y"]))
    score = score_chunk(parse("intra_list_diversity@5"), Chunk([sample], no_embedder="install the extra models"))[0]
    assert (score.value, score.missing, score.reason) == (None, "no_input", "install the extra models")


def novelty(retrieved, subtopics, k=3):
    response = None if retrieved is None else Response(retrieved_doc_ids=retrieved)
    sample = Sample(query_id="q", query="?", subtopics=subtopics, response=response)
    return score_chunk(parse(f"alpha_ndcg@{k}"), Chunk([sample]))[0]


def test_ndeval_gives_the_same_novelty():
    cases = json.loads((Path(__file__).parents[1] / "vectors" / "alpha_ndcg.json").read_text())["cases"]
    for case in cases:
        got = {name: novelty(case["retrieved"], case["subtopics"], int(name[11:])).value for name in case["expected"]}
        assert got == pytest.approx(case["expected"], abs=1e-6), case


def fresh(retrieved, judgments, timestamps, k=3):
    response = Response(retrieved_doc_ids=retrieved)
    sample = Sample(query_id="q", query="?", relevance_scores=judgments, doc_timestamps=timestamps, response=response)
    return score_chunk(parse(f"time_decayed_ndcg@{k}"), Chunk([sample]))[0]


def test_time_decayed_ndcg_halves_the_gain_after_365_days():
    discount = 0.6309297536
    score = fresh(["old", "new"], {"old": 1, "new": 1}, {"old": 0, "new": 365 * DAY})
    assert score.value == pytest.approx((0.5 + discount) / (1 + 0.5 * discount))


def test_a_relevant_document_without_a_timestamp_makes_the_score_missing():
    score = fresh(["a"], {"a": 1, "n": 0}, {"b": 0})
    assert (score.missing, score.reason) == ("no_input", "relevant document 'a' has no timestamp")
    assert fresh(["n", "a"], {"a": 1, "n": 0}, {"a": 0}).value == pytest.approx(0.6309297536)


def test_alpha_ndcg_of_too_many_documents_has_a_reason():
    subtopics = {f"d{n}": ["a", "b"] for n in range(2000)}  # 2,000 x 4,000 gains
    sample = Sample(query_id="q", query="?", subtopics=subtopics, response=Response(retrieved_doc_ids=list(subtopics)))
    found = score_chunk(parse("alpha_ndcg@2000"), Chunk([sample]))[0]
    assert (found.value, "too many documents" in found.reason) == (None, True)
    assert score_chunk(parse("alpha_ndcg@10"), Chunk([sample]))[0].value is not None
