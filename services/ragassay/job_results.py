"""Pages of a job's rows over all its systems, sorted and filtered on columns: only the page's own rows are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ragassay.documents import ResultPage
from ragassay.errors import BadInput, NotFound, UnknownName
from ragassay.models import Result
from ragassay.store.columns import Columns, pack_columns, pack_texts, unpack_columns, unpack_texts
from ragassay.store.job_state import JobState
from ragassay.store.protocol import ChunkId, RunRecord
from ragassay.store.redis import RedisStore
from ragassay.store.selection import Resolved, Selection, cursor_at

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
    rows = _JobRows(store, job, record)
    if selection.takes_all:
        places, following = _in_order(chosen, record.dataset.rows, _offset(cursor), limit)
    else:
        places, following = _selected(rows, chosen, selection, cursor, limit)
    results = rows.at(places)
    if not results and (selection.takes_all and len(places)) and _should_be_there(state):
        raise NotFound(f"the results of job {job} were kept for 30 days and are gone", hint="the report holds them")
    return ResultPage(results=tuple(results), next=following)


def _should_be_there(state: JobState) -> bool:
    return state.status == "finished" and state.record.spec.stop_when is None


def _in_order(chosen: Iterable[int], rows: int, first: int, limit: int) -> tuple[list[int], str | None]:
    """A page of all places of the systems, and the cursor of the one after."""
    spans = [range(max(first, system * rows), (system + 1) * rows) for system in chosen]
    places = [place for span in spans for place in span[: limit + 1]][: limit + 1]
    return places[:limit], str(places[limit]) if len(places) > limit else None


def _selected(
    rows: _JobRows, chosen: Iterable[int], selection: Selection, cursor: str | None, limit: int
) -> tuple[list[int], str | None]:
    """A page of the selected places, and the cursor of the one after."""
    resolved, after = selection.resolved(rows.record.metrics), cursor_at(cursor, selection.tag)
    places, key = rows.matching(chosen, resolved)
    ordered = resolved.ordered(places, key)
    begin = 0
    if after is not None:
        at = np.flatnonzero(ordered == after)
        if not len(at):
            raise BadInput("the cursor is of rows that are gone", where="cursor", hint="begin without a cursor")
        begin = int(at[0]) + 1
    found = [int(place) for place in ordered[begin : begin + limit]]
    return found, f"{found[-1]}-{selection.tag}" if begin + limit < len(ordered) else None


class _JobRows:
    """A job's rows by their places: those of the first system in the dataset's order, then those of the second ..."""

    def __init__(self, store: RedisStore, job: str, record: RunRecord) -> None:
        self._store, self._job, self.record = store, job, record
        self._systems = list(record.systems)
        self._order = np.array(record.evaluation_order(), dtype=np.int64)

    def at(self, places: Sequence[int]) -> list[Result]:
        """The results at these places, as far as they are there, in their order."""
        size, rows = self.record.chunk_size, self.record.dataset.rows
        evaluated = np.empty_like(self._order)
        evaluated[self._order] = np.arange(rows)
        by_chunk: dict[ChunkId, dict[int, int]] = {}
        for place in places:
            number, row = divmod(int(evaluated[place % rows]), size)
            by_chunk.setdefault(ChunkId(self._systems[place // rows], number), {})[row] = place
        results: dict[int, Result] = {}
        for chunk, wanted in by_chunk.items():
            results |= {wanted[row]: result for row, result in self._store.rows(self._job, chunk, wanted).items()}
        return [results[place] for place in places if place in results]

    def matching(self, chosen: Iterable[int], selection: Resolved) -> tuple[Any, Any]:
        """The places that are selected, and the figure that they are sorted by; None where they are not."""
        size, rows = self.record.chunk_size, self.record.dataset.rows
        chunks = [ChunkId(self._systems[system], n) for system in chosen for n in range(-(-rows // size))]
        found: list[Any] = [np.empty(0, dtype=np.int64)]
        keys: list[Any] = [np.empty(0)]
        for chunk, columns in self._columns(chunks):
            mask = selection.wanted(columns)
            if (text := selection.selection.text) is not None and mask.any():
                mask &= self._with_text(chunk, text.casefold())
            first = self._systems.index(chunk.system) * rows
            found.append(self._order[chunk.number * size : chunk.number * size + len(mask)][mask] + first)
            if selection.sort is not None:
                keys.append(columns.column(selection.sort)[mask])
        return np.concatenate(found), np.concatenate(keys) if selection.sort is not None else None

    def _columns(self, chunks: Sequence[ChunkId]) -> Iterable[tuple[ChunkId, Columns]]:
        for first in range(0, len(chunks), _AT_ONCE):
            some = chunks[first : first + _AT_ONCE]
            blobs = self._store.redis.hmget(self._store.key(self._job, "columns"), list(map(str, some)))
            for chunk, blob in zip(some, blobs, strict=True):
                if blob is not None:
                    yield chunk, unpack_columns(blob)
                elif results := self._store.results(self._job, chunk):  # of a version that wrote no columns
                    yield chunk, self._written(chunk, results)

    def _with_text(self, chunk: ChunkId, text: str) -> Any:
        blob = self._store.redis.hget(self._store.key(self._job, "texts"), str(chunk))
        return np.array([text in each for each in unpack_texts(blob)]) if blob else np.False_

    def _written(self, chunk: ChunkId, results: Sequence[Result]) -> Columns:
        """The columns of results that have none, kept for as long as those are."""
        left_ms = self._store.redis.pttl(self._store.key(self._job, f"out:{chunk}"))
        pipe = self._store.redis.pipeline(transaction=True)
        for name, blob in (("columns", pack_columns(results)), ("texts", pack_texts(results))):
            pipe.hset(self._store.key(self._job, name), str(chunk), blob)
            if left_ms > 0:
                pipe.pexpire(self._store.key(self._job, name), left_ms)
        pipe.execute()
        return Columns.of(results)


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 9:
        raise BadInput(f"cursor {cursor[:40]!r} is not one that a page gave", where="cursor")
    return int(cursor)
