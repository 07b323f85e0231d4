"""Decides the columns of a file that is too long to be held, from outlines of its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import orjson

from ragassay.core.errors import BadData, NothingToEvaluate
from ragassay.datasets.formats import stream
from ragassay.datasets.mapping import ALIASES, ColumnMapper, ColumnMapping
from ragassay.datasets.raw import RawRows

_DEEPEST = 64  # levels of objects and lists; no column's meaning is decided further down
_BY_DOCUMENT = {
    name for field in ("relevance_scores", "subtopics", "doc_timestamps") for name in (field, *ALIASES.get(field, ()))
}


def columns_of(
    path: Path,
    name: str,
    mapping: Mapping[str, str],
    *,
    most_refused: int | None = None,
) -> ColumnMapping:
    """What the columns of a file are. All rows decide, but of rows that are alike in outline only the first is kept.

    Raises what ``ColumnMapper`` raises, and NothingToEvaluate without rows.
    """
    raw, rows = stream(path, name)
    raw.most_refused = most_refused
    opened = {column.split(".")[0] for column in mapping.values() if "." in column}
    alike: dict[bytes, int] = {}
    for number, values in rows:
        alike.setdefault(orjson.dumps(outline(values, opened)), number)
    outlines = RawRows(
        path, [(number, orjson.loads(text)) for text, number in alike.items()], raw.columns, raw.cells, raw.counts_lines
    )
    if not alike:
        raw.check()
        raise NothingToEvaluate("the file holds no rows", where=str(path))
    try:
        return ColumnMapper(outlines, mapping, "dataset").map()
    except BadData as error:
        raise BadData([*error.problems, *raw.problems], hint=error.hint) from None


def outline(values: Mapping[str, Any], opened: Collection[str] = ()) -> dict[str, Any]:
    """What the columns' meaning is decided by: which values there are, and which of a row are equal to each other.

    Objects keep their keys, unless those are ids of documents and the column is not one of ``opened``. Of any other
    value a number is left, that of the first value in the row that is equal to it, and a brace in front where it is text
    that begins with one.
    """
    seen: dict[Any, int] = {}
    return {
        str(name): {"": str(seen.setdefault(_hashable(value), len(seen)))}
        if name in _BY_DOCUMENT and name not in opened and isinstance(value, Mapping)
        else _outlined(value, seen, 1)
        for name, value in values.items()
    }


def _outlined(value: Any, seen: dict[Any, int], depth: int) -> Any:
    if value is None or depth > _DEEPEST:
        return None if value is None else ""
    if isinstance(value, Mapping):
        return {str(key): _outlined(entry, seen, depth + 1) for key, entry in value.items()}
    if isinstance(value, list) and any(isinstance(entry, Mapping | list) for entry in value):
        return [_outlined(entry, seen, depth + 1) for entry in value]
    brace = "{" if isinstance(value, str) and value.lstrip()[:1] == "{" else ""
    return f"{brace}{seen.setdefault(_hashable(value), len(seen))}"


def _hashable(value: Any, depth: int = 1) -> Any:
    """Equal for equal values."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(entry, depth + 1)) for key, entry in value.items())
    return tuple(_hashable(entry, depth + 1) for entry in value) if isinstance(value, list) else value
