"""Metrics of an answer's words and meaning: equal to rouge-score, SQuAD and bert-score where those are defined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from fakes import FakeEmbedder, score_chunk
from minilm_files import PUBLISHED, bundled_weights_in
from ragassay.core.errors import Unavailable
from ragassay.core.models import Response, Sample
from ragassay.embeddings import LocalEmbedder
from ragassay.metrics.answer import normalised
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.embedding import PieceScorer
from ragassay.metrics.metric import parse

NAMES = ["rouge1", "rouge2", "rougeL", "exact_match", "token_f1"]
ASCII = st.text(alphabet=st.characters(codec="ascii"), max_size=60)
PAIRS = [
    ("Paris is the capital of France.", "The capital of France is Paris."),
    ("Refunds take 14 days.", "You get your money back within two weeks."),
    ("The sky is blue.", "Refunds take 14 days."),
]


def sample(answer, *truths):
    return Sample(query_id="q", query="Which?", ground_truth_answer=truths, response=Response(answer=answer))


def score(name, answer, *truths):
    return score_chunk(parse(name), Chunk([sample(answer, *truths)]))[0]


def value(name, answer, *truths):
    return score(name, answer, *truths).value


def test_rouge_finds_words_of_every_script():
    for name in ("rouge1", "rouge2", "rougeL"):
        for text in ("Привет, большой мир", "今天下雨", "हिन्दी भाषा है"):
            assert value(name, text, text.lower()) == 1.0
    assert value("rouge1", "今天下雨", "今天下雪") == pytest.approx(3 / 4)  # 3 of 4 characters
    assert value("rouge1", "हिन्दी भाषा", "हिन्दी गाना") == pytest.approx(1 / 2)  # vowel signs do not part a word


@given(answer=ASCII, truth=ASCII.filter(str.strip))
def test_rouge_equals_rouge_score_on_ascii(answer, truth):
    expected = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(truth, answer)
    for name in ("rouge1", "rouge2", "rougeL"):
        assert value(name, answer, truth) == pytest.approx(expected[name].fmeasure, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("  an  apple,\ta pear theatre ", "apple pear theatre"),
        ("it's 3.5 %", "its 35"),
        ("“Paris” — la ville", "paris la ville"),
        ("今天下雨。", "今 天 下 雨"),
        ("Cafe\u0301", "café"),
    ],
)
def test_normalisation_drops_case_punctuation_articles_and_white_space(text, expected):
    assert normalised(text) == expected


def test_token_f1_counts_shared_words_with_their_number():
    # answer: in paris paris (3), truth: paris in france (3), shared: in, paris -> 2 x 2 / 6
    assert value("token_f1", "In Paris, Paris", "Paris in France") == pytest.approx(4 / 6)


@pytest.mark.parametrize("name", NAMES)
def test_of_several_ground_truths_the_best_counts_and_is_named(name):
    scored = score(name, "fourteen days", "two weeks", "fourteen days", "14 days")
    assert (scored.value, scored.details) == (1.0, {"truth": 1})
    assert score(name, "fourteen days", "fourteen days").details is None


@pytest.mark.parametrize("name", NAMES)
def test_without_answer_or_ground_truth_the_row_is_missing(name):
    assert score(name, None, "Paris").reason == "the response has no answer"
    assert score(name, "Paris").reason == "the query has no ground truth answer"
    scored = score(name, "Paris", " ", "")
    assert (scored.value, scored.missing, scored.reason) == (None, "no_input", "the ground truth answer is empty")


# --- likeness of meaning ---


class Known:
    """An embedder whose vectors are given; without any, its server is away."""

    name = "known"

    def __init__(self, **vectors):
        self.vectors = vectors

    def embed(self, texts):
        if not self.vectors:
            raise Unavailable("the embedding server is away")
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def similarity(embedder, *samples):
    return score_chunk(parse("semantic_similarity"), Chunk(list(samples), embedder=embedder))


def bertscore(samples, model=None):
    return score_chunk(parse("bertscore_f1"), Chunk(samples, bertscore_model=model))


def test_similarity_is_the_cosine_to_the_nearest_ground_truth():
    (scored,) = similarity(Known(a=[1.0, 0.0], b=[0.6, 0.8], c=[0.8, 0.6]), sample("a", "b", "c"))
    assert (scored.value, scored.details) == (pytest.approx(0.8), {"truth": 1})  # 1 x 0.8 + 0 x 0.6, above 0.6


def test_similarity_gives_each_row_its_own_score_or_reason():
    rows = [sample("red green", "green blue"), sample(None, "x"), sample(" ", "x"), sample("x", ""), sample("x")]
    first, *others = similarity(FakeEmbedder(dimensions=4096), *rows)
    assert first.value == pytest.approx(0.5)  # 1 shared word / (sqrt 2 x sqrt 2)
    assert [(s.value, s.reason) for s in others] == [
        (None, "the response has no answer"),
        (0.0, "the answer is empty"),
        (None, "the ground truth answer is empty"),
        (None, "the query has no ground truth answer"),
    ]
    away, empty = similarity(Known(), sample("a", "b"), sample("", "b"))
    assert (away.value, away.missing, away.reason) == (None, "failed", "the embedding server is away")
    assert empty.value == 0.0


def test_similarity_by_the_bundled_model_ranks_paraphrase_above_the_unrelated():
    same, paraphrase, unrelated = similarity(LocalEmbedder(), *(sample(*pair) for pair in PAIRS))
    assert same.value > 0.9 > paraphrase.value > 0.4 > unrelated.value


def test_bertscore_equals_bert_score_on_one_pair_at_a_time(tmp_path):
    from bert_score import BERTScorer

    ours, theirs = (
        PieceScorer(LocalEmbedder()),
        BERTScorer(model_type=str(bundled_weights_in(tmp_path)), num_layers=6),
    )
    long = ("refunds " * 700, "Refunds take 14 days. " * 90)  # cut off after 512 pieces
    for answer, truth in [*PAIRS, ("東京は日本の首都です。", "🙂 café"), long]:
        expected = [float(part[0]) for part in theirs.score([answer], [truth])]
        assert ours.score(answer, truth) == pytest.approx(expected, abs=1e-4)


def test_bertscore_with_another_model_is_bert_scores_and_names_it():
    rows = [sample(*pair) for pair in PAIRS]
    ours, theirs = bertscore(rows), bertscore(rows, model=str(PUBLISHED))
    values = [[score.value for score in scores] for scores in (ours, theirs)]
    assert values[1] == pytest.approx(values[0], abs=0.01)  # int8, float32
    assert theirs[0].details["model"] == f"{PUBLISHED} (sha256:53aa51172d14)"
    assert theirs[0].details["layer"] == 6
