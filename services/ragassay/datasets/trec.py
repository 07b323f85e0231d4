"""TREC qrels and runs, read with numpy: which judged documents a run retrieved, and at which rank.

A file is read in blocks of whole lists, each as an array of bytes: the fields of its lines are found, hashed and read as
numbers for all lines at once. If lists are apart, lines are put together by query first; if that does not help, each line
is checked.
"""

from __future__ import annotations

import codecs
import gzip
import io
import math
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import BadData, BadInput
from ragassay.core.grades import LARGEST_GRADE

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
Hashes: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

QRELS, RUN = ("query", "iteration", "document", "grade"), ("query", "Q0", "document", "rank", "score", "tag")
BLOCK = 1 << 20  # bytes whose arrays fit into a core's cache
_AHEAD = 16  # blocks that are read before the first of them is done
_PADDING = b" " * 24  # so that three words can be read from the first byte of every number
_GZIP = b"\x1f\x8b"
_NEWLINE, _SPACE, _TAB, _MINUS = (np.uint8(ord(c)) for c in "\n \t-")
_ODD, _OTHER_ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_MAX_DIGITS = 19  # of a number that fits into 64 bits
_POWERS: Numbers = np.array([float(10**n) for n in range(_MAX_DIGITS + 1)])
_WHOLE_POWERS = _POWERS.astype(np.uint64)
_EXACT = np.uint64(1 << 53)  # up to here, float64 has every whole number
# 8 characters as one word of 64 bits, the first of them in its lowest byte
_EACH = np.uint64(0x0101010101010101)
_ZEROS, _DOTS = np.uint64(ord("0")) * _EACH, np.uint64(ord(".") ^ ord("0")) * _EACH
_HIGH_BITS, _TO_HIGH_BIT = np.uint64(0x80) * _EACH, np.uint64(0x80 - 10) * _EACH
_BEHIND_DOT = np.uint64(sum(8 - n << 60 - 8 * n for n in range(8)))  # 1 more than the digits behind a dot in byte n
_HALVES = [  # two digits, then four, then eight as one number: what its first half counts, bits of it, those of each number
    (np.uint64(10), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000), np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
]


class Retrieved(NamedTuple):
    """Documents that a run retrieved for the judged queries.

    ``judgments``: grades, query by query, those of query ``n`` from ``offsets[n]`` to ``offsets[n + 1]``; ``lengths``:
    documents for each query, 0 if the run lacks it; ``rows``, ``ranks`` (from 0) and ``grades`` of the judged documents
    among them, query by query; ``unjudged``: number of the run's queries without judgments.
    """

    queries: list[str]
    judgments: Numbers
    offsets: Integers
    lengths: Integers
    rows: Integers
    ranks: Integers
    grades: Numbers
    unjudged: int

    def tables(self, begin: int, end: int, depth: int | None = None) -> tuple[Numbers, Numbers, Integers]:
        """Grades in rank order (down to ``depth``), all judged grades, and list lengths, of some of the queries.

        The first two have a row per query and NaN where there is no grade.
        """
        lengths, offsets = self.lengths[begin:end], self.offsets[begin : end + 1]
        deepest = int(lengths.max(initial=0))
        deepest = deepest if depth is None else min(depth, deepest)
        first, last = np.searchsorted(self.rows, [begin, end])
        kept = first + np.flatnonzero(self.ranks[first:last] < deepest)
        grades = np.full((len(lengths), deepest), np.nan)
        grades[self.rows[kept] - begin, self.ranks[kept]] = self.grades[kept]
        judged = np.diff(offsets)[:, None]
        everything = np.full((len(lengths), int(judged.max(initial=0))), np.nan)
        everything[np.arange(everything.shape[1]) < judged] = self.judgments[offsets[0] : offsets[-1]]
        return grades, everything, lengths


class _Lists(NamedTuple):
    """Lines of a file: the query of each list of consecutive lines, the list's first line and its length; for each line a
    hash of its document, a key of list and document, and its number. Those of a run are in order of rank.
    """

    queries: list[str]
    begins: Integers
    lengths: Integers
    documents: Hashes
    keys: Hashes
    numbers: Numbers


class _Found(NamedTuple):
    """Query and length of each list of a block of a run; row, rank and grade of each judged document."""

    queries: list[str]
    lengths: Integers
    rows: Integers
    ranks: Integers
    grades: Numbers


class _Untidy(Exception):
    """Some line does not fit, a query's lines are apart, or a document is there twice."""


