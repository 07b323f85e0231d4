"""Which rows belong together: those that ask the same question, and those that share a value of a field."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ragassay.core.models import Result, Sample

RowIndexes: TypeAlias = npt.NDArray[np.int64]
Questions: TypeAlias = npt.NDArray[np.int64] | None
"""The number of each row's question; None: each row has its own."""
MAX_SLICES = 20  # a field with more distinct values than this is an identifier, not a group


def question_hash(query: str, ground_truths: Iterable[str]) -> int:
    """The same number for rows that ask the same and have the same ground truth: several answers to one question."""
    return hash((" ".join(query.split()), *ground_truths))


def numbered(keys: Sequence[int] | RowIndexes) -> Questions:
    """The number of each row's question, in order of first appearance, from its key; None if each row has its own.

    If all rows have the same key, what they ask is an instruction, and each row is a question of its own.
    """
    _, first, place = np.unique(np.asarray(keys, np.int64), return_index=True, return_inverse=True)
    return None if len(first) in (1, len(keys)) else np.argsort(np.argsort(first))[place]


def slice_value(row: Result | Sample, name: str) -> str | None:
    """What a row has for ``category``, ``difficulty`` or ``metadata.NAME``; None for nothing that groups rows."""
    fields: dict[str, Any] = {"category": row.category, "difficulty": row.difficulty, "metadata": row.metadata}
    return group_value(fields, name)


def group_value(row: Mapping[str, Any], name: str) -> str | None:
    """``slice_value`` of a row by its fields."""
    key = name.removeprefix("metadata.")
    value = row[name] if key == name else row["metadata"].get(key)
    return str(value) if isinstance(value, str | int | bool) else None


class SliceGroups:
    """Accumulates the indexes of the rows that share a value of category, difficulty or a field of the metadata."""

    def __init__(self) -> None:
        self._rows = 0
        self._by_field: dict[str, dict[str, array[int]] | None] = {"category": {}, "difficulty": {}}

    def add(self, row: Result) -> None:
        """The next row. A field that has more than ``MAX_SLICES`` values is given up."""
        for field in ("category", "difficulty", *(f"metadata.{key}" for key in row.metadata)):
            groups = self._by_field.setdefault(field, {})
            if groups is None or (value := slice_value(row, field)) is None:
                continue
            if value not in groups and len(groups) == MAX_SLICES:
                self._by_field[field] = None
            else:
                groups.setdefault(value, array("q")).append(self._rows)
        self._rows += 1

    def __iter__(self) -> Iterator[tuple[str, dict[str, RowIndexes]]]:
        """Fields that group the rows, each with the rows of its values; no metadata field that differs in most rows.

        A category or difficulty that was given up has no values.
        """
        for field, groups in self._by_field.items():
            is_metadata = field.startswith("metadata.")
            if groups is None and not is_metadata:
                yield field, {}
            elif groups and len(groups) <= (max(1, self._rows // 2) if is_metadata else MAX_SLICES):
                yield field, {value: np.asarray(rows) for value, rows in sorted(groups.items())}
