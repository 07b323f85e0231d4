"""Metrics that compare the answer's words with the ground truth's. Several ground truths: the best counts."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ragassay.core.models import Sample, Score
from ragassay.core.text import UNSPACED, words
from ragassay.metrics.metric import UNIT, metric

MAX_CELLS = 4_000_000  # about a second
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = frozenset(string.punctuation)


@metric(better="higher", needs=("answer", "ground_truth"), bounds=UNIT)
def rouge1(sample: Sample) -> Score:
    """ROUGE-1: F-measure of the words that answer and ground truth share (rouge-score)."""
    return _rouge("rouge1", sample)


@metric(better="higher", needs=("answer", "ground_truth"), bounds=UNIT)
def rouge2(sample: Sample) -> Score:
    """ROUGE-2: F-measure of the pairs of neighbouring words that answer and ground truth share (rouge-score)."""
    return _rouge("rouge2", sample)


@metric(better="higher", needs=("answer", "ground_truth"), name="rougeL", bounds=UNIT)
def rouge_l(sample: Sample) -> Score:
    """ROUGE-L: F-measure of the longest common subsequence of words (rouge-score)."""
    return _rouge("rougeL", sample)


@metric(better="higher", needs=("answer", "ground_truth"), binary=True)
def exact_match(sample: Sample) -> Score:
    """1 when answer and ground truth are the same but for case, punctuation, articles and white space (SQuAD)."""
    return _best(sample, lambda answer, truth: float(normalised(answer) == normalised(truth)))


@metric(better="higher", needs=("answer", "ground_truth"), bounds=UNIT)
def token_f1(sample: Sample) -> Score:
    """F1 of the words that answer and ground truth share, after the normalisation of exact_match (SQuAD)."""
    return _best(sample, lambda answer, truth: _shared_f1(normalised(answer).split(), normalised(truth).split()))


def normalised(text: str) -> str:
    """``text`` in lower case without punctuation and English articles, its words parted by single spaces.

    For ASCII text, exactly the normalisation of SQuAD's evaluation script. Beyond it, punctuation of every script goes,
    and ideographs and kana, which no space parts, count as a word each.
    """
    text = text.lower()
    if text.isascii():
        bare = "".join(c for c in text if c not in _PUNCTUATION)
    else:
        composed = unicodedata.normalize("NFC", text)
        bare = "".join(c for c in composed if c not in _PUNCTUATION and unicodedata.category(c)[0] != "P")
        bare = UNSPACED.sub(r" \1 ", bare)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def _shared_f1(answer: list[str], truth: list[str]) -> float:
    if not answer or not truth:
        return float(answer == truth)
    shared = (Counter(answer) & Counter(truth)).total()
    return 2 * shared / (len(answer) + len(truth))


def truths_of(sample: Sample) -> list[str]:
    """The ground truths that are not blank."""
    return [truth for truth in sample.ground_truth_answer if truth.strip()]


def one_sided(sample: Sample) -> Score | None:
    """The score of a row with nothing to compare on one side; None for all others."""
    if not truths_of(sample):
        return Score.absent("the ground truth answer is empty", "no_input")
    return None if (sample.answer or "").strip() else Score(value=0.0, reason="the answer is empty")


def _best(sample: Sample, compare: Callable[[str, str], float]) -> Score:
    """The best of ``compare(answer, truth)`` over the ground truths that are not blank."""
    if score := one_sided(sample):
        return score
    values = [compare(sample.answer or "", truth) for truth in truths_of(sample)]
    best = max(values)
    return Score(value=best, details={"truth": values.index(best)} if len(values) > 1 else None)


def _rouge(kind: str, sample: Sample) -> Score:
    if kind == "rougeL":
        cells = len(words(sample.answer or "")) * sum(len(words(truth)) for truth in sample.ground_truth_answer)
        if cells > MAX_CELLS:
            return Score.absent(
                f"answer and ground truth have more than {MAX_CELLS:,} pairs of words: too long for rougeL"
            )
    scorer = _scorer(kind)
    return _best(sample, lambda answer, truth: float(scorer.score(truth, answer)[kind].fmeasure))


@lru_cache
def _scorer(kind: str) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([kind], tokenizer=_RougeTokenizer())


class _RougeTokenizer:
    """rouge-score's own tokenizer drops all but a-z and 0-9, so every other script would score a silent 0."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)
