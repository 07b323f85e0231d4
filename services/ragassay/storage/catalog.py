"""What trends and costs read: the runs of a folder or the jobs of a service, wherever these are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from ragassay.storage.runs import Run


@dataclass(frozen=True)
class Entry:
    """A run in a catalog. ``run``: None if its record can't be read. ``partial``: its report is of the rows that are done."""

    id: str
    status: Literal["finished", "partial", "without a report", "not finished", "failed", "unreadable"]
    run: Run | None = None


class Catalog(Protocol):
    """Runs, as they are listed."""

    def newest(self) -> Iterator[Entry]:
        """All of them, the newest first."""
