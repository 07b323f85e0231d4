"""What a report, a comparison, gates, costs or a trend say, part by part: text, Markdown, HTML and PDF are made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ragassay.reporting.charts import Chart


@dataclass(frozen=True)
class Link:
    """Text of a cell that leads to another page; where there are no pages, the text alone is shown."""

    text: str
    href: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bar:
    """A value with its interval, in percent of the width of a ``scale`` such as ``0 to 1``."""

    at: float
    low: float
    high: float
    scale: str


@dataclass(frozen=True)
class Figure:
    """A number in a cell, and in ``detail`` its interval or what it means; ``n`` rows that it is of, and why rows are ``missing``.

    ``tone``: good, half, bad or none of these. ``notes``: what else is known, by label. ``href``: where it leads.
    """

    value: str
    detail: str = ""
    n: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    bar: Bar | None = None
    tone: str = ""
    href: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.value, self.detail, self.n and f"n={self.n}")))


Cell = str | Link | Figure


@dataclass(frozen=True)
class Table:
    """A titled table, and a line below it. ``least`` are the columns that a terminal leaves out first."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    least: tuple[str, ...] = ()

    @property
    def drawn(self) -> bool:
        """Has it figures with bars?"""
        return any(isinstance(cell, Figure) and cell.bar for row in self.rows for cell in row)

    @property
    def stacks(self) -> bool:
        """Has it, beside the first column, cells that are too wide for a row of a narrow screen?"""
        return self.drawn or any(isinstance(cell, Link) for row in self.rows for cell in row[1:])

    def texts(self) -> Iterator[tuple[str, ...]]:
        """The rows as text; below each, what the ``notes`` of its figures say."""
        for row in self.rows:
            yield tuple(map(str, row))
            notes = [dict(cell.notes) if isinstance(cell, Figure) else {} for cell in row]
            for label in dict.fromkeys(label for of_cell in notes for label in of_cell):
                yield f"{row[0]}, {label}", *(of_cell.get(label, "") for of_cell in notes[1:])


@dataclass(frozen=True)
class Card:
    """A row to be read: its query, what names it, texts with their labels, and the address of all of it."""

    title: str
    about: str
    texts: tuple[tuple[str, str], ...]
    href: str = ""


@dataclass(frozen=True)
class Cards:
    """Rows to be read."""

    title: str
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Passage:
    """A text with its ``label``, what is ``said`` of it in a ``tone`` (as of ``Figure``), its evidence, and why."""

    text: str
    label: str = ""
    said: str = ""
    tone: str = ""
    evidence: tuple[str | Link, ...] = ()
    why: str = ""

    @property
    def verdict(self) -> str:
        """What is said of it, and why."""
        return " ".join(filter(None, (self.said and f"[{self.said}]", self.why)))

    def __str__(self) -> str:
        labelled = f"{self.label}: {self.text}" if self.label else self.text
        return f"{labelled} {self.verdict}".rstrip()


@dataclass(frozen=True)
class Passages:
    """Texts to be read, and a line below them; ``is_running``: sentences of one text."""

    title: str
    passages: tuple[Passage, ...]
    note: str = ""
    is_running: bool = False


@dataclass(frozen=True)
class Sentences:
    """Sentences, as a list."""

    title: str
    lines: tuple[str, ...]


Block = Table | Chart | Cards | Passages | Sentences


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