def read_retrieved(qrels: str, run: str) -> Retrieved:
    """The documents that ``run`` retrieved under the judgments of ``qrels``; both plain or compressed with gzip.

    Documents are ranked by score, descending, compared as float64 (trec_eval: float32), ties by id, descending in the
    order of its bytes, as trec_eval does; the rank field is not read. Documents of a query are told apart by a 64-bit
    hash, one to one for ids of up to 8 bytes. A judgment that is repeated counts once. Raises BadInput for a file that is
    missing or empty, and BadData with file and line for a line that does not fit, a document judged twice with different
    grades, and one that a query retrieves twice.
    """
    judged = _read(qrels, QRELS, _Judged)
    return _read(run, RUN, judged.retrieved)


def _read(path: str, columns: tuple[str, ...], read: Callable[[BinaryIO], T]) -> T:
    """What ``read`` makes of the file: as it is, else with the lines of each query together, else checked line by line."""
    try:
        with _opened(path) as file:
            try:
                return read(file)
            except _Untidy:
                file.seek(0)
            try:
                return read(_by_query(file))
            except _Untidy:
                file.seek(0)
            try:
                return read(_tidied(path, file, columns))
            except _Untidy:
                what = "two documents have ids of the same 64-bit hash, so they can't be told apart"
                raise BadInput(what, where=path, hint="rename one, or split the file") from None
    except (OSError, EOFError, zlib.error) as error:
        what, reason = "qrels" if columns is QRELS else "run", getattr(error, "strerror", None) or str(error)
        raise BadInput(f"the {what} file can't be read: {reason}", where=path) from None


class _Judged:
    """Judgments, to look up those of a run. Raises _Untidy."""

    def __init__(self, file: BinaryIO) -> None:
        blocks = list(_of_blocks(file, lambda block: _lists(block, QRELS)))
        self.queries = [query for block in blocks for query in block.queries]
        self.row_of = {query: row for row, query in enumerate(self.queries)}
        if not blocks or len(self.row_of) < len(self.queries):
            raise _Untidy
        self.offsets = np.cumsum(np.concatenate([[0], *(block.lengths for block in blocks)]))
        self.documents = np.concatenate([block.documents for block in blocks])
        self.grades = np.concatenate([block.numbers for block in blocks])
        if not _are_grades(self.grades):
            raise _Untidy

    def retrieved(self, file: BinaryIO) -> Retrieved:
        """The judged documents among those that a run retrieved. Raises _Untidy."""
        blocks = list(_of_blocks(file, self._found))
        names = [query for block in blocks for query in block.queries]
        if not blocks or len(set(names)) < len(names):
            raise _Untidy
        rows = np.array([self.row_of.get(name, -1) for name in names])
        lengths = np.zeros(len(self.queries), np.int64)
        lengths[rows[rows >= 0]] = np.concatenate([block.lengths for block in blocks])[rows >= 0]
        hits = [np.concatenate(columns) for columns in zip(*(block[2:] for block in blocks), strict=True)]
        by_row = np.argsort(hits[0], kind="stable")
        row, rank, grade = (column[by_row] for column in hits)
        return Retrieved(self.queries, self.grades, self.offsets, lengths, row, rank, grade, int((rows < 0).sum()))

    def _found(self, block: memoryview) -> _Found:
        lists = _lists(block, RUN)
        rows = np.array([self.row_of.get(query, -1) for query in lists.queries])
        known = np.flatnonzero(rows >= 0)
        begins, ends = self.offsets[rows[known]], self.offsets[rows[known] + 1]
        counts = ends - begins
        judgments = np.repeat(ends - np.cumsum(counts), counts) + np.arange(counts.sum())
        judged = self.documents[judgments] ^ np.repeat(known.astype(np.uint64) * _ODD, counts)
        order = np.argsort(judged)
        judged, judgments = judged[order], judgments[order]
        # a table by the first bits of a key, in which a document that isn't judged is seldom marked
        bits = len(judged).bit_length() + 4
        marked = np.zeros(1 << bits, bool)
        marked[_first_bits(judged, bits)] = True
        lines = np.flatnonzero(marked[_first_bits(lists.keys, bits)])
        places = np.minimum(np.searchsorted(judged, lists.keys[lines]), len(judged) - 1)
        same = judged[places] == lists.keys[lines]
        lines, judgments = lines[same], judgments[places[same]]
        of_list = np.searchsorted(lists.begins, lines, side="right") - 1
        return _Found(
            lists.queries, lists.lengths, rows[of_list], lines - lists.begins[of_list], self.grades[judgments]
        )


def _first_bits(keys: Hashes, bits: int) -> Integers:
    """Places of the keys in a table of so many bits; keys are spread evenly."""
    return (keys >> np.uint64(64 - bits)).view(np.int64)


