"""Lines of a TREC file as columns, read block by block; a line that does not fit is refused with its number.

Tidy blocks (a single blank between the fields) are cut with a few operations on whole arrays. Any other block is made tidy
first, line by line, so that there is one way in which values are read.
"""

from __future__ import annotations

import codecs
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ragassay.errors import BadData, BadInput
from ragassay.limits import LARGEST_GRADE
from ragassay.trec.numbers import PAD, Array, Indexes, Text, Words, number, numbers

BLOCK = 1 << 20  # bytes: so many lines that calling numpy costs little, so few that arrays stay in a core's cache
LONGEST_ID = 1024
LONGEST_TREC_LINE = 1 << 20  # bytes
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_BLANK_LINES = re.compile(rb"\n\n+")
_NEWLINE = ord("\n")
_GZIP = b"\x1f\x8b"


class Layout(NamedTuple):
    """What the fields of a line are: how many, and which holds the number."""

    name: str
    fields: int
    number: int

    def problem(self, line: bytes) -> str | None:
        """What is wrong with a line, if anything is."""
        fields = line.split()
        if len(fields) != self.fields:
            kind = "qid iter docid rel" if self is QRELS else "qid Q0 docid rank score tag"
            return f"{len(fields)} fields where {self.fields} are expected ({kind})"
        if _CONTROL.search(line):
            return "a control character"
        if max(len(fields[0]), len(fields[2])) > LONGEST_ID:
            return f"an id of more than {LONGEST_ID} bytes"
        try:
            fields[0].decode()
        except UnicodeDecodeError:
            return "the query id is not UTF-8"
        token = fields[self.number]
        value, shown = number(token), token[:40].decode(errors="replace")
        if self is RUN:
            return None if np.isfinite(value) else f"the score {shown!r} is not a finite number"
        if value != value or value != int(value) or abs(value) > LARGEST_GRADE:
            return f"the grade {shown!r} is not a whole number from -{LARGEST_GRADE} to {LARGEST_GRADE}"
        return None


QRELS, RUN = Layout("qrels", 4, 3), Layout("run", 6, 4)


class TrecFile(NamedTuple):
    """A file to read from any place: a plain one where it lies, a compressed one or a pipe from memory.

    ``original`` is the file whose lines these are in another order; it is what errors point into.
    """

    path: str
    layout: Layout
    size: int
    begin: int = 0
    content: bytes | None = None
    original: TrecFile | None = None

    @classmethod
    def of(cls, path: str, layout: Layout) -> TrecFile:
        """Raises BadInput where there is no such file, where it can't be read, or where it is empty.

        Raises TooLarge where a compressed file, or a pipe, holds more than is kept in memory.
        """
        try:
            with io.BufferedReader(io.FileIO(path)) as file:
                plain = file.seekable()
                head = file.read(3)
                content = None if plain and not head.startswith(_GZIP) else _in_memory(path, head, file)
                size = file.seek(0, io.SEEK_END) if content is None else 0
            if content is not None:
                head, size = content[:3], len(content)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise BadInput(f"the {layout.name} file can't be read: {reason}", where=path) from None
        begin = len(codecs.BOM_UTF8) if head == codecs.BOM_UTF8 else 0
        if begin == size:
            raise BadInput(f"the {layout.name} file is empty", where=path)
        return cls(path, layout, size, begin, content)

    def open(self) -> io.BufferedReader | io.BytesIO:
        """A reader of its own for each piece."""
        return io.BufferedReader(io.FileIO(self.path)) if self.content is None else io.BytesIO(self.content)

    def pieces(self, size: int) -> list[tuple[int, int]]:
        """Spans of about ``size`` bytes that begin where the query changes."""
        bounds = [self.begin]
        with self.open() as file:
            while bounds[-1] + size < self.size:
                bounds.append(self._cut(file, bounds[-1] + size))
        return list(pairwise(dict.fromkeys([*bounds, self.size])))

    def _cut(self, file: io.BufferedReader | io.BytesIO, place: int) -> int:
        file.seek(place)
        place += len(file.readline(LONGEST_TREC_LINE))
        last: list[bytes] | None = None
        for line in iter(partial(file.readline, LONGEST_TREC_LINE), b""):  # a longer line is refused by who reads it
            if line.strip() and line.split(None, 1)[:1] != (last := last or line.split(None, 1)[:1]):
                break
            place += len(line)
        return place

    def refuse(self, begin: int, raw: bytearray) -> NoReturn:
        """Raise BadData for the first line of ``raw``, which stands at ``begin``, that does not fit."""
        if self.original:
            with self.original.open() as file:
                self.original.refuse(0, bytearray(file.read().removeprefix(codecs.BOM_UTF8)))
        with self.open() as file:
            file.seek(self.begin)
            first, left = 1, begin - self.begin
            while left > 0 and (block := file.read(min(left, 1 << 20))):
                first, left = first + block.count(b"\n"), left - len(block)
        for line, text in enumerate(raw.split(b"\n"), first):
            if text.strip() and (problem := self.layout.problem(bytes(text))):
                raise BadData([f"{self.path}:{line}: {problem}"])
        if len(raw) - raw.rfind(b"\n") > LONGEST_TREC_LINE:
            raise BadData([f"{self.path}:{line}: a line of more than {LONGEST_TREC_LINE:,} bytes"])
        raise BadData([f"{self.path}:{first}: can't be read"])

    def lines_of(self, query: bytes, document: bytes) -> list[int]:
        """The numbers of the lines about a document for a query."""
        written = self.original or self
        with written.open() as file:
            file.seek(written.begin)
            return [n for n, line in enumerate(file, 1) if line.split()[0:3:2] == [query, document]]


