"""Lists that are read page by page: ``next`` of a page is the cursor of the one after."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import TypeVar

from ragassay.core.errors import BadInput

T = TypeVar("T")
BY_TIME = r"[0-9]{17}-\w{1,100}"  # the form of what ``by_time`` gives


def bad_cursor(cursor: str) -> BadInput:
    """The error of a list's cursor that none of its pages gave."""
    return BadInput(f"cursor {cursor[:40]!r} is not one that a page gave", where="cursor")


def by_time(time: datetime, id_: str) -> str:
    """The key of an entry in a list in the order of times, then of ids."""
    return f"{time.timestamp() * 1e6:017.0f}-{id_}"


def page_of(
    entries: Iterable[T],
    key: Callable[[T], str],
    *,
    cursor: str | None,
    limit: int,
    form: str,
    descending: bool = False,
) -> tuple[tuple[T, ...], str | None]:
    """The entries after a cursor, ``limit`` at the most, and the cursor of the page after it; None for the last page.

    A list is in the order of ``key``, a text of the ``form`` (a pattern). A cursor is the key of the last entry, so entries
    may come and go between two pages. Raises BadInput for one of another form.
    """
    if cursor is not None:
        if not re.fullmatch(form, cursor):
            raise bad_cursor(cursor)
        entries = (one for one in entries if (key(one) < cursor if descending else key(one) > cursor))
    page = tuple(islice(entries, limit + 1))
    return page[:limit], key(page[limit - 1]) if len(page) > limit else None