def _has_repeats(keys: Hashes) -> bool:
    """Is a key there twice? Only those that share their place in a table are compared."""
    bits = len(keys).bit_length() + 3
    table, lines = np.empty(1 << bits, np.int32), np.arange(len(keys), dtype=np.int32)
    places = _first_bits(keys, bits)
    table[places] = lines
    kept = table[places]
    lost = np.flatnonzero(kept != lines)
    others = np.sort(keys[lost])
    return bool((keys[lost] == keys[kept[lost]]).any() or (others[1:] == others[:-1]).any())


def _are_grades(numbers: Numbers) -> bool:
    return bool(((numbers == np.floor(numbers)) & (np.abs(numbers) <= LARGEST_GRADE)).all())


def _of_blocks(file: BinaryIO, parse: Callable[[memoryview], T]) -> Iterator[T]:
    """What ``parse`` makes of each block of the file, several at a time."""
    blocks = _blocks(file)
    first = list(islice(blocks, 2))
    if len(first) < 2:
        yield from map(parse, first)
        return
    from concurrent.futures import ThreadPoolExecutor

    pending: deque[Future[T]] = deque()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for block in chain(first, blocks):
            pending.append(threads.submit(parse, block))
            if len(pending) > _AHEAD:
                yield pending.popleft().result()
        yield from (future.result() for future in pending)


def _blocks(file: BinaryIO) -> Iterator[memoryview]:
    """Parts of the file that each hold whole lists, if the lines of a query are together."""
    rest = b""
    while read := file.read(max(BLOCK, len(rest))):
        block = rest + read
        end = _end_of_lists(block)
        if end:
            yield memoryview(block)[:end]
        rest = block[end:]
    if rest := rest.rstrip():
        yield memoryview(rest + b"\n")


def _end_of_lists(block: bytes) -> int:
    """Where the last list of a block begins, which may go on behind it."""
    end = block.rfind(b"\n")
    last_line = block.rfind(b"\n", 0, max(end, 0)) + 1
    query = block[last_line:end].split(maxsplit=1)[:1]
    if last_line == 0 or not query:
        return 0
    opening = block[last_line : last_line + len(query[0]) + 1]  # the id, and the blank behind it
    begin = before = last_line
    while begin and block.startswith(opening, before):
        begin, before = before, block.rfind(b"\n", 0, max(before - 1, 0)) + 1
    return begin


def _lists(block: memoryview, columns: tuple[str, ...]) -> _Lists:
    """The lists of some lines. Raises _Untidy."""
    padded = b"".join((b" ", block, _PADDING))
    if 0 in padded:
        raise _Untidy
    if not padded.isascii():
        try:
            padded.decode()
        except UnicodeDecodeError:
            raise _Untidy from None
    begun = np.frombuffer(padded, np.uint8)
    filled = (begun - _TAB > 4) & (begun != _SPACE)  # by what bytes.isspace calls blank
    text, edges = begun[1:], np.flatnonzero(filled[1:] != filled[:-1])  # where a field begins or ends
    width, count = 2 * len(columns), int(np.count_nonzero(begun == _NEWLINE))
    if len(edges) != width * count or not _end_lines(text, edges[width - 1 :: width]):
        raise _Untidy
    words = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))  # the 8 bytes from each place on
    query, document, number = (
        (edges[2 * n :: width].copy(), edges[2 * n + 1 :: width].copy())
        for n in (0, columns.index("document"), columns.index("grade" if columns is QRELS else "score"))
    )
    queries, documents = _packed(words, *query), _mixed(_packed(words, *document))
    numbers = _numbers(text, words, *number)
    heads = np.flatnonzero(np.concatenate(([True], queries[1:] != queries[:-1])))
    lengths = np.diff(heads, append=count)
    keys = documents ^ np.repeat(np.arange(len(heads), dtype=np.uint64) * _ODD, lengths)
    if _has_repeats(keys):
        raise _Untidy
    if columns is RUN:
        falls = numbers[1:] < numbers[:-1]
        falls[heads[1:] - 1] = True
        if not falls.all():
            order = _rank_order(text, words, document, numbers, np.repeat(np.arange(len(heads)), lengths))
            documents, keys, numbers = documents[order], keys[order], numbers[order]
    ids = zip(*(places[heads].tolist() for places in query), strict=True)
    names = [str(block[begin:end], "utf-8") for begin, end in ids]
    return _Lists(names, heads, lengths, documents, keys, numbers)


