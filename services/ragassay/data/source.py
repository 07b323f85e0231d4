"""What a reader hands over: plain rows, where each stands, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragassay.errors import BadData

BOM = b"\xef\xbb\xbf"


@dataclass
class Source:
    """Rows of one file in their order, each with its number: a line (from 1) or, where no line is known, a row.

    ``columns`` are those of a header, which may be there without a value in any row. ``cells`` says that values are
    text as CSV has it, so that the columns decide what a value is. ``judged_only``: queries that nobody judged are not in it.
    """

    path: Path
    rows: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    cells: bool = False
    counts_lines: bool = True
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    findings: list[tuple[int, str]] = field(default_factory=list)
    hint: str | None = None
    warnings: list[str] = field(default_factory=list)
    judged_only: bool = False

    def drain(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The rows in order, each let go once it is passed, so that rows and what is made of them take turns."""
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
        """Note what is wrong with a row, or with the file (number 0), and go on."""
        self.findings.append((number, f"{self.where(number) if number else self.path}: {what}"))

    @property
    def problems(self) -> list[str]:
        """All that was refused, in the order of the rows."""
        return [line for _, line in sorted(self.findings, key=lambda finding: finding[0])]


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines, ends included, of a UTF-8 file with or without a byte order mark; else raises BadData."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            content = raw.removeprefix(BOM) if number == 1 else raw
            try:
                yield number, content.decode()
            except UnicodeDecodeError as error:
                raise BadData([f"{path}:{number}: {undecodable(content, error)}"], hint=SAVE_AS_UTF8) from None


SAVE_AS_UTF8 = "save the file as UTF-8"


def undecodable(content: bytes, error: UnicodeDecodeError) -> str:
    """Which byte of a line is not UTF-8."""
    column = error.start - content.rfind(b"\n", 0, error.start)
    return f"byte 0x{content[error.start]:02x} at byte {column} of the line is not UTF-8"
