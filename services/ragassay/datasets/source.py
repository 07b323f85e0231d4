"""The rows of one file or table as plain objects, each with its number, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ragassay.core.errors import BadData, BadInput, NotFound, NothingToEvaluate, TooLarge
from ragassay.core.files import numbered_lines

NumberedRow: TypeAlias = tuple[int, dict[str, Any]]
"""The number of a row and its values by column."""

MAX_COLUMNS = 10_000
SAVE_AS_UTF8 = "save the file as UTF-8"


class ValueProblem(ValueError):
    """A value that can't be what its field needs. ``what`` completes the sentence "field: ..."."""

    def __init__(self, what: str, *, at: str = "") -> None:
        self.what, self.at = what, at
        super().__init__(what)


@dataclass(eq=False)
class Source:
    """Rows of a file or table, which can be read several times. A row's number is its line or, without lines, its place.

    ``reader`` reads the rows from the file each time, one by one; without it they are the ``rows`` in memory. ``columns``
    are those of a header, which may have no value in any row. ``cells``: values are text, as in CSV. ``judged_only``:
    queries without judgments are left out. ``of_traces``: ``query_id`` is the id of a trace, by which no response can be
    joined to a dataset. After ``max_problems`` the rest is not read.
    """

    path: Path
    reader: Callable[[Source], Iterator[NumberedRow]] | None = None
    rows: list[NumberedRow] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    cells: bool = False
    counts_lines: bool = True
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    hint: str | None = None
    warnings: list[str] = field(default_factory=list)
    judged_only: bool = False
    max_problems: int | None = None
    of_traces: bool = False
    _problems: list[tuple[int, str]] = field(default_factory=list)
    _unreadable: int | None = None

    def __iter__(self) -> Iterator[NumberedRow]:
        """The rows in order; problems that were found in the rows of an earlier pass are forgotten."""
        if self.reader is None:
            self._unreadable = len(self._problems) if self._unreadable is None else self._unreadable
            del self._problems[self._unreadable :]
            yield from self.rows
        else:
            self._problems.clear()
            with read_errors(self.path):
                yield from self.reader(self)

    def in_memory(self) -> Source:
        """The source with all rows in memory; raises NothingToEvaluate without any, unless there are problems."""
        if self.reader is not None:
            self.rows, self.reader = list(self), None
        if not self.rows and not self._problems:
            raise NothingToEvaluate("the file holds no rows", where=str(self.path))
        return self

    def where(self, number: int) -> str:
        """``file:12`` or, without lines, ``file: row 12``."""
        return f"{self.path}:{number}" if self.counts_lines else f"{self.path}: row {number}"

    def place(self, number: int) -> str:
        """``line 12`` or ``row 12``."""
        return f"line {number}" if self.counts_lines else f"row {number}"

    def add_problem(self, number: int, what: str) -> None:
        """Note what is wrong with a row, or with the file (number 0); raises BadData for the last that is noted."""
        self._problems.append((number, f"{self.where(number) if number else self.path}: {what}"))
        if len(self._problems) == self.max_problems:
            self._problems.append((number, f"{self.path}: reading stopped after {self.max_problems} problems"))
            self.check()

    @property
    def problems(self) -> list[str]:
        """All that is wrong, in the order of the rows."""
        return [line for _, line in sorted(self._problems, key=lambda problem: problem[0])]

    def check(self) -> None:
        """Raise BadData if there is any problem."""
        if self._problems:
            raise BadData(self.problems, hint=self.hint)

    def check_width(self, columns: int) -> None:
        """Raise TooLarge for more columns than a table of ours may have."""
        if columns > MAX_COLUMNS:
            raise TooLarge(f"has {columns:,} columns, at most {MAX_COLUMNS:,} are read", where=str(self.path))


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """The system's errors of reading as NotFound and BadInput."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound("there is no such file", where=str(path)) from None
    except OSError as error:
        raise BadInput(f"can't be read: {error.strerror or error}", where=str(path)) from None


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
