"""A cross-encoder as the judge of support: a small classifier that reads sources and a sentence together, without a key.

Any sentence-transformers CrossEncoder for natural language inference or grounding will do; the names of its labels say
what they mean. Truth, coverage, relevance and refusals are the local judge's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import CROSS_ENCODER
from ragassay.core.models import Rating, Sample, SentenceVerdict, Support, Verdict
from ragassay.core.protocols import Journal
from ragassay.core.text import is_lead_in, sentences
from ragassay.embeddings import CrossEncoder
from ragassay.judges.local import LocalJudge
from ragassay.judges.overlap import Source, terms_of
from ragassay.judges.verdict import number_units, sentence_labels, turn_sentences
from ragassay.llm.journal import CostEstimator

VERSION = 1  # raise it with every change that can change a verdict
MAX_WINDOWS = 4  # of three neighbouring sentences, read for each sentence of an answer: the best by words
YES = 0.5
_SUPPORTED = ("entail", "support", "consistent", "factual", "grounded", "faithful")
_CONTRADICTED = ("contradict", "refute")


class _Claim(NamedTuple):
    """A sentence of an answer, and the windows that may support it: labels of their sentences and their text."""

    sentence: str
    windows: list[tuple[tuple[str, ...], str]]


class _Chances(NamedTuple):
    """The probability that a window supports a sentence, and that it contradicts it; its labels."""

    supported: float
    contradicted: float
    labels: tuple[str, ...]


class CrossEncoderJudge:
    """Judges support with a cross-encoder. ``model``: a folder or a name on the Hugging Face hub."""

    def __init__(self, model: str) -> None:
        self.name = f"{CROSS_ENCODER}{model}"
        self._encoder, self._local = CrossEncoder(model), LocalJudge()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Model and versions: all that determines a verdict."""
        rest = {"windows": MAX_WINDOWS, "local": self._local.settings}
        return {"judge": "cross_encoder", "model": self._encoder.name, "version": VERSION, **rest}

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:
        """One rating for each sample, in order; costs nothing. Raises BadSettings if the model can't be used."""
        if isinstance(journal, CostEstimator):
            return [Rating(reason="an estimate reads no text") for _ in samples]
        ratings = await self._local.judge(samples, journal)
        return await asyncio.to_thread(self._with_support, samples, ratings)

    def _with_support(self, samples: Sequence[Sample], ratings: Sequence[Rating]) -> list[Rating]:
        """The ratings with the model's support, from one pass over all pairs of a chunk."""
        claims = [
            _claims(sample, one.verdict) if one.verdict else {} for sample, one in zip(samples, ratings, strict=True)
        ]
        pairs = [(text, claim.sentence) for of in claims for claim in of.values() for _, text in claim.windows]
        labels, probabilities = self._encoder.classify(pairs)
        supported, contradicted = meaning(labels)
        following = iter(probabilities.tolist())
        judged = []
        for rating, of in zip(ratings, claims, strict=True):
            chances = {
                label: [
                    _Chances(one[supported], one[contradicted] if contradicted is not None else 0.0, window)
                    for (window, _), one in zip(claim.windows, following, strict=False)
                ]
                for label, claim in of.items()
            }
            changed = _supported(rating.verdict, chances, self.name) if rating.verdict else None
            judged.append(rating.model_copy(update={"verdict": changed}))
        return judged


def meaning(labels: Sequence[str]) -> tuple[int, int | None]:
    """The indexes of the labels for support and for contradiction; None without the latter. Raises BadSettings.

    One label is support; of two without names (``LABEL_0``, ``LABEL_1``), the second is.
    """
    names = [label.lower() for label in labels]
    contradicted = next((n for n, name in enumerate(names) if name.startswith(_CONTRADICTED)), None)
    supported = [n for n, name in enumerate(names) if name.startswith(_SUPPORTED)]
    if not supported and names in (["label_0"], ["label_0", "label_1"]):
        supported = [len(names) - 1]
    if len(supported) != 1:
        raise BadSettings(
            f"the labels of the cross-encoder, {', '.join(labels)}, do not say which one means support",
            where="judge",
            hint="use a model for natural language inference or grounding, or name its labels in id2label of its config.json",
        )
    return supported[0], contradicted


def _claims(sample: Sample, verdict: Verdict) -> dict[str, _Claim]:
    turns = turn_sentences(sample)
    source = Source([*(sentences(context) for context in sample.contexts or ()), *turns.values()])
    labels = sentence_labels(number_units(sample), turns)
    claims = {}
    for one in verdict.sentences if labels else ():
        windows = source.best_windows(terms_of(one.text), MAX_WINDOWS)
        claims[one.id] = _Claim(
            one.text,
            [(tuple(dict.fromkeys(labels[i] for i in w)), " ".join(source.texts[i] for i in w)) for w in windows],
        )
    return claims


def _supported(verdict: Verdict, chances: Mapping[str, Sequence[_Chances]], name: str) -> Verdict:
    judged: list[SentenceVerdict] = []
    certain: list[float] = []
    for one in reversed(verdict.sentences):
        if not (of := chances.get(one.id)):
            judged.append(one)
            continue
        best, denied = max(of, key=lambda c: c.supported), max(of, key=lambda c: c.contradicted)
        support: Support = "supported" if best.supported >= YES else "not_found"
        evidence, why = best.labels if support == "supported" else (), ""
        if support == "not_found":
            why = f"no context supports it (probability {best.supported:.2f})"
            if denied.contradicted >= YES:
                support, evidence, why = "contradicted", denied.labels, f"contradicted by {denied.labels[0]}"
        if is_lead_in(one.text) and judged and support == "not_found":
            support, evidence, why = judged[-1].support or support, judged[-1].evidence, judged[-1].why
        else:
            certain.append(best.supported)
        judged.append(one.model_copy(update={"support": support, "evidence": evidence, "why": why}))
    probability = verdict.probability | ({"faithfulness": min(certain)} if certain else {})
    return verdict.model_copy(update={"judge": name, "sentences": tuple(reversed(judged)), "probability": probability})
