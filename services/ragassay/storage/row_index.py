"""Columns and texts of a folder run's rows, in a file beside them, so that pages choose and sort without reading the rows.

The results are what counts: rows that the file lacks, or that changed since, are read again. Where it can't be written,
it is made in memory.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from ragassay.core.files import open_private, private_folder
from ragassay.core.models import Result
from ragassay.storage.columns import columns, pack_texts, rows_with
from ragassay.storage.protocol import ChunkId

if TYPE_CHECKING:
    from ragassay.storage.folder import FolderRun

INDEX_FILE = "rows.sqlite"
_TABLES = """
CREATE TABLE IF NOT EXISTS chunks (system TEXT, number INTEGER, size INTEGER, written INTEGER, ends BLOB,
    PRIMARY KEY (system, number));
CREATE TABLE IF NOT EXISTS texts (system TEXT, number INTEGER, texts BLOB, PRIMARY KEY (system, number));
CREATE TABLE IF NOT EXISTS figures (system TEXT, name TEXT, number INTEGER, figures BLOB,
    PRIMARY KEY (system, name, number)) WITHOUT ROWID;
"""
_IN_ONE_STEP = 50  # chunks
_NEWLINE = 10


class RowIndex:
    """The file. Raises sqlite3.Error where it can't be used."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            private_folder(path.parent)
            with suppress(PermissionError):
                os.close(open_private(path, os.O_RDWR | os.O_CREAT))
        self._db = sqlite3.connect(path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False)
        self._lock = RLock()
        self._db.execute("PRAGMA synchronous=OFF")  # a kill loses nothing; after a power cut it is made again
        self._db.executescript(_TABLES)

    def write(self, chunks: Mapping[ChunkId, tuple[Path, Sequence[Result]]]) -> None:
        """Write down the rows of chunks, and what their files are like."""
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for chunk, (file, results) in chunks.items():
                place = (chunk.system, chunk.number)
                self._db.execute("INSERT OR REPLACE INTO texts VALUES (?, ?, ?)", (*place, pack_texts(results)))
                self._db.execute("DELETE FROM figures WHERE system = ? AND number = ?", place)
                figures = ((chunk.system, name, chunk.number, one.tobytes()) for name, one in columns(results).items())
                self._db.executemany("INSERT INTO figures VALUES (?, ?, ?, ?)", figures)
                stamp, content = file.stat(), np.frombuffer(file.read_bytes(), dtype=np.uint8)
                ends = np.flatnonzero(content == _NEWLINE).astype("<i8").tobytes()
                values = (*place, stamp.st_size, stamp.st_mtime_ns, ends)
                self._db.execute("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?)", values)

    def lacking(self, files: Mapping[ChunkId, os.stat_result]) -> list[ChunkId]:
        """The chunks whose rows are not in it as these files have them."""
        kept = {
            ChunkId(system, n): stamp
            for system, n, *stamp in self._all("SELECT system, number, size, written FROM chunks")
        }
        return [chunk for chunk, file in files.items() if kept.get(chunk) != [file.st_size, file.st_mtime_ns]]

    def ends(self, chunk: ChunkId) -> Any:
        """Where the lines of a chunk's file end."""
        sql = "SELECT ends FROM chunks WHERE system = ? AND number = ?"
        ((ends,),) = self._all(sql, chunk.system, chunk.number)
        return np.frombuffer(ends, dtype="<i8")

    def figures(self, system: str, name: str) -> list[tuple[int, bytes]]:
        """One column of a system: the number of each chunk, and its values."""
        return self._all("SELECT number, figures FROM figures WHERE system = ? AND name = ?", system, name)

    def texts(self, system: str) -> Iterable[tuple[int, bytes]]:
        """What a search looks at: the number of each chunk, and a blob."""
        numbers = [n for (n,) in self._all("SELECT number FROM texts WHERE system = ? ORDER BY number", system)]
        for first in range(0, len(numbers), _IN_ONE_STEP):
            some = numbers[first : first + _IN_ONE_STEP]
            sql = "SELECT number, texts FROM texts WHERE system = ? AND number BETWEEN ? AND ?"
            yield from self._all(sql, system, some[0], some[-1])

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()


class FolderRows:
    """The rows of a run's ``chunks``, with the columns beside them."""

    def __init__(self, run: FolderRun, chunks: Iterable[ChunkId]) -> None:
        self._run = run
        self._files = {chunk: file for chunk in chunks if (file := run.file_of(chunk)) is not None}
        self._index = self._opened()

    def _opened(self) -> RowIndex:
        path = self._run.folder / INDEX_FILE
        for place in (path, path, None):
            try:
                index = RowIndex(place)
                self._fill(index)
            except (OSError, sqlite3.DatabaseError) as error:
                if place is None:
                    raise
                if not isinstance(error, sqlite3.OperationalError):  # damaged
                    with suppress(OSError):
                        path.unlink()
            else:
                return index
        raise AssertionError

    def _fill(self, index: RowIndex) -> None:
        lacking = index.lacking({chunk: file.stat() for chunk, file in self._files.items()})
        for first in range(0, len(lacking), _IN_ONE_STEP):
            some = lacking[first : first + _IN_ONE_STEP]
            index.write({chunk: (self._files[chunk], self._run.results(chunk)) for chunk in some})

    def columns(self, system: str) -> _FolderColumns:
        """See ``KeptRows``."""
        numbers = {chunk.number for chunk in self._files if chunk.system == system}
        return _FolderColumns(self._index, system, numbers, self._run.record.dataset.rows, self._run.record.chunk_size)

    def read(self, wanted: Mapping[ChunkId, Iterable[int]]) -> dict[ChunkId, dict[int, Result]]:
        """See ``KeptRows``."""
        found: dict[ChunkId, dict[int, Result]] = {}
        for chunk in self._files.keys() & wanted.keys():
            file, ends = self._files[chunk], self._index.ends(chunk)
            starts = [0, *(ends + 1)]
            with file.open("rb") as lines:
                found[chunk] = {}
                for n in wanted[chunk]:
                    lines.seek(starts[n])
                    found[chunk][n] = self._run.result(file, n + 1, lines.read(ends[n] - starts[n]))
        return found


class _FolderColumns:
    """The columns of one system's rows, in the order of evaluation."""

    def __init__(self, index: RowIndex, system: str, numbers: set[int], rows: int, size: int) -> None:
        self._index, self._system, self._numbers = index, system, numbers
        self._rows, self._size = rows, size

    def column(self, name: str) -> Any:
        """A value for each row; NaN where it has none."""
        values = np.full(self._rows, np.nan)
        for number, blob in self._index.figures(self._system, name):
            if number in self._numbers:
                part = np.frombuffer(blob, dtype="<f8")
                values[number * self._size : number * self._size + len(part)] = part
        return values

    def there(self) -> Any:
        """Which rows are done."""
        there = np.zeros(self._rows, dtype=bool)
        for number in self._numbers:
            there[number * self._size : (number + 1) * self._size] = True
        return there

    def with_text(self, text: str, among: Any) -> Any:
        """Which of the rows ``among`` hold a text."""
        found = np.zeros(self._rows, dtype=bool)
        wanted = set(np.unique(np.flatnonzero(among) // self._size).tolist())
        for number, blob in self._index.texts(self._system):
            if number in wanted and (rows := rows_with(blob, text)) is not None:
                found[number * self._size : number * self._size + len(rows)] = rows
        return found
