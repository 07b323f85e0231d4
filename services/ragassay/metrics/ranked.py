"""The ranked gains of a chunk: built once, after which every retrieval metric is a few vectorised lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Ranked:
    """Grades in rank order, one row per query; rows are padded with 0 to the longest list.

    ``gains``: grade at each rank, shape (queries, depth), 0 where unjudged or negative; ``judged``: same shape, True
    where a grade of 0 or more was given; ``ideal``: all positive grades, descending, shape (queries, widest judgment);
    ``lengths``: length of each list; ``judged_count``: documents with a grade of 0 or more, retrieved or not, which
    bpref needs. A document is relevant when its grade is above 0, or at least ``relevant_from`` where that is set.
    """

    gains: Array
    judged: Mask
    ideal: Array
    lengths: NDArray[np.int64]
    judged_count: Array
    relevant_from: float | None = None
    max_grade: float = 3.0
    _details: dict[int | None, list[dict[str, Any]]] = field(default_factory=dict, repr=False, compare=False)

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
        lengths = _sizes(retrieved)
        pairs = zip(retrieved, judgments, strict=True)
        grades = _padded(chain.from_iterable(map(given.get, ids, repeat(np.nan)) for ids, given in pairs), lengths)
        everything = _padded(chain.from_iterable(given.values() for given in judgments), _sizes(judgments))
        return cls.of_grades(grades, everything, lengths, relevant_from=relevant_from, max_grade=max_grade)

    @classmethod
    def of_grades(
        cls,
        grades: Array,
        everything: Array,
        lengths: NDArray[np.int64],
        *,
        relevant_from: float | None = None,
        max_grade: float = 3.0,
    ) -> Ranked:
        """The gains of ``grades`` at each rank and ``everything`` that was judged; both a row per query, NaN where none.

        ``grades`` may end before the longest list does, for metrics that look no further; ``lengths`` are of whole lists.
        """
        judged = grades >= 0
        ideal = -np.sort(-np.where(everything > 0, everything, 0.0), axis=1)
        return cls(
            np.where(judged, grades, 0.0),
            judged,
            ideal[:, : int((ideal > 0).sum(axis=1).max(initial=0))],
            lengths,
            (everything >= 0).sum(axis=1, dtype=np.float64),
            relevant_from,
            max_grade,
        )

    def _is_relevant(self, grades: Array) -> Mask:
        relevant: Mask = grades > 0
        return relevant if self.relevant_from is None else relevant & (grades >= self.relevant_from)

    @cached_property
    def relevant(self) -> Mask:
        """Is the document at each rank relevant? Shape (queries, depth)."""
        return self._is_relevant(self.gains)

    @cached_property
    def relevant_count(self) -> Array:
        """Number of relevant documents of each query, retrieved or not."""
        count: Array = self._is_relevant(self.ideal).sum(axis=1, dtype=np.float64)
        return count

    @cached_property
    def cumulative_hits(self) -> Array:
        """Relevant documents down to each rank, shape (queries, depth)."""
        return np.cumsum(self.relevant, axis=1, dtype=np.float64)

    def hits(self, k: int) -> Array:
        """Number of relevant documents among the first ``k``."""
        depth = self.gains.shape[1]
        hits: Array = self.cumulative_hits[:, min(k, depth) - 1] if depth else np.zeros(len(self.lengths))
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
        if k not in self._details:
            depth = k or max(self.gains.shape[1], 1)
            columns = (
                self.hits(depth).astype(np.int64).tolist(),
                self.relevant_count.astype(np.int64).tolist(),
                self.first.tolist(),
                self.dcg(depth).tolist(),
                self.ideal_dcg(k or len(self.ideal.T)).tolist(),
            )
            self._details[k] = [
                {"k": k, "relevant_in_k": hits, "relevant": total, "first_relevant_rank": first or None}
                | {"dcg": dcg, "idcg": idcg}
                for hits, total, first, dcg, idcg in zip(*columns, strict=True)
            ]
        return self._details[k]


@lru_cache(maxsize=256)
def discounts(depth: int) -> Array:
    """1 / log2(rank + 1) of the first ``depth`` ranks."""
    weights: Array = 1 / np.log2(np.arange(2, depth + 2))
    weights.flags.writeable = False
    return weights


def _discounted(grades: Array, exponential: bool) -> Array:
    gains = np.exp2(grades) - 1 if exponential else grades
    total: Array = gains @ discounts(grades.shape[1])
    return total


def _sizes(rows: Sequence[Sequence[str] | Mapping[str, float]]) -> NDArray[np.int64]:
    return np.fromiter(map(len, rows), np.int64, len(rows))


def _padded(values: Iterable[float], lengths: NDArray[np.int64]) -> Array:
    """Rows of the given lengths, filled one after the other, NaN beyond a row's end."""
    table = np.full((len(lengths), int(lengths.max(initial=0))), np.nan)
    table[np.arange(table.shape[1]) < lengths[:, None]] = np.fromiter(values, np.float64, int(lengths.sum()))
    return table
