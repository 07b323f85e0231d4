"""Metrics that compare the answer's meaning with the ground truth's, by embeddings; models other than the bundled one need
the extra ``models``.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from ragassay.core.errors import Unavailable, reason_from
from ragassay.core.models import Sample, Score
from ragassay.embeddings import BUNDLED, DIGITS, LocalEmbedder, vectors_of
from ragassay.embeddings.library import loading, missing, named
from ragassay.embeddings.minilm import LAYERS, LONGEST_POSSIBLE, MiniLM, Vectors
from ragassay.metrics.answer import one_sided, truths_of
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import UNIT, metric

MARKS = 2  # word pieces that a model puts around a text: one before, one after

PrecisionRecallF1 = tuple[float, float, float]


@metric(better="higher", needs=("answer", "ground_truth", "embeddings"), bounds=UNIT)
def semantic_similarity(chunk: Chunk) -> list[Score]:
    """Cosine of the embeddings of answer and ground truth, clipped to 0..1. Several ground truths: the best counts."""
    if chunk.embedder is None:
        return [Score.absent(chunk.no_embedder, "no_input") for _ in chunk.samples]
    decided = [one_sided(sample) for sample in chunk.samples]
    open_rows = [s for s, score in zip(chunk.samples, decided, strict=True) if score is None]
    try:
        vectors = vectors_of(chunk.embedder, (text for s in open_rows for text in (s.answer or "", *truths_of(s))))
    except Unavailable as error:
        return [score or Score.absent(reason_from(error), "failed") for score in decided]
    return [score or _cosine(s, vectors) for s, score in zip(chunk.samples, decided, strict=True)]


@metric(better="higher", needs=("answer", "ground_truth", "embeddings"), bounds=UNIT)
def bertscore_f1(chunk: Chunk) -> list[Score]:
    """BERTScore F1 (Zhang et al., 2020) of answer and ground truth, unscaled. The best ground truth counts.

    By the last layer of the bundled model, or by the configured ``bertscore_model``: at the layer for which bert-score has
    tuned it, else its last.
    """
    why_not = bertscore_missing(chunk.bertscore_model)
    if why_not:
        return [Score.absent(why_not, "no_input") for _ in chunk.samples]
    if chunk.bertscore_model is not None:
        scorer: PieceScorer | LibraryScorer = _library_scorer(chunk.bertscore_model)
    else:
        embedder = chunk.embedder
        is_ours = isinstance(embedder, LocalEmbedder) and embedder.library_model is None
        scorer = PieceScorer(cast(LocalEmbedder, embedder) if is_ours else _bundled())
    return [one_sided(sample) or _bertscore(sample, scorer) for sample in chunk.samples]


def bertscore_missing(other: str | None) -> str | None:
    """Why ``bertscore_f1`` can't run with an ``other`` model than the bundled one, and the command to install it; or None."""
    return missing("bertscore_f1 with another model", "bert_score", "transformers", "torch") if other else None


def _cosine(sample: Sample, vectors: dict[str, Any]) -> Score:
    answer = vectors[sample.answer or ""].astype(np.float64)
    values = [round(float(answer @ vectors[truth].astype(np.float64)), DIGITS) for truth in truths_of(sample)]
    best = max(values)
    return Score(value=min(1.0, max(0.0, best)), details={"truth": values.index(best)} if len(values) > 1 else None)


def _bertscore(sample: Sample, scorer: PieceScorer | LibraryScorer) -> Score:
    scores = (scorer.score(sample.answer or "", truth) for truth in truths_of(sample))
    precision, recall, f1 = max(scores, key=lambda score: score[2])
    model = {"model": scorer.model, "layer": scorer.layer, "rescaled": False}
    return Score(value=min(1.0, max(0.0, f1)), details={**model, "precision": precision, "recall": recall})


