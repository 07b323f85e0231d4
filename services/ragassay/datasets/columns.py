"""The columns of a file's rows: which there are, which hold a value, and what stands at a dotted name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragassay.datasets.raw import RawRows

_ABSENT = object()


class ColumnStats:
    """Which columns a file has, and which of them hold a value at all."""

    def __init__(self, raw: RawRows) -> None:
        self._rows = [values for _, values in raw.rows]
        present, filled = dict.fromkeys(raw.columns), set()
        for values in self._rows:
            for name, value in values.items():
                present[name] = None
                if value is not None:
                    filled.add(name)
        self.columns, self._filled = list(present), filled
        self._present = frozenset(present)

    def has(self, path: str) -> bool:
        """Is there such a column, or an entry of that dotted name in any row?"""
        return path in self._present or (
            self._may_hold(path) and any(_find(values, path) is not _ABSENT for values in self._rows)
        )

    def fills(self, path: str) -> bool:
        """Does any row have a value there?"""
        return path in self._filled or (
            self._may_hold(path) and any(value_at(values, path) is not None for values in self._rows)
        )

    def holds_objects(self, path: str) -> bool:
        """Is the first value there an object, or a cell that reads like one?"""
        rows = self._rows if self.fills(path) else []
        value = next((v for values in rows if (v := value_at(values, path)) is not None), None)
        return isinstance(value, Mapping) or (isinstance(value, str) and value.lstrip().startswith("{"))

    def _may_hold(self, path: str) -> bool:
        head = path.replace("[]", "").split(".")[0]
        return head != path and head in self._filled


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value at a path; None where there is none. Dots reach into objects, and through lists to all entries.

    A column that is really called ``a.b`` comes before an object ``a`` with an entry ``b``.
    """
    value = _find(row, path)
    return None if value is _ABSENT else value


def _find(row: Mapping[str, Any], path: str) -> Any:
    """As ``value_at``, but _ABSENT where there is no such entry and None where it is null."""
    return row[path] if path in row else _walk(row, path.replace("[]", "").split("."))


def _walk(value: Any, steps: list[str]) -> Any:
    for n, step in enumerate(steps):
        if isinstance(value, list):
            entries = [_walk(entry, steps[n:]) for entry in value]
            return _ABSENT if all(e is _ABSENT for e in entries) else [None if e is _ABSENT else e for e in entries]
        if not isinstance(value, Mapping) or step not in value:
            return _ABSENT
        value = value[step]
    return value