def _in_memory(path: str, head: bytes, file: io.BufferedIOBase) -> bytes:
    """All that ``head`` and the rest of a compressed file, or of a pipe, hold; raises TooLarge."""
    import gzip

    from ragassay.files import LARGEST_UNPACKED, most_unpacked, too_large_unpacked

    def whole(read: Callable[[int], bytes], limit: int, *begin: bytes) -> bytes:
        blocks, size = list(begin), 0
        for block in iter(partial(read, LONGEST_TREC_LINE), b""):
            blocks.append(block)
            size += len(block)
            if size > limit:
                raise too_large_unpacked(path, limit)
        return b"".join(blocks)

    content = whole(file.read, LARGEST_UNPACKED, head)
    if not head.startswith(_GZIP):
        return content
    with gzip.open(io.BytesIO(content)) as packed:
        return whole(packed.read, most_unpacked(len(content)))


@dataclass(frozen=True)
class Ids:
    """Ids as 64-bit words, first characters first, padded with zeros: equal words are equal ids."""

    words: list[Words]

    @classmethod
    def of(cls, text: Text, start: Indexes, length: Indexes) -> Ids:
        """The ids of these lengths in bytes that stand from ``start`` on."""
        longest, shortest, words = int(length.max(initial=0)), int(length.min(initial=LONGEST_ID)), list[Words]()
        for done in range(0, longest, 8):
            word = text.words[start if not done else np.minimum(start + done, len(text.words) - 1)]
            if shortest < min(longest, done + 8):
                short = 8 * (done + 8 - length)  # shifting by 64 bits or more leaves nothing
                beyond = (short if longest <= done + 8 else np.maximum(short, 0)).view(np.uint64)
                word = (word << beyond) >> beyond
            elif shortest < done + 8:
                word &= np.uint64((1 << 8 * (shortest - done)) - 1)
            words.append(word)
        return cls(words)

    def __getitem__(self, rows: Indexes | NDArray[np.int32] | slice) -> Ids:
        return Ids([word[rows] for word in self.words])

    @classmethod
    def joined(cls, parts: Sequence[Ids]) -> Ids:
        """The ids of all parts, one after another."""
        columns = zip_longest(*(part.words for part in parts))
        lengths = [len(part.words[0]) for part in parts]
        return cls(
            [
                np.concatenate(
                    [np.zeros(n, np.uint64) if w is None else w for w, n in zip(column, lengths, strict=True)]
                )
                for column in columns
            ]
        )

    def equal(self, other: Ids) -> NDArray[np.bool_]:
        """Where the two have the same id."""
        zero = np.uint64(0)
        same = np.ones(len(self.words[0]), np.bool_)
        for one, two in zip_longest(self.words, other.words, fillvalue=zero):
            same &= one == two
        return same

    def text(self, row: int) -> bytes:
        """The id of a row."""
        return b"".join(word[row : row + 1].astype("<u8").tobytes() for word in self.words).rstrip(b"\0")

    def changes(self) -> Indexes:
        """The rows whose id is not that of the row before, the first row among them."""
        changed = np.ones(len(self.words[0]), np.bool_)
        changed[1:] = self.words[0][1:] != self.words[0][:-1]
        for word in self.words[1:]:
            changed[1:] |= word[1:] != word[:-1]
        return np.flatnonzero(changed)


class Lines(NamedTuple):
    """Consecutive lines as columns. ``first``: the lines at which the query changes; ``queries``: its id at each."""

    queries: list[bytes]
    first: Indexes
    documents: Ids
    values: Array

    @property
    def lengths(self) -> Indexes:
        """Lines from each change to the next."""
        return np.diff(self.first, append=len(self.values))


