"""TREC qrels and runs: which judged documents a run retrieved, and at which rank.

That is all that retrieval metrics need, and it is no larger than the judgments, so a run of any size is read once, block by
block, by a process for each processor.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from ragassay.errors import BadData
from ragassay.trec.forks import map_forked
from ragassay.trec.numbers import Array, Indexes, Words
from ragassay.trec.reader import QRELS, RUN, Ids, Lines, TrecFile, read

PIECE = 1 << 22  # bytes that a process takes at a time
AT_ONCE = 1 << 15  # judgments that are compared at a time
_ODD = 0x9E3779B97F4A7C15


class Qrels(NamedTuple):
    """Judgments, query by query: those of query ``n`` stand from ``offsets[n]`` to ``offsets[n + 1]``."""

    queries: list[bytes]
    offsets: Indexes
    documents: Ids
    grades: Array


class Retrieved(NamedTuple):
    """What a run retrieved for the queries of ``qrels``.

    ``lengths``: documents for each query, 0 where the run lacks it; ``rows``, ``ranks`` (from 0) and ``grades`` of the judged
    documents among them, ordered by row; ``unjudged``: number of the run's queries without judgments.
    """

    qrels: Qrels
    lengths: Indexes
    rows: Indexes
    ranks: Indexes
    grades: Array
    unjudged: int

    def tables(self, begin: int, end: int, depth: int | None = None) -> tuple[Array, Array, Indexes]:
        """Grades in rank order (down to ``depth``), all judged grades, and list lengths, of some of the queries.

        The first two have a row per query and NaN where there is no grade.
        """
        lengths, offsets = self.lengths[begin:end], self.qrels.offsets[begin : end + 1]
        deepest = int(lengths.max(initial=0))
        first, last = np.searchsorted(self.rows, [begin, end])
        kept = first + np.flatnonzero(self.ranks[first:last] < (deepest if depth is None else depth))
        grades = np.full((len(lengths), deepest if depth is None else min(depth, deepest)), np.nan)
        grades[self.rows[kept] - begin, self.ranks[kept]] = self.grades[kept]
        judged = np.diff(offsets)[:, None]
        everything = np.full((len(lengths), int(judged.max(initial=0))), np.nan)
        everything[np.arange(everything.shape[1]) < judged] = self.qrels.grades[offsets[0] : offsets[-1]]
        return grades, everything, lengths


def read_qrels(path: str) -> Qrels:
    """The judgments of a file ``qid iter docid rel``, plain or compressed with gzip.

    Raises BadInput for a file that is missing or empty, BadData with file and line for a line that does not fit and for
    a document that is judged twice with different grades; the same judgment again is left out.
    """
    file = TrecFile.of(path, QRELS)
    blocks = [
        block for piece in map_forked(lambda span: list(read(file, *span)), file.pieces(PIECE)) for block in piece
    ]
    if not blocks:
        raise BadData([f"{path}: no line in the qrels file"])
    known: dict[bytes, int] = {}
    numbers = [known.setdefault(name, len(known)) for block in blocks for name in block.queries]
    rows = np.repeat(numbers, np.concatenate([block.lengths for block in blocks]))
    documents, grades = Ids.joined([block.documents for block in blocks]), np.concatenate([b.values for b in blocks])
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, documents, grades = rows[order], documents[order], grades[order]
    queries = list(known)
    again = _repeated(rows, documents, np.searchsorted(rows, np.arange(len(queries) + 1)))
    if len(again):
        for one, other in again[grades[again[:, 0]] != grades[again[:, 1]]][:1].tolist():
            _refuse_twice(file, queries[rows[one]], documents.text(other), "is judged twice, with different grades")
        kept = np.delete(np.arange(len(rows)), again[:, 0])
        rows, documents, grades = rows[kept], documents[kept], grades[kept]
    return Qrels(queries, np.searchsorted(rows, np.arange(len(queries) + 1)), documents, grades)


def read_run(path: str, qrels: Qrels) -> Retrieved:
    """What the run of a file ``qid Q0 docid rank score tag``, plain or compressed with gzip, retrieved.

    Documents are ranked by score, descending, compared as float64 (trec_eval: float32), ties by id, descending in the
    order of its bytes, as trec_eval does; the rank field is not looked at. Raises BadInput for a file that is missing or
    empty, BadData with file and line for a line that does not fit, a score that is no finite number and a document that a
    query has twice.
    """
    file = TrecFile.of(path, RUN)
    try:
        blocks, names = _join(file, qrels)
    except _Scattered:
        blocks, names = _join(_gathered(file), qrels)
    if not names:
        raise BadData([f"{path}: no line in the run file"])
    rows, ranks, grades, queries, lengths = (np.concatenate(column) for column in zip(*blocks, strict=True))
    lengths_of_all = np.zeros(len(qrels.queries), np.int64)
    lengths_of_all[queries] = lengths
    order = np.argsort(rows, kind="stable")
    return Retrieved(qrels, lengths_of_all, rows[order], ranks[order], grades[order], len(names) - len(queries))


def _repeated(rows: Indexes, documents: Ids, offsets: Indexes) -> Indexes:
    """Pairs of judgments of the same query and document, shape (n, 2); some queries at a time."""
    slots, pairs, begin = _Slots(), [np.empty((0, 2), np.int64)], 0
    while begin < len(rows):
        end = int(offsets[min(int(np.searchsorted(offsets, begin + AT_ONCE)), len(offsets) - 1)])
        pairs.append(begin + slots.match(rows[begin:end], documents[begin:end])[1])
        begin = end
    return np.concatenate(pairs)


class _Scattered(Exception):
    """The lines of a query do not stand together."""


class _Hits(NamedTuple):
    """The judged documents of a block of a run, and its judged queries with the lengths of their lists."""

    rows: Indexes
    ranks: Indexes
    grades: Array
    queries: Indexes
    lengths: Indexes


def _join(file: TrecFile, qrels: Qrels) -> tuple[list[_Hits], list[bytes]]:
    """What qrels judge of each block, and the names of all queries of the run."""
    numbers = {name: n for n, name in enumerate(qrels.queries)}

    def join_piece(span: tuple[int, int]) -> tuple[list[_Hits], list[bytes]]:
        slots, hits, names = _Slots(), list[_Hits](), list[bytes]()
        for block in read(file, *span):
            if len(set(block.queries)) < len(block.queries):
                raise _Scattered
            rows = np.repeat(np.arange(len(block.first)), block.lengths)
            queries = np.array([numbers.get(name, -1) for name in block.queries])
            known = np.flatnonzero(queries >= 0)
            begin, end = qrels.offsets[queries[known]], qrels.offsets[queries[known] + 1]
            judged = _ranges(begin, end - begin)
            wanted = np.repeat(known, end - begin)
            lines, again = slots.match(rows, block.documents, wanted, qrels.documents[judged])
            if len(again):
                one = int(again[0, 0])
                _refuse_twice(file, block.queries[rows[one]], block.documents.text(one), "is there twice")
            hit = np.flatnonzero(lines >= 0)
            row = wanted[hit]
            ranks = _places(block, rows)[lines[hit]] - block.first[row]
            hits.append(_Hits(queries[row], ranks, qrels.grades[judged[hit]], queries[known], block.lengths[known]))
            names += block.queries
        return hits, names

    pieces = map_forked(join_piece, file.pieces(PIECE))
    names = [name for _, piece in pieces for name in piece]
    if len(set(names)) < len(names):
        raise _Scattered
    return [block for hits, _ in pieces for block in hits], names


def _places(block: Lines, rows: Indexes) -> Indexes:
    """The line at which each line would stand if the lines of each query were in order of rank."""
    places = np.arange(len(rows))
    disorder = block.values[1:] >= block.values[:-1]
    disorder[block.first[1:] - 1] = False
    if disorder.any():
        mixed = np.zeros(len(block.first), np.bool_)
        mixed[rows[1:][disorder]] = True
        lines = np.flatnonzero(mixed[rows])
        words = [~word[lines].byteswap() for word in reversed(block.documents.words)]
        places[lines[np.lexsort((*words, -block.values[lines], rows[lines]))]] = lines
    return places


def _gathered(trec_file: TrecFile) -> TrecFile:
    """The same lines in memory, those of each query together."""
    groups: dict[bytes, list[bytes]] = {}
    with trec_file.open() as file:
        file.seek(trec_file.begin)
        for line in file:
            for name in line.split(None, 1)[:1]:
                groups.setdefault(name, []).append(line if line.endswith(b"\n") else line + b"\n")
    content = b"".join(line for lines in groups.values() for line in lines)
    return TrecFile(trec_file.path, trec_file.layout, len(content), 0, content, trec_file)


def _refuse_twice(file: TrecFile, query: bytes, document: bytes, what: str) -> NoReturn:
    first, again, *_ = file.lines_of(query, document)
    names = f"document {document.decode(errors='replace')!r} of query {query.decode()!r}"
    raise BadData([f"{file.path}:{again}: {names} {what} (first on line {first})"])


def _ranges(begin: Indexes, count: Indexes) -> Indexes:
    """``count[n]`` numbers from ``begin[n]`` on, for all n."""
    behind = np.cumsum(count)
    return np.arange(behind[-1] if len(behind) else 0) + np.repeat(begin - behind + count, count)


class _Slots:
    """Finds equal pairs of row and id: a line goes to a slot that its words decide, and equality is checked on the words.

    Lines that share a slot compete for it; the last stays, the others are compared with it and go on to the next round,
    where another multiplier spreads them. So no hash decides what is equal.
    """

    def __init__(self) -> None:
        self._slots = np.zeros(0, np.int32)

    def match(
        self, rows: Indexes, ids: Ids, wanted_rows: Indexes | None = None, wanted: Ids | None = None
    ) -> tuple[Indexes, Indexes]:
        """For each wanted pair the line that has it, else -1; and lines that have the same pair, shape (n, 2)."""
        if wanted_rows is None or wanted is None:
            wanted_rows, wanted = rows[:0], ids[:0]
        bits = max(12, (8 * len(rows)).bit_length())
        if len(self._slots) < 1 << bits:
            self._slots = np.zeros(1 << bits, np.int32)
        slots, shift, odd = self._slots, np.uint64(64 - bits), _ODD
        mixed, mixed_wanted = _mixed(rows, ids), _mixed(wanted_rows, wanted)
        lines, left = np.arange(len(rows), dtype=np.int32), np.arange(len(wanted_rows))
        matches, pairs = np.full(len(wanted_rows), -1), []
        while len(lines):
            place = ((mixed * np.uint64(odd)) >> shift).view(np.int64)
            slots[place] = lines
            stays = slots[place]
            candidates = np.minimum(
                slots[((mixed_wanted[left] * np.uint64(odd)) >> shift).view(np.int64)], len(rows) - 1
            )
            hit = (wanted_rows[left] == rows[candidates]) & wanted[left].equal(ids[candidates])
            matches[left[hit]] = candidates[hit]
            left = left[~hit]
            lost = np.flatnonzero(stays != lines)
            one, other = lines[lost], stays[lost]
            same = (rows[one] == rows[other]) & ids[one].equal(ids[other])
            pairs.append(np.stack([one[same], other[same]], axis=1))
            lines, mixed = one[~same], mixed[lost[~same]]
            odd = odd * 0xD1342543DE82EF95 % (1 << 64)
        return matches, np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)


def _mixed(rows: Indexes, ids: Ids) -> Words:
    """Row and words in one number, which need not be unique."""
    mixed = rows.astype(np.uint64) * np.uint64(_ODD)
    for n, word in enumerate(ids.words, 1):
        mixed += word * np.uint64(_ODD * (2 * n + 1) % (1 << 64))
    return mixed
