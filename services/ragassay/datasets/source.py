"""The rows of one file or table as plain objects, each with its number, and what could not be read; JSON by orjson."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from ragassay.core.errors import AssayError, BadData, BadInput, NotFound, TooLarge
from ragassay.core.files import LONGEST_LINE, MIB, numbered_lines
from ragassay.core.validation import shown

NumberedRow: TypeAlias = tuple[int, Any]
"""The number of a row and its values by column, or a Sample."""

MAX_COLUMNS = 10_000
MAX_UNPACKED = 2048 * MIB
_MAX_EXPANSION = 200  # text of a run packs 5 to 20 times; a value that repeats is stored once
SAVE_AS_UTF8 = "save the file as UTF-8"


class ValueProblem(ValueError):
    """A value that can't be what its field needs. ``what`` completes the sentence "field: ..."."""

    def __init__(self, what: str, *, at: str = "") -> None:
        self.what, self.at = what, at
        super().__init__(what)


class NotJson(ValueProblem):
    """Text that is no JSON; its line counts from 1."""

    def __init__(self, what: str, line: int, hint: str | None = None) -> None:
        self.line, self.hint = line, hint
        super().__init__(what)


@dataclass(eq=False)
class Source:
    """Rows of a file or table, read once. A row's number is its line or, without lines, its place.

    ``columns`` are those of a header. ``cells``: values are text, as in CSV. ``canonical``: rows are Samples, or have the
    keys of one. ``judged_only``: queries without judgments are left out. ``of_traces``: ``query_id`` is the id of a trace,
    by which no response can be joined to a dataset. ``systems``: rows of the responses of several systems, by name. After
    ``max_problems`` the rest is not read.
    """

    path: Path
    rows: Iterable[NumberedRow] = ()
    columns: tuple[str, ...] = ()
    cells: bool = False
    counts_lines: bool = True
    canonical: bool = False
    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    hint: str | None = None
    warnings: list[str] = field(default_factory=list)
    judged_only: bool = False
    max_problems: int | None = None
    of_traces: bool = False
    systems: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    _problems: list[tuple[int, str]] = field(default_factory=list)

    def __iter__(self) -> Iterator[NumberedRow]:
        """The rows in order; an error of the system is NotFound or BadInput."""
        with read_errors(self.path):
            yield from self.rows

    def place(self, number: int) -> str:
        """A row as messages name it, by its line or else by its number."""
        return f"{self.path}:{number}" if self.counts_lines else f"{self.path}: row {number}"

    def add_problem(self, number: int, what: str) -> None:
        """Note what is wrong with a row, or with the file (number 0); raises BadData for the last that is noted."""
        self._problems.append((number, f"{self.place(number) if number else self.path}: {what}"))
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
            raise BadData(self.problems, hint=self.hint, option="map")

    def set_columns(self, names: Iterable[str]) -> None:
        """Set the columns of a header; raises TooLarge for too many and BadData for two of one name."""
        self.columns = tuple(names)
        if len(self.columns) > MAX_COLUMNS:
            what = f"has {len(self.columns):,} columns, at most {MAX_COLUMNS:,} are read"
            raise TooLarge(what, where=str(self.path))
        if twice := [name for name, count in Counter(self.columns).items() if count > 1]:
            raise BadData([f"{self.path}: {shown(name)}: two columns have this name" for name in twice])


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """The system's errors of reading as NotFound and BadInput."""
    try:
        yield
    except AssayError:
        raise
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


def separator_hint(header: str) -> str | None:
    """What to do about a header that is one column, where another character may separate several."""
    mark = next((mark for mark in ";\t|," if mark in header), None)
    return mark and f"are the columns separated by {mark!r}? write them with commas, or with tabs and set format=tsv"


def undecodable(error: UnicodeDecodeError) -> str:
    """Which byte of a line is not UTF-8."""
    column = error.start - error.object.rfind(b"\n", 0, error.start)
    return f"byte 0x{error.object[error.start]:02x} at byte {column} of the line is not UTF-8"


def max_unpacked(packed: int) -> int:
    """Bytes that a compressed file of ``packed`` bytes may have when it is unpacked into memory."""
    return min(MAX_UNPACKED, max(LONGEST_LINE, _MAX_EXPANSION * packed))


def too_large_unpacked(path: Path | str, limit: int) -> TooLarge:
    """The error for a file that unpacks into more than ``limit`` bytes."""
    what = f"holds more than {limit // MIB:,} MiB, the most that is unpacked into memory"
    return TooLarge(what, where=str(path), hint="unpack it to a file, or split it")


def parse(text: str | bytes) -> Any:
    """The value of a JSON text in UTF-8; raises NotJson, or ValueProblem if it is nested too deeply.

    NaN and half a surrogate pair are no JSON.
    """
    try:
        return orjson.loads(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise NotJson(undecodable(error), line, SAVE_AS_UTF8) from None
    except orjson.JSONDecodeError as error:
        if "depth limit" in error.msg:
            raise ValueProblem("is nested too deeply") from None
        if "memory" in error.msg:
            raise MemoryError from None
        hint = "one object per line is JSON Lines: format=jsonl" if "after document" in error.msg else None
        what = f"column {error.colno}: is not valid JSON: {error.msg[0].lower()}{error.msg[1:]}"
        raise NotJson(what, error.lineno, hint) from None


def object_of(row: Any) -> dict[str, Any]:
    """The row, which should be an object; raises ValueProblem."""
    if not isinstance(row, dict):
        raise ValueProblem(f"should be an object, is {shown(row)}")
    return row


def jsonl_rows(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a JSON Lines file, one by one: an object per line. Blank lines are passed over, bad ones are problems."""
    for number, line in numbered_lines(source.path):
        if line.isspace():
            continue
        try:
            row = object_of(parse(line))
        except ValueProblem as error:
            source.hint = source.hint or getattr(error, "hint", None)
            source.add_problem(number, error.what)
        else:
            yield number, row
