"""The rows in a run's folder: samples, recorded responses and results, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, NotFound
from ragassay.core.files import MOST_IN_MEMORY, LazyRows, LineRows
from ragassay.core.models import FrozenModel, Response, Result
from ragassay.core.report import Source
from ragassay.core.validation import problems
from ragassay.storage.protocol import ChunkId, RunRecord

DAMAGED = "the run's folder is damaged"
M = TypeVar("M", bound=FrozenModel)


def rows_of(path: Path, model: type[M]) -> LineRows[M]:
    """The rows of a run's file, which stay there; raises NotFound where there is no file."""
    try:
        return LineRows.of(path, lambda number, line: row_of(path, number, line, model))
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file", hint=DAMAGED) from None


def places_of(path: Path) -> dict[str, int]:
    """The places of a file's rows by query id."""
    return {row.query_id: place for place, row in enumerate(rows_of(path, _Keyed))}


def row_of(path: Path, number: int, line: bytes, model: type[M]) -> M:
    """A row of a run's file; raises BadData that names file, line and field."""
    try:
        return model.model_validate(document_of(path, number, line))
    except ValidationError as error:
        raise BadData([f"{path}:{number}: {problems(error)[0]}"], hint=DAMAGED) from None


def document_of(path: Path, number: int, line: bytes) -> Any:
    """A row of a run's file as it is in JSON; raises BadData that names file and line."""
    try:
        return orjson.loads(line)
    except ValueError as error:
        raise BadData([f"{path}:{number}: not JSON ({error})"], hint=DAMAGED) from None


def is_pending_again(row: Result, source: Source) -> bool:
    """Does a resumed run, or a job's retry, evaluate a row again? If something failed, but not a recorded response."""
    return row.failed and (row.error is None or source.answers)


class _RecordedResponse(FrozenModel):
    query_id: str
    response: Response


class _Keyed(FrozenModel, extra="ignore"):
    query_id: str


class RecordedResponses(Mapping[str, Response]):
    """The responses in a run's file, by query id; they stay there."""

    def __init__(self, path: Path) -> None:
        self._rows, self._places = rows_of(path, _RecordedResponse), places_of(path)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, query_id: str) -> Response:
        return self._rows[self._places[query_id]].response


class ChunkedResults(LazyRows[Result]):
    """The results of those chunks of one system that have some, in the dataset's order; those of one chunk are in memory.

    ``read`` reads the results of a chunk, and raises where they are gone; ``documents`` the same as they are in JSON.
    """

    def __init__(
        self,
        record: RunRecord,
        chunks: Sequence[ChunkId],
        read: Callable[[ChunkId], Sequence[Result]],
        documents: Callable[[ChunkId], Iterable[Mapping[str, Any]]] | None = None,
    ) -> None:
        self._size, self._chunks, self._read, self._documents = record.chunk_size, chunks, read, documents
        self._rows = sum(map(record.rows_in, chunks))
        self._in_memory: tuple[int, Sequence[Result]] = (-1, ())

    def __len__(self) -> int:
        return self._rows

    def row(self, place: int) -> Result:
        """The result at a place, from 0."""
        number, n = divmod(place, self._size)
        chunk = self._in_memory  # another thread may read another chunk
        if chunk[0] != number:
            chunk = self._in_memory = number, self._read(self._chunks[number])
        return chunk[1][n]

    def documents(self) -> Iterator[Mapping[str, Any]]:
        """All rows as they are in JSON."""
        if self._documents is None:
            return (row.model_dump(mode="json") for row in self)
        return chain.from_iterable(map(self._documents, self._chunks))


def documents(rows: Sequence[Result]) -> Iterator[Mapping[str, Any]]:
    """Rows as they are in JSON: many are read in a quarter of the time that models take, and not checked."""
    return rows.documents() if isinstance(rows, ChunkedResults) else (row.model_dump(mode="json") for row in rows)


def results_of(
    record: RunRecord,
    chunks: Sequence[ChunkId],
    read: Callable[[ChunkId], Sequence[Result]],
    documents: Callable[[ChunkId], Iterable[Mapping[str, Any]]] | None = None,
) -> Sequence[Result]:
    """The results of chunks of one system as a tuple or, where they are many, as what reads them a chunk at a time."""
    results = ChunkedResults(record, chunks, read, documents)
    return tuple(results) if len(results) <= MOST_IN_MEMORY else results
