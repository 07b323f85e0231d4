"""The ranked gains of a chunk: built once, after which every retrieval metric is a few vectorised lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragassay.models import Sample

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Ranked:
    """Grades in rank order, one row per query; rows are padded with 0 to the longest list.

    ``gains``: grade at each rank, shape (queries, depth), 0 where unjudged; ``judged``: same shape;
    ``ideal``: all positive grades, descending, shape (queries, widest judgment); ``lengths``: length of each list.
    A document is relevant when its grade is above 0, or at least ``relevant_from`` where that is set.
    """

    gains: Array
    judged: NDArray[np.bool_]
    ideal: Array
    lengths: NDArray[np.int64]
    relevant_from: float | None = None
    max_grade: float = 3.0

    @classmethod
    def of(cls, samples: Sequence[Sample], *, relevant_from: float | None = None, max_grade: float = 3.0) -> Ranked:
        """The gains of the samples' responses; without judgments or response a row is all zeros."""
        return cls.build(
            [sample.retrieved_doc_ids or () for sample in samples],
            [sample.judgments or {} for sample in samples],
            relevant_from=relevant_from,
            max_grade=max_grade,
        )

    @classmethod
    def build(
        cls,
        retrieved: Sequence[Sequence[str]],
        judgments: Sequence[Mapping[str, float]],
        *,
        relevant_from: float | None = None,
        max_grade: float = 3.0,
    ) -> Ranked:
        """The gains of lists of document ids under ``judgments`` (id to grade; negative grades count as 0)."""
        queries = len(retrieved)
        lengths = np.fromiter((len(ids) for ids in retrieved), np.int64, queries)
        gains = np.zeros((queries, int(lengths.max(initial=0))))
        judged = np.zeros(gains.shape, np.bool_)
        positive = [sorted((g for g in grades.values() if g > 0), reverse=True) for grades in judgments]
        ideal = np.zeros((queries, max(map(len, positive), default=0)))
        for row, (ids, grades) in enumerate(zip(retrieved, judgments, strict=True)):
            ideal[row, : len(positive[row])] = positive[row]
            for rank, doc in enumerate(ids):
                grade = grades.get(doc)
                if grade is not None:
                    gains[row, rank] = max(grade, 0.0)
                    judged[row, rank] = grade >= 0
        return cls(gains, judged, ideal, lengths, relevant_from, max_grade)

    def _is_relevant(self, grades: Array) -> NDArray[np.bool_]:
        relevant: NDArray[np.bool_] = grades > 0
        return relevant if self.relevant_from is None else relevant & (grades >= self.relevant_from)

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """Is the document at each rank relevant? Shape (queries, depth)."""
        return self._is_relevant(self.gains)

    @cached_property
    def relevant_count(self) -> Array:
        """Number of relevant documents of each query, retrieved or not."""
        count: Array = self._is_relevant(self.ideal).sum(axis=1, dtype=np.float64)
        return count

    @cached_property
    def found(self) -> Array:
        """Relevant documents down to each rank, shape (queries, depth)."""
        return np.cumsum(self.relevant, axis=1, dtype=np.float64)

    def hits(self, k: int) -> Array:
        """Number of relevant documents among the first ``k``."""
        depth = self.gains.shape[1]
        hits: Array = self.found[:, min(k, depth) - 1] if depth else np.zeros(len(self.lengths))
        return hits

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Rank of the first relevant document, 0 where there is none."""
        if not self.gains.shape[1]:
            return np.zeros(len(self.lengths), np.int64)
        rank = self.relevant.argmax(axis=1) + 1
        return np.where(self.relevant.any(axis=1), rank, 0)

    def dcg(self, k: int, *, exponential: bool = False) -> Array:
        """Discounted cumulative gain of the first ``k``, gain g or 2^g - 1, discount log2(rank + 1)."""
        return _discounted(self.gains[:, :k], exponential)

    def ideal_dcg(self, k: int, *, exponential: bool = False) -> Array:
        """The same for the best possible order of all judged documents."""
        return _discounted(self.ideal[:, :k], exponential)

    def details(self, k: int | None) -> list[dict[str, Any]]:
        """For each query: k, relevant among the first k, relevant in all, rank of the first one, dcg and idcg."""
        depth = k or max(self.gains.shape[1], 1)
        columns = (
            self.hits(depth),
            self.relevant_count,
            self.first,
            self.dcg(depth),
            self.ideal_dcg(k or len(self.ideal.T)),
        )
        return [
            {"k": k, "relevant_in_k": int(hits), "relevant": int(total), "first_relevant_rank": int(first) or None}
            | {"dcg": float(dcg), "idcg": float(idcg)}
            for hits, total, first, dcg, idcg in zip(*columns, strict=True)
        ]


def _discounted(grades: Array, exponential: bool) -> Array:
    gains = np.exp2(grades) - 1 if exponential else grades
    total: Array = gains @ (1 / np.log2(np.arange(2, grades.shape[1] + 2)))
    return total
