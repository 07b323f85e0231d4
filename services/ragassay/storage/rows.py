"""The rows in a run's folder: samples, recorded responses and results, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, NotFound
from ragassay.core.files import LineRows, StoredRows
from ragassay.core.models import FrozenModel, Response, Result
from ragassay.core.validation import problems
from ragassay.storage.protocol import RunRecord

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
        return model.model_validate(orjson.loads(line))
    except ValidationError as error:
        raise BadData([f"{path}:{number}: {problems(error)[0]}"], hint=DAMAGED) from None
    except ValueError as error:
        raise BadData([f"{path}:{number}: not JSON ({error})"], hint=DAMAGED) from None


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


class ChunkResults(StoredRows[Result]):
    """The results in ``files``, one for each chunk, in the dataset's order; of one chunk the lines are in memory.

    ``parse`` makes a result of its file, its number there, from 1, and its line.
    """

    def __init__(self, record: RunRecord, files: Sequence[Path], parse: Callable[[Path, int, bytes], Result]) -> None:
        self._files, self._size, self._parse = [file.absolute() for file in files], record.chunk_size, parse
        self._rows = min(len(files) * record.chunk_size, record.dataset.rows)
        self._held: tuple[Path | None, list[bytes]] = (None, [])

    def __len__(self) -> int:
        return self._rows

    def line(self, place: int) -> bytes:
        """The result at a place, from 0, as JSON."""
        return self._find(place)[2]

    def row(self, place: int) -> Result:
        """The result at a place, from 0."""
        return self._parse(*self._find(place))

    def _find(self, place: int) -> tuple[Path, int, bytes]:
        number, n = divmod(place, self._size)
        file = self._files[number]
        held = self._held  # another thread may read another file
        if held[0] != file:
            try:
                lines = file.read_bytes().splitlines()
            except OSError as error:
                raise BadData([f"{file}: can't be read ({error.strerror})"], hint="was the run removed?") from None
            rows = min(self._size, self._rows - number * self._size)
            if len(lines) != rows:
                what = f"{file}: has {len(lines)} rows instead of {rows}"
                raise BadData([what], hint=DAMAGED)
            held = self._held = file, lines
        return file, n + 1, held[1][n]