def _end_lines(text: NDArray[np.uint8], ends: Integers) -> bool:
    """Is each of the ends that of a line, but for one blank?"""
    at_end = text[ends] == _NEWLINE
    return bool(at_end.all() or (at_end | (text[ends + 1] == _NEWLINE)).all())


def _rank_order(
    text: NDArray[np.uint8], words: Hashes, document: tuple[Integers, Integers], scores: Numbers, of_list: Integers
) -> Integers:
    """The lines of each list by score, descending, ties by document id, descending."""
    begins, ends = document
    bits = _shifts(np.minimum(ends - begins, 8))
    firsts = (words[begins] << bits >> bits).byteswap()  # of the id's bytes, in their order
    order = np.lexsort((~firsts, -scores, of_list))
    ties = np.ones(len(order) - 1, bool)
    for column in (of_list, scores, firsts):
        ties &= column[order][1:] == column[order][:-1]
    edges = np.flatnonzero(np.diff(ties, prepend=False, append=False)).tolist()
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        tied = order[first : last + 1].tolist()
        ids = {line: text[begins[line] : ends[line]].tobytes() for line in tied}
        order[first : last + 1] = sorted(tied, key=ids.__getitem__, reverse=True)
    return order


def _packed(words: Hashes, begins: Integers, ends: Integers) -> Hashes:
    """The bytes of each field, if it has up to 8, else a hash of them."""
    lengths = ends - begins
    packed = words[begins] << _shifts(np.minimum(lengths, 8))
    at, longer = 8, np.flatnonzero(lengths > 8)
    while len(longer):
        left = lengths[longer] - at
        packed[longer] = _mixed(packed[longer]) + (words[begins[longer] + at] << _shifts(np.minimum(left, 8)))
        at, longer = at + 8, longer[left > 8]
    return packed


def _shifts(lengths: Integers) -> Hashes:
    """Bits by which a word is shifted, so that its first bytes alone are left."""
    return (64 - 8 * lengths).view(np.uint64)


def _mixed(words: Hashes) -> Hashes:
    """A permutation of the 64-bit words in which each bit depends on all."""
    mixed = words * _ODD
    mixed ^= mixed >> np.uint64(32)
    mixed *= _OTHER_ODD
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _numbers(text: NDArray[np.uint8], words: Hashes, begins: Integers, ends: Integers) -> Numbers:
    """The number in each field, as ``float`` reads it. Raises _Untidy."""
    negative = text[begins] == _MINUS
    firsts = begins + negative
    lengths = ends - firsts
    whole, behind, plain = _digits(words, firsts, np.minimum(lengths, 8))
    for at in (8, 16):
        if not len(longer := np.flatnonzero(lengths > at)):
            break
        left = np.minimum(lengths[longer] - at, 8)
        more, more_behind, fits = _digits(words, firsts[longer] + at, left)
        seen, here = behind[longer] >= 0, more_behind >= 0
        whole[longer] = whole[longer] * _WHOLE_POWERS[left - here] + more
        behind[longer] = np.where(seen, behind[longer] + left, more_behind)
        plain[longer] &= fits & ~(seen & here)
    digits = lengths - (behind >= 0)
    plain &= (digits > 0) & (digits <= _MAX_DIGITS)
    others = np.flatnonzero(~plain)
    whole[others] = behind[others] = 0
    numbers, certain = _quotients(whole, _POWERS[np.maximum(behind, 0)])
    numbers[negative] *= -1
    for line in np.flatnonzero(~(plain & certain)).tolist():
        field = text[begins[line] : ends[line]].tobytes()
        try:
            numbers[line] = math.nan if b"_" in field else float(field)
        except ValueError:
            raise _Untidy from None
        if not math.isfinite(numbers[line]):
            raise _Untidy
    return numbers


def _digits(words: Hashes, begins: Integers, lengths: Integers) -> tuple[Hashes, Integers, Mask]:
    """The digits of up to 8 characters as one number, how many are behind a dot (-1: no dot), and is there no more?

    All bytes of a word are treated at once: ``^ _ZEROS`` makes 0 to 9 of the digits and 0x1E of a dot.
    """
    digits = (words[begins] ^ _ZEROS) << _shifts(lengths)  # zeros, then the characters
    other = digits ^ _DOTS
    dot = (other - _EACH & ~other) >> np.uint64(7) & _EACH  # 1 in the byte of the first dot
    before = digits & dot - np.uint64(1)
    digits = np.where(dot, before << np.uint64(8) | digits & -(dot << np.uint64(8)), digits)
    plain = (digits | digits + _TO_HIGH_BIT) & _HIGH_BITS == 0
    for power, bits, mask in _HALVES:
        digits = digits * power + (digits >> bits) & mask
    behind = (dot * _BEHIND_DOT >> np.uint64(60)).view(np.int64) - 1
    return digits, behind, plain


