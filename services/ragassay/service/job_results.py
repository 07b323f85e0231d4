"""Pages of a job's rows over all its systems, sorted and filtered on columns: only the page's own rows are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ragassay.core.errors import BadInput, NotFound, UnknownName, bad_cursor
from ragassay.core.jobs import ResultPage
from ragassay.core.models import Result
from ragassay.service.job_state import DAY_S
from ragassay.service.redis import RedisStore, column_name
from ragassay.storage.columns import THERE, read_column, rows_with
from ragassay.storage.places import RowPlaces
from ragassay.storage.protocol import ChunkId, RunRecord
from ragassay.storage.selection import Selection, cursor_at

_AT_ONCE = 500  # chunks that Redis is asked for in one call


def page(store: RedisStore, job: str, selection: Selection, *, cursor: str | None, limit: int) -> ResultPage:
    """The rows that are there, by default system by system in the dataset's order.

    Raises NotFound for an unknown job and where the rows' time is over, UnknownName for a figure or system that it has
    not, BadInput for a cursor that no such page gave.
    """
    state = store.state(job)
    record = state.record
    systems = list(record.systems)
    if selection.system is not None and selection.system not in systems:
        raise UnknownName("system of the job", selection.system, systems, where="system")
    chosen = range(len(systems)) if selection.system is None else [systems.index(selection.system)]
    rows = RowPlaces(record, JobRows(store, job, record))
    if selection.takes_all:
        found, following = _in_order(chosen, record.dataset.rows, offset(cursor), limit)
    else:
        found, following = _selected(rows, selection, cursor, limit)
    results = rows.at(found)
    if not results and (selection.takes_all and len(found)) and state.status == "finished":
        days = store.retention.results_s // DAY_S
        raise NotFound(f"the results of job {job} were kept for {days} days and are gone", hint="the report holds them")
    return ResultPage(results=tuple(results), next=following)


def places(store: RedisStore, job: str) -> RowPlaces:
    """A job's rows, as far as they are there, to be chosen and read by their places; raises NotFound for an unknown job."""
    record = store.state(job).record
    return RowPlaces(record, JobRows(store, job, record))


def _in_order(chosen: Iterable[int], rows: int, first: int, limit: int) -> tuple[list[int], str | None]:
    """A page of all places of the systems, and the cursor of the one after."""
    spans = [range(max(first, system * rows), (system + 1) * rows) for system in chosen]
    places = [place for span in spans for place in span[: limit + 1]][: limit + 1]
    return places[:limit], str(places[limit]) if len(places) > limit else None


def _selected(rows: RowPlaces, selection: Selection, cursor: str | None, limit: int) -> tuple[list[int], str | None]:
    """A page of the selected places, and the cursor of the one after."""
    after = cursor_at(cursor, selection.tag)
    ordered = rows.selected(selection)
    begin = 0
    if after is not None:
        at = np.flatnonzero(ordered == after)
        if not len(at):
            raise BadInput("the cursor is of rows that are gone", where="cursor", hint="begin without a cursor")
        begin = int(at[0]) + 1
    found = [int(place) for place in ordered[begin : begin + limit]]
    return found, f"{found[-1]}-{selection.tag}" if begin + limit < len(ordered) else None


class JobRows:
    """A job's rows in Redis, and the columns beside them."""

    def __init__(self, store: RedisStore, job: str, record: RunRecord) -> None:
        self._store, self._job, self._record = store, job, record

    def columns(self, system: str) -> _StoredColumns:
        """See ``KeptRows``."""
        return _StoredColumns(self._store, self._job, system, self._record)

    def read(self, wanted: Mapping[ChunkId, Iterable[int]]) -> dict[ChunkId, dict[int, Result]]:
        """See ``KeptRows``."""
        return self._store.read_rows(self._job, wanted)


class _StoredColumns:
    """The columns of one system's rows, in the order of evaluation."""

    def __init__(self, store: RedisStore, job: str, system: str, record: RunRecord) -> None:
        self._store, self._job, self._system, self._record = store, job, system, record
        self._rows, self._size = record.dataset.rows, record.chunk_size

    def column(self, name: str) -> Any:
        """A value for each row."""
        return read_column(
            self._store.redis.get(self._store.key(self._job, column_name(self._system, name))), self._rows
        )

    def there(self) -> Any:
        """Which rows are done."""
        return self.column(THERE) > 0

    def with_text(self, text: str, among: Any) -> Any:
        """Which of the rows ``among`` hold a text."""
        found = np.zeros(self._rows, dtype=bool)
        numbers = np.unique(np.flatnonzero(among) // self._size)
        for first in range(0, len(numbers), _AT_ONCE):
            some = [int(number) for number in numbers[first : first + _AT_ONCE]]
            chunks = [str(ChunkId(self._system, number)) for number in some]
            blobs = self._store.redis.hmget(self._store.key(self._job, "texts"), chunks)
            for number, blob in zip(some, blobs, strict=True):
                if blob is not None and (rows := rows_with(blob, text)) is not None:
                    found[number * self._size : number * self._size + len(rows)] = rows
        return found


def offset(cursor: str | None) -> int:
    """The place from which a page is to begin; raises BadInput."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 9:
        raise bad_cursor(cursor)
    return int(cursor)
