"""What a reader of a format hands over: plain rows, where each stands, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ragassay.core.errors import BadData, TooLarge
from ragassay.core.files import numbered_lines

NumberedRow: TypeAlias = tuple[int, dict[str, Any]]
"""The number of a row and its values by column."""

MOST_COLUMNS = 10_000
SAVE_AS_UTF8 = "save the file as UTF-8"


@dataclass
class RawRows:
    """Rows of one file in their order, each with its number: a line (from 1) or, where no line is known, a row.

    ``columns`` are those of a header, which may be there without a value in any row. ``cells``: values are
    text, as in CSV, so that the columns decide what a value is. ``judged_only``: queries that nobody judged are
    not among them. ``most_refused``: after so many problems the rest is not read. ``of_traces``: ``query_id`` is the id of
    a trace, by which no response can be joined to a dataset.
    """

    path: Path
    rows: list[NumberedRow] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    cells: bool = False
    counts_lines: bool = True
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    refused: list[tuple[int, str]] = field(default_factory=list)
    hint: str | None = None
    warnings: list[str] = field(default_factory=list)
    judged_only: bool = False
    most_refused: int | None = None
    of_traces: bool = False

    def drain(self) -> Iterator[NumberedRow]:
        """The rows in order, each freed once it is passed, so that rows and what is made of them take turns."""
        self.rows.reverse()
        while self.rows:
            yield self.rows.pop()

    def where(self, number: int) -> str:
        """``file:12`` or, without lines, ``file: row 12``."""
        return f"{self.path}:{number}" if self.counts_lines else f"{self.path}: row {number}"

    def place(self, number: int) -> str:
        """``line 12`` or ``row 12``."""
        return f"line {number}" if self.counts_lines else f"row {number}"

    def refuse(self, number: int, what: str) -> None:
        """Note what is wrong with a row, or with the file (number 0), and go on unless that is the last to be noted."""
        self.refused.append((number, f"{self.where(number) if number else self.path}: {what}"))
        if len(self.refused) == self.most_refused:
            self.refused.append((number, f"{self.path}: reading stopped after {self.most_refused} problems"))
            self.check()

    @property
    def problems(self) -> list[str]:
        """All that was refused, in the order of the rows."""
        return [line for _, line in sorted(self.refused, key=lambda problem: problem[0])]

    def check_width(self, columns: int) -> None:
        """Raise TooLarge where a file has so many columns that it can't be a table of ours."""
        if columns > MOST_COLUMNS:
            raise TooLarge(f"has {columns:,} columns, at most {MOST_COLUMNS:,} are read", where=str(self.path))

    def check(self) -> None:
        """Raise BadData where anything was refused."""
        if self.refused:
            raise BadData(self.problems, hint=self.hint)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines, ends included, of a UTF-8 file with or without a byte order mark; else raises BadData."""
    for number, line in numbered_lines(path):
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            raise BadData([f"{path}:{number}: {undecodable(error)}"], hint=SAVE_AS_UTF8) from None


def undecodable(error: UnicodeDecodeError) -> str:
    """Which byte of a line is not UTF-8."""
    column = error.start - error.object.rfind(b"\n", 0, error.start)
    return f"byte 0x{error.object[error.start]:02x} at byte {column} of the line is not UTF-8"
