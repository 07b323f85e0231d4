"""Metrics that compare the answer's meaning with the ground truth's, by embeddings. They need the extra ``local``."""

from __future__ import annotations

import importlib.util
import threading
from collections import defaultdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ragassay.embeddings import BUNDLED, BUNDLED_PACKAGE, EXTRA, bundled_model, quiet, vectors_of, verify
from ragassay.errors import MissingExtra, Unavailable, reason_from
from ragassay.metrics.base import UNIT, metric
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.text import one_sided, truths_of
from ragassay.models import Sample, Score

DIGITS = 6
LAYER = 6
SPECIAL_PIECES = 2


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
    """BERTScore F1 of answer and ground truth by the bundled model, unscaled. The best ground truth counts."""
    missing = bertscore_missing()
    if missing:
        return [Score.absent(missing, "no_input") for _ in chunk.samples]
    return [one_sided(sample) or _bertscore(sample) for sample in chunk.samples]


def bertscore_missing() -> str | None:
    """None where ``bertscore_f1`` can run, else why not and the command that mends it. Imports nothing."""
    needed = ("bert_score", "transformers", "torch", BUNDLED_PACKAGE)
    return None if all(map(importlib.util.find_spec, needed)) else str(MissingExtra("bertscore_f1", EXTRA))


def _cosine(sample: Sample, vectors: dict[str, Any]) -> Score:
    answer = vectors[sample.answer or ""].astype(np.float64)
    values = [round(float(answer @ vectors[truth].astype(np.float64)), DIGITS) for truth in truths_of(sample)]
    best = max(values)
    return Score(value=min(1.0, max(0.0, best)), details={"truth": values.index(best)} if len(values) > 1 else None)


def _bertscore(sample: Sample) -> Score:
    scorer = _scorer(bundled_model())
    scores = (scorer.score(sample.answer or "", truth) for truth in truths_of(sample))
    precision, recall, f1 = max(scores, key=lambda score: score[2])
    details = {"model": BUNDLED, "layer": LAYER, "rescaled": False, "precision": precision, "recall": recall}
    return Score(value=min(1.0, max(0.0, f1)), details=details)


class BertScorer:
    """bert-score's encoding and greedy matching on the model in ``folder``; loaded at first use.

    Its own loader is not used: it takes any path with ``t5`` in it for a T5 model. Texts are encoded one at a time: in
    a batch, which bert-score fills in the order of a set, a score would depend on its neighbours, in the last digit
    everywhere and by a hundredth where a word's best cosine is negative, which padding lifts to 0.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def score(self, answer: str, truth: str) -> tuple[float, float, float]:
        """Precision, recall and F1, rounded to 6 digits; 0 where a text holds nothing that the model can read."""
        from bert_score.utils import greedy_cos_idf

        with self._lock:
            encoded = self._encode(truth), self._encode(answer)
            if any(int(mask.sum()) <= SPECIAL_PIECES for _, mask, _ in encoded):
                return 0.0, 0.0, 0.0
            precision, recall, _ = greedy_cos_idf(*encoded[0], *encoded[1])
        p, r = max(0.0, float(precision)), max(0.0, float(recall))
        return round(p, DIGITS), round(r, DIGITS), round(2 * p * r / (p + r), DIGITS) if p + r else 0.0

    def _encode(self, text: str) -> tuple[Any, Any, Any]:
        from bert_score.utils import get_bert_embedding

        model, tokenizer, weights = self._loaded
        encoded: tuple[Any, Any, Any] = get_bert_embedding([text], model, tokenizer, weights, device="cpu")
        return encoded

    @cached_property
    def _loaded(self) -> tuple[Any, Any, dict[int, float]]:
        verify(self._folder / "model.safetensors")
        with quiet():
            from transformers import AutoModel, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(str(self._folder), local_files_only=True)
            model = AutoModel.from_pretrained(str(self._folder), local_files_only=True)
        model.eval()
        weights: dict[int, float] = defaultdict(lambda: 1.0)
        weights.update({tokenizer.sep_token_id: 0.0, tokenizer.cls_token_id: 0.0})
        return model, tokenizer, weights


@lru_cache
def _scorer(folder: Path) -> BertScorer:
    return BertScorer(folder)
