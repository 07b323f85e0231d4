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
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import BadData, BadInput
from ragassay.core.grades import LARGEST_GRADE

T = TypeVar("T")
Hashes: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.float64]

QRELS, RUN = ("query", "iteration", "document", "grade"), ("query", "Q0", "document", "rank", "score", "tag")
BLOCK = 1 << 18  # bytes whose arrays fit into a core's cache
_AHEAD = 16  # blocks that are read before the first of them is done
_GZIP = b"\x1f\x8b"
_NEWLINE, _SPACE, _TAB, _DOT, _MINUS, _ZERO = (np.uint8(ord(c)) for c in "\n \t.-0")
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # masks
_ODD, _OTHER_ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
# of a decimal: a whole number by a power of ten, both of which float64 has exactly, so that their quotient is right
_EXACT_DIGITS = 15
_POWERS = 10.0 ** np.arange(_EXACT_DIGITS + 3)


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
    """Lines of a file: the query of each list of consecutive lines, and the list's length; for each line a hash of its
    document, a key of list and document, and its number. Those of a run are in order of rank.
    """

    queries: list[str]
    lengths: Integers
    documents: Hashes
    keys: Hashes
    numbers: Numbers

    @property
    def begins(self) -> Integers:
        """The first line of each list."""
        return np.cumsum(self.lengths) - self.lengths


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
            return read(_tidied(path, file, columns))
    except (OSError, EOFError, zlib.error) as error:
        what, reason = "qrels" if columns is QRELS else "run", getattr(error, "strerror", None) or str(error)
        raise BadInput(f"the {what} file can't be read: {reason}", where=path) from None


class _Judged:
    """Judgments, to look up those of a run. Raises _Untidy."""

    def __init__(self, file: BinaryIO) -> None:
        blocks = [_lists(block, QRELS) for block in _blocks(file)]
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
        blocks: list[_Found] = []
        pending: deque[Future[_Found]] = deque()
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for block in _blocks(file):
                pending.append(threads.submit(self._found, block))
                if len(pending) > _AHEAD:
                    blocks.append(pending.popleft().result())
            blocks += (future.result() for future in pending)
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

    def _found(self, block: bytes) -> _Found:
        lists = _lists(block, RUN)
        rows = np.array([self.row_of.get(query, -1) for query in lists.queries])
        known = np.flatnonzero(rows >= 0)
        begins, ends = self.offsets[rows[known]], self.offsets[rows[known] + 1]
        counts = ends - begins
        judgments = np.repeat(ends - np.cumsum(counts), counts) + np.arange(counts.sum())
        judged = _keys(self.documents[judgments], np.repeat(known, counts))
        order = np.argsort(judged)
        judged, judgments = judged[order], judgments[order]
        # a table by the first bits of a key, in which a document that isn't judged is seldom marked
        bits = len(judged).bit_length() + 4
        marked = np.zeros(1 << bits, bool)
        marked[judged >> np.uint64(64 - bits)] = True
        lines = np.flatnonzero(marked[lists.keys >> np.uint64(64 - bits)])
        places = np.minimum(np.searchsorted(judged, lists.keys[lines]), len(judged) - 1)
        same = judged[places] == lists.keys[lines]
        lines, judgments = lines[same], judgments[places[same]]
        of_list = np.searchsorted(lists.begins, lines, side="right") - 1
        return _Found(
            lists.queries, lists.lengths, rows[of_list], lines - lists.begins[of_list], self.grades[judgments]
        )


def _keys(documents: Hashes, rows: Integers) -> Hashes:
    """A hash of each document and the row of its query."""
    keys: Hashes = documents ^ (rows.astype(np.uint64) * _ODD)
    return keys


def _has_repeats(keys: Hashes) -> bool:
    halves = np.sort((keys >> np.uint64(32)).astype(np.uint32))  # half the bytes, in half the time
    if not (halves[1:] == halves[:-1]).any():
        return False
    keys = np.sort(keys)
    return bool((keys[1:] == keys[:-1]).any())


