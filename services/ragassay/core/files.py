"""Reads files line by line, and writes files that are either whole or absent: flushed beside their place, then moved.

Rows in such a file can be used like a list of them, although each is read when it is asked for.
"""

from __future__ import annotations

import codecs
import errno
import fcntl
import logging
import os
import secrets
import tempfile
import weakref
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, overload

import orjson

from ragassay.core.errors import BadData, BadSettings, Conflict, DiskFull, TooLarge

logger = logging.getLogger("ragassay")
T = TypeVar("T")

MIB = 2**20
LONGEST_LINE = 64 * MIB  # of what users give
MAX_IN_MEMORY = 1000  # rows; of more only their places in a file are
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP)


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """The system's errors of writing as ours: DiskFull without room or beyond a quota, BadSettings where it may not."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            what = f"no room is left on the disk ({error.strerror})"
            raise DiskFull(what, where=str(path), hint="make room") from None
        if error.errno in _REFUSED:
            raise BadSettings(f"can't be written ({error.strerror})", where=str(path)) from None
        raise


def check_output(path: Path) -> None:
    """Raise BadSettings where no file can be written: at a folder, or below what is none. Missing folders are made later."""
    if path.is_dir():
        raise BadSettings(f"output {str(path)!r} is a folder", hint="name a file")
    there = next((above for above in path.parents if above.exists()), None)
    if there is not None and not there.is_dir():
        raise BadSettings(f"output {str(path)!r}: {str(there)!r} is no folder", hint="name another place")


def write_whole(path: Path, content: bytes | Iterable[bytes], *, private: bool = False) -> None:
    """Replace ``path`` by ``content`` in one step; a crash leaves the old file or the new one.

    Content that comes in parts is written as it comes. Folders that are missing are made. ``private``: only its owner may
    read it, whoever might read the old one, and enter such folders. Raises DiskFull, and BadSettings where it may not.
    """
    beside = path.parent / f".{os.getpid()}.{secrets.token_hex(4)}.tmp"  # a name that no other process or thread uses
    with write_errors(path):
        private_folder(path.parent) if private else path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(beside, "wb", opener=open_private if private else None) as file:
                file.writelines((content,) if isinstance(content, bytes) else content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


class LazyRows(Sequence[T]):
    """Rows that are made one by one, as they are asked for; equal to a tuple of the same rows."""

    @abstractmethod
    def row(self, place: int) -> T:
        """The row at a place, from 0."""

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        places = range(len(self))[place]
        return self.row(places) if isinstance(places, int) else tuple(map(self.row, places))

    def __iter__(self) -> Iterator[T]:
        return map(self.row, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[tuple[T, ...]], tuple[tuple[T, ...]]]:
        return tuple, (tuple(self),)


class MappedRows(LazyRows[T]):
    """The rows that ``make`` returns for ``rows``, each made when it is read."""

    def __init__(self, rows: Sequence[Any], make: Callable[[Any], T]) -> None:
        self._rows, self._make = rows, make

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, place: int) -> T:
        """The row at a place, from 0."""
        return self._make(self._rows[place])


class KeyedRows(Mapping[str, T]):
    """What ``value`` makes of each of ``rows`` by its key; rows that lie in a file stay there. ``places``: where each key's is."""

    def __init__(self, rows: Sequence[Any], places: Mapping[str, int], value: Callable[[Any], T]) -> None:
        self.rows, self._places, self._value = rows, places, value

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, key: str) -> T:
        return self._value(self.rows[self._places[key]])


class LineRows(LazyRows[T]):
    """The rows of a JSON Lines file that stays as it is; eight bytes of each are in memory.

    ``file`` is its descriptor, ``starts`` are the places where lines begin and, last, the end. ``parse`` makes a row of
    its number, from 1, and its line.
    """

    def __init__(self, file: int, starts: array[int], parse: Callable[[int, bytes], T]) -> None:
        self._file, self._starts, self._parse = file, starts, parse
        weakref.finalize(self, os.close, file)

    @classmethod
    def of(cls, path: Path, parse: Callable[[int, bytes], T]) -> LineRows[T]:
        """The rows of a file; blank lines are passed over."""
        starts, end = array("q"), 0
        with path.open("rb") as file:
            for line in file:
                if not line.isspace():
                    starts.append(end)
                end += len(line)
            starts.append(end)
            return cls(os.dup(file.fileno()), starts, parse)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def row(self, place: int) -> T:
        """The row at a place, from 0."""
        start, end = self._starts[place : place + 2]
        return self._parse(place + 1, os.pread(self._file, end - start, start))


