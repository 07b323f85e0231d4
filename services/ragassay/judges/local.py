"""The local judge: no key, no network, deterministic. It fills the same form as a language model, by overlap.

Words, numbers, names and negation are compared sentence by sentence, and, where an embedding model is given, likeness
of meaning. It is a triage: good at telling grounded answers from invented ones, blind to subtle contradictions;
``docs/judges.md`` says how well it agrees with people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ragassay.errors import Unavailable
from ragassay.judges import case, matching
from ragassay.judges.case import Case, Vectors
from ragassay.judges.verdict import settle, units
from ragassay.models import Judgement, Sample
from ragassay.seams import Embedder, Ledger

VERSION = 1  # raise it with every change that can change a verdict


class LocalJudge:
    """Judges by overlap; with ``embedder`` also by likeness of meaning, without it by words alone."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """``local``, or ``local (lexical)`` where there is no embedding model."""
        return "local" if self._embedder else "local (lexical)"

    @property
    def settings(self) -> Mapping[str, Any]:
        """Version, embedding model and thresholds: all that determines a verdict."""
        return {
            "judge": "local",
            "version": VERSION,
            "embeddings": self._embedder.name if self._embedder else None,
            "thresholds": {
                "supported": case.SUPPORTED,
                "partly": case.PARTLY,
                "covered": case.COVERED,
                "covered_partly": case.COVERED_PARTLY,
                "agrees": case.AGREES,
                "relevance": {step: bound for bound, step in case.RELEVANCE_STEPS},
            },
            "weights": matching.WEIGHTS if self._embedder else matching.LEXICAL_WEIGHTS,
        }

    async def judge(self, samples: Sequence[Sample], ledger: Ledger) -> list[Judgement]:  # noqa: ARG002
        """One judgement for each sample, in order; costs nothing. Where the embedding model is away, it says so."""
        return await asyncio.to_thread(self._judge, samples)

    def likeness(self, samples: Sequence[Sample]) -> list[list[float]]:
        """For each sample, how far its contexts carry each sentence of its answer, 0 to 1; to measure and to fit on."""
        cases = [Case(sample, units(sample)) for sample in samples]
        vectors = self._vectors(text for one in cases for text in one.texts(all_matches=True))
        return [[one.carried(label, vectors) for label in one.units.answer] for one in cases]

    def _judge(self, samples: Sequence[Sample]) -> list[Judgement]:
        cases = [Case(sample, units(sample)) if sample.response else None for sample in samples]
        try:
            vectors = self._vectors(text for one in cases if one for text in one.texts())
        except Unavailable as error:
            return [Judgement(reason=str(error)) for _ in samples]
        return [
            Judgement(verdict=settle(one.claims(vectors), one.units, self.name))
            if one
            else Judgement(reason="the system gave no response")
            for one in cases
        ]

    def _vectors(self, texts: Iterable[str]) -> Vectors | None:
        """Vectors of the distinct texts, in one call and a fixed order."""
        if self._embedder is None:
            return None
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        found = self._embedder.embed(distinct) if distinct else ()
        return {text: np.asarray(v, dtype=np.float64) for text, v in zip(distinct, found, strict=True)}