def _are_grades(numbers: Numbers) -> bool:
    return bool(((numbers == np.floor(numbers)) & (np.abs(numbers) <= LARGEST_GRADE)).all())


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Parts of the file that each hold whole lists, if the lines of a query are together. Raises _Untidy."""
    rest = b""
    while read := file.read(max(BLOCK, len(rest))):
        block = rest + read
        end = _end_of_lists(block)
        if end:
            yield block[:end]
        rest = block[end:]
    if rest:
        yield rest


def _end_of_lists(block: bytes) -> int:
    """Where the last list of a block begins, which may go on behind it. Raises _Untidy."""
    end = block.rfind(b"\n")
    last_line = block.rfind(b"\n", 0, max(end, 0)) + 1
    query = block[last_line:end].split(maxsplit=1)[:1]
    if last_line == 0 or not query:
        return 0
    opening = block[last_line : last_line + len(query[0]) + 1]  # the id, and the blank behind it
    begin = 0 if block.startswith(opening) else block.find(b"\n" + opening) + 1
    if block.count(b"\n" + opening, begin, end) < block.count(b"\n", begin, end):
        raise _Untidy
    return begin


def _lists(block: bytes, columns: tuple[str, ...]) -> _Lists:
    """The lists of some lines. Raises _Untidy."""
    if 0 in block:
        raise _Untidy
    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            raise _Untidy from None
    padding = b" " * (_EXACT_DIGITS + 2)  # so that so many bytes can be read from every place
    begun = np.frombuffer(b"\n" + block.rstrip() + b"\n" + padding, np.uint8)
    filled = (begun - _TAB > 4) & (begun != _SPACE)  # by what bytes.isspace calls blank
    text, edges = begun[1:], np.flatnonzero(filled[1:] != filled[:-1])
    lines = np.flatnonzero(begun == _NEWLINE) - 1
    width, count = 2 * len(columns), len(lines) - 1
    if (
        len(edges) != width * count
        or (edges[::width] < lines[:-1]).any()
        or (edges[width - 1 :: width] > lines[1:]).any()
    ):
        raise _Untidy
    words = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))  # the 8 bytes from each place on
    query, document, number = (
        (edges[2 * n :: width].copy(), edges[2 * n + 1 :: width].copy())
        for n in (0, columns.index("document"), columns.index("grade" if columns is QRELS else "score"))
    )
    queries, documents, numbers = _hashes(words, *query), _hashes(words, *document), _numbers(text, *number)
    heads = np.flatnonzero(np.concatenate(([True], queries[1:] != queries[:-1])))
    lengths = np.diff(heads, append=count)
    of_list = np.repeat(np.arange(len(heads)), lengths)
    keys = _keys(documents, of_list)
    if _has_repeats(keys):
        raise _Untidy
    if columns is RUN:
        falls = numbers[1:] < numbers[:-1]
        falls[heads[1:] - 1] = True
        if not falls.all():
            order = _rank_order(text, *document, numbers, of_list)
            documents, keys, numbers = documents[order], keys[order], numbers[order]
    ids = zip(*(places[heads].tolist() for places in query), strict=True)
    return _Lists([block[begin:end].decode() for begin, end in ids], lengths, documents, keys, numbers)


def _rank_order(
    text: NDArray[np.uint8], begins: Integers, ends: Integers, scores: Numbers, of_list: Integers
) -> Integers:
    """The lines of each list by score, descending, ties by document id, descending."""
    order = np.lexsort((-scores, of_list))
    ranked = scores[order]
    ties = (ranked[1:] == ranked[:-1]) & (of_list[1:] == of_list[:-1])
    edges = np.flatnonzero(np.diff(ties, prepend=False, append=False)).tolist()
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        tied = order[first : last + 1].tolist()
        ids = {line: text[begins[line] : ends[line]].tobytes() for line in tied}
        order[first : last + 1] = sorted(tied, key=ids.__getitem__, reverse=True)
    return order


def _hashes(words: Hashes, begins: Integers, ends: Integers) -> Hashes:
    """A hash of the bytes of each field."""
    lengths = ends - begins
    hashes = _mixed(words[begins] & _FIRST_BYTES[np.minimum(lengths, 8)])
    at, longer = 8, np.flatnonzero(lengths > 8)
    while len(longer):
        left = lengths[longer] - at
        hashes[longer] = _mixed(hashes[longer] + (words[begins[longer] + at] & _FIRST_BYTES[np.minimum(left, 8)]))
        at, longer = at + 8, longer[left > 8]
    return hashes


def _mixed(words: Hashes) -> Hashes:
    """A permutation of the 64-bit words in which each bit depends on all."""
    mixed = words * _ODD
    mixed ^= mixed >> np.uint64(32)
    mixed *= _OTHER_ODD
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _numbers(text: NDArray[np.uint8], begins: Integers, ends: Integers) -> Numbers:
    """The number in each field, as ``float`` reads it. Raises _Untidy."""
    lengths, whole = np.minimum(ends - begins, 127).astype(np.int8), np.zeros(len(begins), np.int64)
    digits, decimals, dots = np.zeros((3, len(begins)), np.int8)
    negative = text[begins] == _MINUS
    for at in range(min(int(lengths.max()), _EXACT_DIGITS + 2)):
        inside, character = at < lengths, text[begins + at]
        digit = character - _ZERO
        is_digit = (digit < 10) & inside
        whole = np.where(is_digit, 10 * whole + digit, whole)
        digits += is_digit
        decimals += is_digit & (dots > 0)
        dots += (character == _DOT) & inside
    numbers = whole / _POWERS[decimals]
    numbers[negative] *= -1
    plain = (digits > 0) & (digits <= _EXACT_DIGITS) & (dots <= 1) & (digits + dots + negative == lengths)
    for line in np.flatnonzero(~plain).tolist():
        field = text[begins[line] : ends[line]].tobytes()
        try:
            numbers[line] = math.nan if b"_" in field else float(field)
        except ValueError:
            raise _Untidy from None
        if not math.isfinite(numbers[line]):
            raise _Untidy
    return numbers


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
