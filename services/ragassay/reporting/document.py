"""What a report, a comparison, a benchmark, gates or costs say, part by part: Markdown, pages, PDF and text are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ragassay.reporting.charts import Chart
from ragassay.reporting.figures import MetricRow
from ragassay.reporting.tables import Table


@dataclass(frozen=True)
class MeanTable:
    """Means of all systems, with their intervals."""

    title: str
    systems: tuple[str, ...]
    rows: tuple[MetricRow, ...]

    def table(self) -> Table:
        """The same as text."""
        return Table(self.title, ("", *self.systems), tuple(line for row in self.rows for line in row.lines))


@dataclass(frozen=True)
class Card:
    """A row to be read: its query, what names it, and texts with their labels."""

    title: str
    about: str
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cards:
    """Rows to be read."""

    title: str
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Sentences:
    """Sentences; as a list."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Values with their names."""

    title: str
    facts: tuple[tuple[str, str], ...]


Block = MeanTable | Table | Chart | Cards | Sentences | Facts


@dataclass(frozen=True)
class Document:
    """The answer in sentences, then a sentence on each system, what limits the figures, and the rest in blocks.

    ``details``: slices, how it was made and where it comes from; a terminal leaves them out.
    """

    title: str
    about: str = ""
    answer: tuple[str, ...] = ()
    headlines: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    details: tuple[Block, ...] = ()
    ragassay: str = ""
    created: datetime | None = None