def _quotients(whole: Hashes, powers: Numbers) -> tuple[Numbers, Mask]:
    """The nearest float64 to each quotient; False where two may be equally near."""
    rounded = whole.astype(np.float64)
    quotients = rounded / powers
    if not (whole > _EXACT).any():
        return quotients, np.ones(len(whole), bool)
    rest = rounded - quotients * powers
    # what rounding the product took (Dekker)
    (high, low), (high_power, low_power) = _halves(quotients), _halves(powers)
    rest -= high * high_power - quotients * powers + high * low_power + low * high_power + low * low_power
    # what rounding ``whole`` took
    rest += (whole - rounded.astype(np.uint64)).view(np.int64)
    rest /= powers
    nearest = quotients + rest
    # in units of the last place: a half in the middle of two numbers, a quarter at a power of 2
    distance = np.abs(rest - (nearest - quotients)) / np.spacing(nearest)
    return nearest, (np.abs(distance - 0.5) > 1e-9) & (np.abs(distance - 0.25) > 1e-9)


def _halves(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Two numbers of 26 bits each, the sum of which is the number."""
    scaled = numbers * 134217729.0  # 2 ** 27 + 1
    high = scaled - (scaled - numbers)
    return high, numbers - high


def _by_query(file: BinaryIO) -> BinaryIO:
    """The same lines, query by query, without empty ones."""
    lines: dict[bytes, list[bytes]] = {}
    for line in file:
        for query in line.split(maxsplit=1)[:1]:
            lines.setdefault(query, []).append(line.rstrip())
    return io.BytesIO(b"\n".join(line for of_query in lines.values() for line in of_query))


def _tidied(path: str, file: BinaryIO, columns: tuple[str, ...]) -> BinaryIO:
    """The same lines, query by query, and each judgment once. Raises BadData with the first bad line, BadInput."""
    from ragassay.core.validation import shown
    from ragassay.datasets.judgments import qrels_line, run_line
    from ragassay.datasets.source import ValueProblem, undecodable

    first_lines: dict[tuple[str, str], int] = {}
    values: dict[str, dict[str, float]] = {}
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        problem = ""
        try:
            line.decode()
            cells = [cell.decode() for cell in line.split()]
            query, document, value = run_line(cells) if columns is RUN else qrels_line(cells)
        except UnicodeDecodeError as error:
            raise BadData([f"{path}:{number}: {undecodable(error)}"]) from None
        except ValueProblem as error:
            raise BadData([f"{path}:{number}: {error.what}"]) from None
        of_query = values.setdefault(query, {})
        if columns is QRELS and not _are_grades(np.array([value])):
            problem = f"grade: should be a whole number from -{LARGEST_GRADE} to {LARGEST_GRADE}, is {shown(cells[3])}"
        elif document in of_query and (columns is RUN or of_query[document] != value):
            twice = "is there twice" if columns is RUN else "is judged twice, with different grades"
            problem = f"document {document!r} of query {query!r} {twice} (first on line {first_lines[query, document]})"
        elif "\0" in query + document:
            problem = "holds a null character"
        if problem:
            raise BadData([f"{path}:{number}: {problem}"])
        first_lines.setdefault((query, document), number)
        of_query[document] = value
    if not values:
        raise BadInput(f"the {'qrels' if columns is QRELS else 'run'} file is empty", where=path)
    form = "{} 0 {} {!r}\n" if columns is QRELS else "{} Q0 {} 0 {!r} -\n"
    lines = (
        form.format(query, document, value) for query, grades in values.items() for document, value in grades.items()
    )
    return io.BytesIO("".join(lines).encode())


def _opened(path: str) -> BinaryIO:
    """A file that can be read twice, unpacked, without a byte order mark. Raises TooLarge, and what reading it raises."""
    file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    if file.seekable() and not file.peek(3).startswith((_GZIP, codecs.BOM_UTF8)):
        return file
    with file:
        content = file.read()
    if content.startswith(_GZIP):
        from ragassay.datasets.source import max_unpacked, too_large_unpacked

        limit = max_unpacked(len(content))
        with gzip.open(io.BytesIO(content)) as packed:
            content = packed.read(limit + 1)
        if len(content) > limit:
            raise too_large_unpacked(path, limit)
    return io.BytesIO(content.removeprefix(codecs.BOM_UTF8))