def read(trec_file: TrecFile, begin: int, end: int) -> Iterator[Lines]:
    """The lines between two places, block by block; a query whose lines stand together is never cut in two."""
    room = bytearray(PAD + min(BLOCK, end - begin) + PAD)
    with trec_file.open() as file:
        while begin < end:
            file.seek(begin)
            got = file.readinto(memoryview(room)[PAD : PAD + min(len(room) - 2 * PAD, end - begin)])
            if not got:
                break
            last = begin + got >= end
            stop = PAD + got if last else room.rfind(b"\n", PAD, PAD + got) + 1
            if last and room[stop - 1] != _NEWLINE:
                room[stop] = _NEWLINE
                stop += 1
            if not last and PAD + got - stop > LONGEST_TREC_LINE:
                trec_file.refuse(begin, room[PAD : PAD + got])
            lines, used = _block(trec_file, room, stop, begin, whole=last) if stop > PAD else (None, 0)
            if lines:
                yield lines
            begin += used
            room = room if used else bytearray(2 * len(room))


def _block(trec_file: TrecFile, room: bytearray, stop: int, begin: int, *, whole: bool) -> tuple[Lines | None, int]:
    """The lines of a block and the bytes that they took: all of a ``whole`` one, else all but the last query's."""
    raw, text, used = room, Text.of(room), stop - PAD
    ends = _separators(text, stop, trec_file.layout.fields)
    if ends is None:
        used = used if whole else _last_query(room, stop)
        whole, raw = True, room[PAD : PAD + used]
        text, ends = _tidied(raw, trec_file.layout.fields)
        if ends is None:
            trec_file.refuse(begin, raw)
        if not len(ends):
            return None, used
    start = np.empty(len(ends), np.int64)
    start[1:], start[0] = ends[:-1, -1] + 1, PAD
    named, document = ends[:, 0] - start, ends[:, 1] + 1
    length = ends[:, 2] - document
    bad = max(int(named.max()), int(length.max())) > LONGEST_ID
    if not bad:
        first = Ids.of(text, start, named).changes()
        if not whole:
            kept = int(first[-1])
            if not kept:
                return None, 0
            used = int(start[kept]) - PAD
            first, ends, document, length = first[:-1], ends[:kept], document[:kept], length[:kept]
        at = trec_file.layout.number
        values, wrong = numbers(text, ends[:, at - 1] + 1, ends[:, at])
        names = [bytes(text.buffer[a:b]) for a, b in zip(start[first].tolist(), ends[first, 0].tolist(), strict=True)]
        bad = len(wrong) > 0 or not _readable(names) or (trec_file.layout is QRELS and not _grades(values))
    if bad:
        trec_file.refuse(begin, room[PAD : PAD + used] if raw is room else raw)
    return Lines(names, first, Ids.of(text, document, length), values), used


def _grades(values: Array) -> bool:
    return bool((values == np.trunc(values)).all() and (np.abs(values) <= LARGEST_GRADE).all())


def _readable(names: list[bytes]) -> bool:
    try:
        b"\n".join(names).decode()
    except UnicodeDecodeError:
        return False
    return True


def _separators(text: Text, stop: int, fields: int) -> Indexes | None:
    """Where each field of each line ends, shape (lines, fields); None unless single blanks or tabs part the fields."""
    block = text.bytes[PAD:stop]
    blank = block <= ord(" ")
    if blank[0] or (blank[1:] & blank[:-1]).any():
        return None
    ends = np.flatnonzero(blank)
    lines = len(ends) // fields
    if len(ends) % fields or np.count_nonzero(block == _NEWLINE) != lines:
        return None
    parting = len(ends) - np.count_nonzero(block == ord(" ")) - lines
    if parting and parting != np.count_nonzero(block == ord("\t")):
        return None
    ends += PAD
    table: Indexes = ends.reshape(lines, fields)
    return table if (text.bytes[table[:, -1]] == _NEWLINE).all() else None


def _tidied(raw: bytearray, fields: int) -> tuple[Text, Indexes | None]:
    """The same lines with single blanks, and where their fields end; None where a line does not fit."""
    for tidy in (
        lambda: raw.replace(b"\r\n", b"\n"),
        lambda: b"\n".join(b" ".join(x.split()) for x in raw.split(b"\n")),
    ):
        body = _BLANK_LINES.sub(b"\n", tidy().strip())
        room = bytearray(PAD) + body + b"\n" + bytearray(PAD)
        text = Text.of(room)
        ends = _separators(text, len(room) - PAD, fields) if body else np.empty((0, fields), np.int64)
        if ends is not None:
            break
    return text, ends


def _last_query(room: bytearray, stop: int) -> int:
    """Bytes before the first line of the last query; 0 when there is no other."""
    end, query = stop, None
    while end > PAD:
        begin = room.rfind(b"\n", PAD, end - 1) + 1 or PAD
        line = room[begin:end].split(None, 1)
        if line and query is not None and line[0] != query:
            return end - PAD
        query = line[0] if line else query
        end = begin
    return 0
