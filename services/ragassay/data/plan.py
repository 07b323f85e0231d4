"""A plan for a file's columns: where each of our fields is read from, and what is left over of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ragassay.data.cells import value_of
from ragassay.data.columns import reach
from ragassay.data.problems import field_of_place


@dataclass(frozen=True)
class Plan:
    """Where each of our fields is read from. A field has several sources only if they never contradict each other."""

    sources: Mapping[str, tuple[str, ...]]
    metadata: str
    nested: bool
    in_seconds: frozenset[str]
    warnings: tuple[str, ...]

    @property
    def mapped(self) -> dict[str, str]:
        """Ours to theirs, for printing."""
        return {ours: " or ".join(paths) for ours, paths in self.sources.items()}

    def label(self, place: str) -> str:
        """A field, or a place in one, as an error names it: with the user's column where that has another name."""
        ours = field_of_place(place)
        paths = self.sources.get(ours, ())
        return place if not paths or ours in paths else f"{place} (column {' or '.join(paths)})"

    def value(self, ours: str, values: Mapping[str, Any]) -> Any:
        """The first value that a row has for a field; None where it has none."""
        paths = self.sources.get(ours, ())
        if len(paths) == 1 and paths[0] in values:
            return values[paths[0]]
        for path in paths:
            value = reach(values, path)
            if value is not None:
                return value
        return None

    def left_over(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What no field takes of a row, and of its nested ``response``: {column or dotted name: value}."""
        of_row: dict[str, Any] = {}
        of_response: dict[str, Any] = {}
        if values.keys() <= self._taken:
            return of_row, of_response
        for name, value in values.items():
            if value is None or name in self._taken or name == self.metadata:
                continue
            if name == "response" and self.nested and isinstance(value, Mapping):
                inside = {f"response.{key}": v for key, v in value.items() if key != "metadata" and v is not None}
                of_response |= {n.removeprefix("response."): v for n, v in inside.items() if n not in self._taken}
            elif name in self._opened:
                of_row |= self._rest(name, value)
            else:
                of_row[name.removeprefix("metadata.")] = value
        return of_row, of_response

    def metadata_of(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        """The object at ``path``, less the entries that became fields. Raises Misfit where it is no object."""
        found = values.get(path) if path in values or "." not in path else reach(values, path)
        if found is None:
            return {}
        entries: dict[str, Any] = value_of("metadata", found, cells=True) or {}
        return {key: value for key, value in entries.items() if f"{path}.{key}" not in self._taken}

    @cached_property
    def _taken(self) -> frozenset[str]:
        return frozenset(path.replace("[]", "") for paths in self.sources.values() for path in paths)

    @cached_property
    def _opened(self) -> frozenset[str]:
        """Names of columns, and dotted names, inside which some field's value lies."""
        steps = [path.split(".") for path in self._taken]
        return frozenset(".".join(s[:n]) for s in steps for n in range(1, len(s)))

    def _rest(self, name: str, value: Any) -> dict[str, Any]:
        """What is left of an object from which fields were taken; of a list of objects nothing is."""
        if not isinstance(value, Mapping):
            return {} if isinstance(value, list) else {name: value}
        left: dict[str, Any] = {}
        for key, entry in value.items():
            inner = f"{name}.{key}"
            if inner in self._opened:
                left |= self._rest(inner, entry)
            elif inner not in self._taken and entry is not None:
                left[inner] = entry
        return left
