"""Likeness of meaning: cosines of one call per chunk, and BERTScore that equals bert-score's own."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from fakes import FakeEmbedder
from minilm_files import PUBLISHED, bundled_weights_in
from ragassay.core.errors import Unavailable
from ragassay.core.models import Response, Sample
from ragassay.embeddings import LocalEmbedder
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.embedding import PieceScorer, bertscore_missing
from ragassay.metrics.metric import parse
from ragassay.metrics.scoring import score_chunk

PAIRS = [
    ("Paris is the capital of France.", "The capital of France is Paris."),
    ("Refunds take 14 days.", "You get your money back within two weeks."),
    ("The sky is blue.", "Refunds take 14 days."),
]


class Known:
    """An embedder whose vectors are given."""

    name = "known"

    def __init__(self, **vectors):
        self.vectors = vectors
        self.calls = []

    def embed(self, texts):
        self.calls.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


class Away:
    name = "away"

    def embed(self, texts):
        raise Unavailable("the embedding server is away")


def sample(answer, *truths, number=0):
    return Sample(query_id=f"q{number}", query="Which?", ground_truth_answer=truths, response=Response(answer=answer))


def similarity(samples, embedder, **options):
    return score_chunk(parse("semantic_similarity"), Chunk(samples, embedder=embedder, **options))


def test_similarity_is_the_cosine_to_the_nearest_ground_truth():
    known = Known(a=[1.0, 0.0], b=[0.6, 0.8], c=[0.8, 0.6])
    (scored,) = similarity([sample("a", "b", "c")], known)
    assert scored.value == pytest.approx(0.8)  # 1 x 0.8 + 0 x 0.6, above 0.6
    assert scored.details == {"truth": 1}


def test_a_chunk_is_embedded_in_one_call_each_text_once_in_a_fixed_order():
    fake = FakeEmbedder()
    similarity([sample("same", "other"), sample("longer", "same"), sample("", "unread"), sample("x", " ")], fake)
    assert fake.calls == [("same", "other", "longer")]


def test_rows_keep_their_own_score_or_reason():
    fake = FakeEmbedder(dimensions=4096)
    rows = [sample("red green", "green blue"), sample(None, "x"), sample(" ", "x"), sample("x", ""), sample("x")]
    scores = similarity(rows, fake)
    assert scores[0].value == pytest.approx(0.5)  # 1 shared word / (sqrt 2 x sqrt 2)
    assert [(s.value, s.reason) for s in scores[1:]] == [
        (None, "the response has no answer"),
        (0.0, "the answer is empty"),
        (None, "the ground truth answer is empty"),
        (None, "the query has no ground truth answer"),
    ]


def test_a_model_that_is_away_is_a_failure_of_the_rows_that_needed_it():
    scores = similarity([sample("a", "b"), sample("", "b")], Away())
    assert (scores[0].value, scores[0].missing, scores[0].reason) == (None, "failed", "the embedding server is away")
    assert scores[1].value == 0.0


def test_the_bundled_model_ranks_paraphrase_above_the_unrelated():
    same, paraphrase, unrelated = similarity([sample(*pair) for pair in PAIRS], LocalEmbedder())
    assert same.value > 0.9 > paraphrase.value > 0.4 > unrelated.value


@pytest.fixture(scope="module")
def scorer():
    return PieceScorer(LocalEmbedder())


def test_bertscore_equals_bert_score_on_one_pair_at_a_time(scorer, tmp_path):
    from bert_score import BERTScorer

    theirs = BERTScorer(model_type=str(bundled_weights_in(tmp_path)), num_layers=6)
    for answer, truth in [
        *PAIRS,
        ("東京は日本の首都です。", "🙂 café"),
        ("refunds " * 700, "Refunds take 14 days. " * 90),
    ]:
        expected = [float(part[0]) for part in theirs.score([answer], [truth])]
        assert scorer.score(answer, truth) == pytest.approx(expected, abs=1e-4)


def test_bertscore_with_another_model_is_bert_scores_and_names_it():
    ours = bertscore([sample(*pair) for pair in PAIRS])
    theirs = bertscore([sample(*pair) for pair in PAIRS], model=str(PUBLISHED))
    assert [score.value for score in theirs] == pytest.approx(
        [score.value for score in ours], abs=0.01
    )  # int8, float32
    assert theirs[0].details["model"] == f"{PUBLISHED} (sha256:53aa51172d14)"
    assert theirs[0].details["layer"] == 6


def test_without_bert_score_the_reason_holds_the_command(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bert_score" else find_spec(name))
    assert bertscore_missing(None) is None, "the bundled model needs none of it"
    (score,) = bertscore([sample("a", "b")], model="some/model")
    assert (score.value, score.missing, score.reason) == (None, "no_input", bertscore_missing("some/model"))
    assert "pip install 'ragassay[models]'" in score.reason


def bertscore(samples, model=None):
    return score_chunk(parse("bertscore_f1"), Chunk(samples, bertscore_model=model))