class PieceScorer:
    """By the word pieces of the bundled model, matched as bert-score does: greedily, the marks weighing nothing.

    Texts are encoded one at a time: in a batch a score would depend on its neighbours, in the last digit everywhere, and in
    bert-score by a hundredth where a word's best cosine is negative, which padding lifts to 0.
    """

    model, layer = BUNDLED, LAYERS

    def __init__(self, embedder: LocalEmbedder) -> None:
        self._embedder = embedder
        self._encoded: dict[str, Vectors] = {}

    def score(self, answer: str, truth: str) -> PrecisionRecallF1:
        """Precision, recall and F1, rounded to 6 digits; 0 where a text holds nothing that the model can read."""
        ours, theirs = self._pieces(answer), self._pieces(truth)
        if min(len(ours), len(theirs)) <= MARKS:
            return 0.0, 0.0, 0.0
        cosines = ours @ theirs.T
        return _f1(float(cosines[1:-1].max(axis=1).mean()), float(cosines[:, 1:-1].max(axis=0).mean()))

    def _pieces(self, text: str) -> Vectors:
        if text not in self._encoded:
            pieces = cast(MiniLM, self._embedder.loaded()).encode_tokens([text], LONGEST_POSSIBLE)[0]
            self._encoded[text] = pieces / np.linalg.norm(pieces, axis=1, keepdims=True)
        return self._encoded[text]


class LibraryScorer:
    """By bert-score, on a model of the Hugging Face hub or in a folder; loaded at first use.

    Its own loader is not used: it takes any path with ``t5`` in it for a T5 model.
    """

    def __init__(self, model: str) -> None:
        self._name_or_folder = model
        self._lock = threading.Lock()

    @cached_property
    def model(self) -> str:
        """Name and, for a folder, the start of its weights' SHA-256."""
        return named(self._name_or_folder)

    @property
    def layer(self) -> int:
        """The one that bert-score's authors chose for the model by its agreement with people; else the last."""
        from bert_score.utils import model2layers

        return int(model2layers.get(self._name_or_folder) or self._loaded[0].config.num_hidden_layers)

    def score(self, answer: str, truth: str) -> PrecisionRecallF1:
        """Precision, recall and F1, rounded to 6 digits; 0 where a text holds nothing that the model can read."""
        from bert_score.utils import greedy_cos_idf

        with self._lock:
            encoded = self._encode(truth), self._encode(answer)
            if any(int(mask.sum()) <= MARKS for _, mask, _ in encoded):
                return 0.0, 0.0, 0.0
            precision, recall, _ = greedy_cos_idf(*encoded[0], *encoded[1])
        return _f1(float(precision), float(recall))

    def _encode(self, text: str) -> tuple[Any, Any, Any]:
        from bert_score.utils import get_bert_embedding

        model, tokenizer, weights = self._loaded
        layers, mask, idf = get_bert_embedding([text], model, tokenizer, weights, device="cpu", all_layers=True)
        return layers[:, :, self.layer], mask, idf

    @cached_property
    def _loaded(self) -> tuple[Any, Any, dict[int, float]]:
        with loading(f"embedding model {self._name_or_folder!r}"):
            from transformers import AutoModel, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(self._name_or_folder)
            model = AutoModel.from_pretrained(self._name_or_folder)
        model.eval()
        weights: dict[int, float] = defaultdict(lambda: 1.0)
        weights.update({tokenizer.sep_token_id: 0.0, tokenizer.cls_token_id: 0.0})
        return model, tokenizer, weights


def _f1(precision: float, recall: float) -> PrecisionRecallF1:
    p, r = max(0.0, precision), max(0.0, recall)
    return round(p, DIGITS), round(r, DIGITS), round(2 * p * r / (p + r), DIGITS) if p + r else 0.0


@lru_cache
def _bundled() -> LocalEmbedder:
    return LocalEmbedder()


@lru_cache
def _library_scorer(model: str) -> LibraryScorer:
    return LibraryScorer(model)
