"""The rows of a run by their places, wherever they are kept: chosen and put in order on columns, then read by place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ragassay.core.errors import UnknownName
from ragassay.core.models import Result
from ragassay.storage.columns import Columns
from ragassay.storage.protocol import ChunkId, RunRecord
from ragassay.storage.selection import Selection

_AT_ONCE = 500  # rows
_SELECTIONS_HELD = 16


class SystemColumns(Columns, Protocol):
    """The columns of one system's rows, in the order of evaluation."""

    def there(self) -> Any:
        """Which rows are done."""

    def with_text(self, text: str, among: Any) -> Any:
        """Which of the rows ``among`` hold a text, which is in one case."""


class KeptRows(Protocol):
    """A run's rows, and columns beside them."""

    def columns(self, system: str) -> SystemColumns:
        """Those of one system."""

    def read(self, wanted: Mapping[ChunkId, Iterable[int]]) -> dict[ChunkId, dict[int, Result]]:
        """Rows of chunks by their numbers in these; what is not there is left out."""


class RowPlaces:
    """A run's rows by their places: those of the first system in the dataset's order, then those of the second ..."""

    def __init__(self, record: RunRecord, kept: KeptRows) -> None:
        self.record, self.kept = record, kept
        self.systems = list(record.systems)
        self.selected = lru_cache(_SELECTIONS_HELD)(self._selected)

    def chunk(self, place: int) -> tuple[ChunkId, int]:
        """The chunk of the row at a place, and its number in that."""
        rows = self.record.dataset.rows
        number, row = divmod(place % rows, self.record.chunk_size)
        return ChunkId(self.systems[place // rows], number), row

    def at(self, places: Iterable[int]) -> list[Result]:
        """The rows at these places, as far as they are there, in their order."""
        by_chunk: dict[ChunkId, dict[int, int]] = {}
        places = [int(place) for place in places]
        for place in places:
            chunk, row = self.chunk(place)
            by_chunk.setdefault(chunk, {})[row] = place
        kept = self.kept.read(by_chunk)
        results = {by_chunk[chunk][row]: one for chunk, rows in kept.items() for row, one in rows.items()}
        return [results[place] for place in places if place in results]

    def find(self, system: str, query_id: str) -> int | None:
        """The place of a system's row on a query, by the query's id; None if there is no such row."""
        places = self.selected(Selection(system=system, text=query_id[:200]))
        for first in range(0, len(places), _AT_ONCE):
            some = [int(place) for place in places[first : first + _AT_ONCE]]
            for place, row in zip(some, self.at(some), strict=False):
                if row.query_id == query_id:
                    return place
        return None

    def each(self, places: Sequence[int]) -> Iterator[Result]:
        """The rows at these places, of which few are in memory at a time."""
        for first in range(0, len(places), _AT_ONCE):
            yield from self.at(places[first : first + _AT_ONCE])

    def matching(self, selection: Selection) -> tuple[Any, Any]:
        """The places that are selected, and the figure that they are sorted by; None where they are not.

        Raises UnknownName for a figure or system that the run has not.
        """
        if selection.system is not None and selection.system not in self.systems:
            raise UnknownName("system of the run", selection.system, self.systems, where="system")
        resolved = selection.resolved(self.record.metrics)
        places: list[Any] = [np.empty(0, dtype=np.int64)]
        keys: list[Any] = [np.empty(0)]
        for number, system in enumerate(self.systems):
            if selection.system not in (None, system):
                continue
            columns = self.kept.columns(system)
            mask = resolved.wanted(columns, columns.there())
            if selection.text is not None:
                mask &= columns.with_text(selection.text.casefold(), mask)
            places.append(np.flatnonzero(mask) + number * self.record.dataset.rows)
            if resolved.sort is not None:
                keys.append(columns.column(resolved.sort)[mask])
        return np.concatenate(places), np.concatenate(keys) if resolved.sort is not None else None

    def _selected(self, selection: Selection) -> Any:
        """The places that are selected, in their order. Raises as ``matching`` does."""
        return selection.resolved(self.record.metrics).ordered(*self.matching(selection))

    def column(self, name: str) -> Any:
        """A value for each place; NaN where it has none, or there is no row."""
        values = []
        for system in self.systems:
            columns = self.kept.columns(system)
            values.append(np.where(columns.there(), columns.column(name), np.nan))
        return np.concatenate(values)
