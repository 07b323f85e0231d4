"""Pages of a job's rows over all its systems, sorted and filtered on columns: only the page's own rows are read."""

from __future__ import annotations

import numpy as np

from ragassay.core.errors import BadInput, NotFound, bad_cursor
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
    state, rows, begin = store.state(job), RowIndex(JobRun(store, job)), 0
    ordered = rows.selected(selection)
    if (after := cursor_at(cursor, selection.tag)) is not None:
        at = np.flatnonzero(ordered == after)
        if not len(at):
            raise BadInput("the cursor is of rows that are gone", where="cursor", hint="begin without a cursor")
        begin = int(at[0]) + 1
    found = [int(number) for number in ordered[begin : begin + limit]]
    results = rows.at(found)
    if not results and state.status == "finished" and (found or selection.takes_all):
        days = store.retention.results_s // DAY_S
        raise NotFound(f"the results of job {job} were kept for {days} days and are gone", hint="the report holds them")
    more = begin + limit < len(ordered)
    return ResultPage(results=tuple(results), next=f"{found[-1]}-{selection.tag}" if more else None)


def offset(cursor: str | None) -> int:
    """The place from which a page is to begin; raises BadInput."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 9:
        raise bad_cursor(cursor)
    return int(cursor)