def set_aside(rows: Iterable[T], line: Callable[[T], bytes], parse: Callable[[bytes], T]) -> Sequence[T]:
    """The rows as a tuple or, where they are many, in a file without a name that goes when they are no longer used.

    ``parse`` makes a row of what ``line`` made of it. Raises DiskFull.
    """
    rows = iter(rows)
    first = tuple(islice(rows, MAX_IN_MEMORY + 1))
    if len(first) <= MAX_IN_MEMORY:
        return first
    starts, end = array("q"), 0
    with write_errors(Path(tempfile.gettempdir())), tempfile.TemporaryFile() as file:
        for row in chain(first, rows):
            starts.append(end)
            end += file.write(line(row))
        file.flush()
        starts.append(end)
        return LineRows(os.dup(file.fileno()), starts, lambda _, content: parse(content))


class LineLog:
    """A file of JSON Lines that rows are appended to, readable by its owner alone. A line is written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with write_errors(path):
            private_folder(path.parent)
            self._file = open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def rows(self) -> Iterator[Any]:
        """The rows so far. What a kill left after the last complete line is cut off, and logged."""
        self.cut_torn_line()
        yield from read_lines(self._path)

    def cut_torn_line(self) -> None:
        """Cut off what a kill left after the last complete line, and log it."""
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            logger.warning("%s: the last line is torn and is left out", self._path)
            os.ftruncate(self._file, whole)

    def keep(self, wanted: Callable[[Any], bool]) -> None:
        """Leave out the rows that are not wanted, in one step; raises DiskFull."""
        rows = (row for row in read_lines(self._path) if wanted(row))
        write_whole(self._path, to_lines(rows), private=True)
        os.close(self._file)
        self._file = open_private(self._path, os.O_RDWR | os.O_APPEND)

    def append(self, row: Any) -> None:
        """Write one row; raises DiskFull, and then nothing of it is kept."""
        line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
        size = os.fstat(self._file).st_size
        with write_errors(self._path):
            try:
                written = 0
                while written < len(line):
                    written += os.write(self._file, line[written:])
            except OSError:
                os.ftruncate(self._file, size)
                raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def open_private(path: str | Path, flags: int) -> int:
    """A descriptor of a file that only its owner may read, from now on; a symbolic link is not followed."""
    file = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    with suppress(PermissionError):  # somebody else's
        os.fchmod(file, 0o600)
    return file


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, so that only its owner may enter; one that is there stays."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of a file, which a kill frees; raises Conflict when another process holds it."""
    with write_errors(path):
        private_folder(path.parent)
        file = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Conflict(f"{what} is being worked on", hint="wait for the other process") from None
    finally:
        os.close(file)


def to_lines(rows: Iterable[Any]) -> Iterator[bytes]:
    """Rows as JSON Lines, one by one."""
    return (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def numbered_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[int, bytes]]:
    """Lines with their ends, counted from 1, without the byte order mark with which a file may begin.

    Raises TooLarge for a line of more than ``longest`` bytes; -1: any length.
    """
    with path.open("rb") as file:
        number = 0
        while line := file.readline(longest):
            number += 1
            if len(line) == longest and line[-1:] != b"\n":
                what = f"the line is longer than {longest:,} bytes"
                raise TooLarge(what, where=f"{path}:{number}", hint="is every row on a line of its own?")
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def read_lines(path: Path) -> Iterator[Any]:
    """Rows of a JSON Lines file that ``to_lines`` made; raises BadData for a damaged line."""
    for number, line in numbered_lines(path, longest=-1):
        if line.isspace():
            continue
        try:
            yield orjson.loads(line)
        except ValueError as error:
            raise BadData([f"{path}:{number}: not JSON ({error})"], hint="the run's folder is damaged") from None
