"""Which rows belong together: those that ask the same question, and those that share a value of a field."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ragassay.core.models import Result, Sample
from ragassay.datasets.dataset import plain_text
from ragassay.stats.intervals import Questions

RowIndexes: TypeAlias = npt.NDArray[np.int64]
FIELDS = ("category", "difficulty", "conversation_id")
MAX_SLICES = 20  # a field with more distinct values than this is an identifier, not a group


def question_key(
    query: str, ground_truths: Iterable[str], history: Iterable[str] = (), conversation_id: str | None = None
) -> int:
    """The same number for rows that are no independent observations, even for questions and odd for conversations.

    Those are the turns of one conversation and, without a ``conversation_id``, several answers to one question: rows that
    ask the same after the same turns (the texts in ``history``) and have the same ground truth.
    """
    if conversation_id is not None:
        return hash(("conversation", conversation_id)) | 1
    return hash((plain_text(query), *ground_truths, *history)) & ~1


def question_of(row: Result) -> int:
    """The ``question_key`` of a row."""
    turns = (turn.content for turn in row.history)
    return question_key(row.query, row.ground_truth_answer, turns, row.conversation_id)


def numbered(keys: Sequence[int] | RowIndexes) -> Questions:
    """The number of each row's question, in order of first appearance, from its key; None if each row has its own.

    If all rows ask the same, it is an instruction, and each row is a question of its own; turns of one conversation are not.
    """
    unique, first, place = np.unique(np.asarray(keys, np.int64), return_index=True, return_inverse=True)
    if len(unique) == 1 and len(keys) > 1 and unique[0] % 2:
        return np.zeros(len(keys), np.int64)
    return None if len(first) in (1, len(keys)) else np.argsort(np.argsort(first))[place]


def slice_value(row: Result | Sample, name: str) -> str | None:
    """What a row has for one of ``FIELDS`` or ``metadata.NAME``; None for nothing that groups rows."""
    return group_value({"metadata": row.metadata, **{field: getattr(row, field) for field in FIELDS}}, name)


def group_value(row: Mapping[str, Any], name: str) -> str | None:
    """``slice_value`` of a row by its fields."""
    key = name.removeprefix("metadata.")
    value = row.get(name) if key == name else row["metadata"].get(key)
    return str(value) if isinstance(value, str | int | bool) else None


def max_values(field: str, rows: int) -> int:
    """Of how many values a field may be to group so many rows; one with more is an identifier, or differs in most rows."""
    is_optional = field.startswith("metadata.") or field == "conversation_id"
    return min(MAX_SLICES, max(1, rows // 2)) if is_optional else MAX_SLICES


class SliceGroups:
    """Accumulates the indexes of the rows that share a value of one of ``FIELDS`` or of a field of the metadata."""

    def __init__(self) -> None:
        self._rows = 0
        self._by_field: dict[str, dict[str, array[int]] | None] = {"category": {}, "difficulty": {}}

    def add(self, row: Result) -> None:
        """The next row. A field that has more than ``MAX_SLICES`` values is given up."""
        for field in (*FIELDS, *(f"metadata.{key}" for key in row.metadata)):
            groups = self._by_field.setdefault(field, {})
            if groups is None or (value := slice_value(row, field)) is None:
                continue
            if value not in groups and len(groups) == MAX_SLICES:
                self._by_field[field] = None
            else:
                groups.setdefault(value, array("q")).append(self._rows)
        self._rows += 1

    def __iter__(self) -> Iterator[tuple[str, dict[str, RowIndexes]]]:
        """Fields that group the rows, each with the rows of its values; no other field that differs in most rows.

        A category or difficulty that was given up has no values.
        """
        for field, groups in self._by_field.items():
            if groups is None and field in ("category", "difficulty"):
                yield field, {}
            elif groups and len(groups) <= max_values(field, self._rows):
                yield field, {value: np.asarray(rows) for value, rows in sorted(groups.items())}
