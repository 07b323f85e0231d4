"""How many rows of a run are done, from the calls that are answered: ahead of the chunks that the rows belong to."""

from __future__ import annotations

from collections.abc import Callable

from ragassay.core.protocols import Call, Purpose


class RowProgress:
    """Reports rows to ``done``: ``rows`` in all, never more.

    A row counts once ``calls`` calls of the ``purpose`` are answered. That is an estimate, since some rows take more calls;
    ``finished`` corrects it at the end of each chunk.
    """

    def __init__(self, done: Callable[[int], object], rows: int, purpose: Purpose, calls: int) -> None:
        self._done, self._left = done, rows
        self._purpose, self._calls = purpose, calls
        self._answered: set[str] = set()
        self._ahead = 0

    def answered(self, call: Call) -> None:
        """A call has a reply, now or from before."""
        if call.purpose != self._purpose or call.id in self._answered:
            return
        self._answered.add(call.id)
        if len(self._answered) % self._calls == 0:
            self._ahead += self._report(1)

    def finished(self, rows: int) -> None:
        """A chunk of so many rows is done: report those that are not reported yet."""
        reported = min(self._ahead, rows)
        self._ahead -= reported
        self._report(rows - reported)

    def _report(self, rows: int) -> int:
        rows = min(rows, self._left)
        self._left -= rows
        if rows:
            self._done(rows)
        return rows
