"""The rows of a run by number, chosen and put in order on columns: only the rows that are wanted are read."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ragassay.core.blobs import Blobs, FolderBlobs
from ragassay.core.errors import BadSettings, DiskFull, NotFound, UnknownName
from ragassay.core.models import Result, Sample
from ragassay.storage.columns import (
    ID,
    THERE,
    label_value,
    read_column,
    rows_with,
    texts_blob,
    write_columns,
)
from ragassay.storage.protocol import ChunkId
from ragassay.storage.runs import Run
from ragassay.storage.selection import Selection

_AT_ONCE = 500  # rows, or chunks
_SELECTIONS_HELD = 16


class RowIndex:
    """A run's rows by number: those of the first system in the dataset's order, then those of the second ...

    Columns that a run lacks, or that are older than its results, are written first; if its folder can't be written, into
    a temporary one.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.record = run, run.record
        self._blobs: Blobs = run.blobs
        self.systems = list(self.record.systems)
        self.selected = lru_cache(_SELECTIONS_HELD)(self._selected)
        try:
            self._write(run.blobs, run.without_columns())
        except NotFound:  # the rows are gone, which is an OSError too
            raise
        except (OSError, DiskFull, BadSettings):
            folder = tempfile.mkdtemp(prefix="ragassay-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._blobs = FolderBlobs(Path(folder))
            self._write(self._blobs, dict.fromkeys(run.done(), 1.0))

    def _write(self, blobs: Blobs, chunks: dict[ChunkId, float]) -> None:
        for chunk, written in chunks.items():
            write_columns(blobs, self.record, chunk, self.run.results(chunk), written=written)

    def first(self, system: str) -> int:
        """The number of a system's first row."""
        return self.systems.index(system) * self.record.dataset.rows

    def chunk(self, number: int) -> tuple[ChunkId, int]:
        """The chunk of a row, and the row's number in that."""
        rows = self.record.dataset.rows
        of_chunk, row = divmod(number % rows, self.record.chunk_size)
        return ChunkId(self.systems[number // rows], of_chunk), row

    def at(self, numbers: Iterable[int]) -> list[Result]:
        """The rows with these numbers, as far as they are there, in their order."""
        numbers = [int(number) for number in numbers]
        results = self.by_number(numbers)
        return [results[number] for number in numbers if number in results]

    def by_number(self, numbers: Iterable[int]) -> dict[int, Result]:
        """The rows with these numbers, by number, as far as they are there."""
        by_chunk: dict[ChunkId, dict[int, int]] = {}
        for number in numbers:
            chunk, row = self.chunk(number)
            by_chunk.setdefault(chunk, {})[row] = number
        read = self.run.read(by_chunk)
        return {by_chunk[chunk][row]: one for chunk, rows in read.items() for row, one in rows.items()}

    def find(self, system: str, query_id: str) -> int | None:
        """The number of a system's row on a query, by the query's id; None if there is no such row."""
        columns, first = self.of_system(system), self.first(system)
        alike = np.flatnonzero(columns.there & (columns.column(ID) == label_value(query_id)))
        numbers = (int(number) + first for number in alike)
        return next((number for number in numbers for row in self.at([number]) if row.query_id == query_id), None)

    def sample(self, system: str, query_id: str) -> Sample | None:
        """What a system's row on a query was evaluated on; None if there is no such row. Raises NotFound once that is deleted."""
        if (number := self.find(system, query_id)) is None:
            return None
        chunk, row = self.chunk(number)
        return self.run.samples(chunk)[row]

    def each(self, numbers: Sequence[int]) -> Iterator[Result]:
        """The rows with these numbers, of which few are in memory at a time."""
        for first in range(0, len(numbers), _AT_ONCE):
            yield from self.at(numbers[first : first + _AT_ONCE])

    def matching(self, selection: Selection) -> tuple[Any, Any]:
        """The numbers of rows that are selected, and the figure that they are sorted by; None where they are not.

        Raises UnknownName for a figure or system that the run has not.
        """
        if selection.system is not None and selection.system not in self.systems:
            raise UnknownName("system of the run", selection.system, self.systems, where="system")
        resolved = selection.resolved(self.record.metrics)
        numbers: list[Any] = [np.empty(0, dtype=np.int64)]
        keys: list[Any] = [np.empty(0)]
        for at, system in enumerate(self.systems):
            if selection.system not in (None, system):
                continue
            columns = self.of_system(system)
            mask = resolved.wanted(columns.column, columns.there)
            if selection.text is not None:
                mask &= self._with_text(system, selection.text.casefold(), mask)
            numbers.append(np.flatnonzero(mask) + at * self.record.dataset.rows)
            if resolved.sort is not None:
                keys.append(columns.column(resolved.sort)[mask])
        return np.concatenate(numbers), np.concatenate(keys) if resolved.sort is not None else None

    def _selected(self, selection: Selection) -> Any:
        """The numbers of rows that are selected, in their order. Raises as ``matching`` does."""
        return selection.resolved(self.record.metrics).ordered(*self.matching(selection))

    def column(self, name: str) -> Any:
        """A value for each row of the run; NaN where it has none, or there is no row."""
        of_systems = map(self.of_system, self.systems)
        return np.concatenate([np.where(one.there, one.column(name), np.nan) for one in of_systems])

    def of_system(self, system: str) -> SystemColumns:
        """The columns of one system."""
        return SystemColumns(self._blobs, self.run, system)

    def _with_text(self, system: str, text: str, among: Any) -> Any:
        """Which of the rows ``among`` hold a text, which is in one case."""
        found, size = np.zeros(self.record.dataset.rows, dtype=bool), self.record.chunk_size
        chunks = [ChunkId(system, int(number)) for number in np.unique(np.flatnonzero(among) // size)]
        for first in range(0, len(chunks), _AT_ONCE):
            some = chunks[first : first + _AT_ONCE]
            for chunk, blob in zip(some, self._blobs.get_many([texts_blob(each) for each in some]), strict=True):
                if blob is not None and (rows := rows_with(blob, text)) is not None:
                    found[chunk.number * size : chunk.number * size + len(rows)] = rows
        return found


class SystemColumns:
    """The columns of one system's rows, in the order of evaluation."""

    def __init__(self, blobs: Blobs, run: Run, system: str) -> None:
        self._blobs, self._record, self._system = blobs, run.record, system
        self.there = self.column(THERE) > 0  # which rows are done

    def column(self, name: str) -> Any:
        """A value for each row."""
        return read_column(self._blobs, self._record, self._system, name)
