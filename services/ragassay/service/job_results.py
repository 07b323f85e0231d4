"""Pages of a job's rows over all its systems, sorted and filtered on columns: only the page's own rows are read."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ragassay.core.errors import BadInput, NotFound, UnknownName, bad_cursor
from ragassay.core.jobs import ResultPage
from ragassay.service.job_run import JobRun
from ragassay.service.job_state import DAY_S
from ragassay.service.redis import RedisStore
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection, cursor_at


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
    rows = RowIndex(JobRun(store, job))
    if selection.takes_all:
        found, following = _in_order(chosen, record.dataset.rows, offset(cursor), limit)
    else:
        found, following = _selected(rows, selection, cursor, limit)
    results = rows.at(found)
    if not results and (selection.takes_all and len(found)) and state.status == "finished":
        days = store.retention.results_s // DAY_S
        raise NotFound(f"the results of job {job} were kept for {days} days and are gone", hint="the report holds them")
    return ResultPage(results=tuple(results), next=following)


def _in_order(chosen: Iterable[int], rows: int, first: int, limit: int) -> tuple[list[int], str | None]:
    """A page of all places of the systems, and the cursor of the one after."""
    spans = [range(max(first, system * rows), (system + 1) * rows) for system in chosen]
    places = [place for span in spans for place in span[: limit + 1]][: limit + 1]
    return places[:limit], str(places[limit]) if len(places) > limit else None


def _selected(rows: RowIndex, selection: Selection, cursor: str | None, limit: int) -> tuple[list[int], str | None]:
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


def offset(cursor: str | None) -> int:
    """The place from which a page is to begin; raises BadInput."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 9:
        raise bad_cursor(cursor)
    return int(cursor)
