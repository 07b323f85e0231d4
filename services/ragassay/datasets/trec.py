"""TREC qrels and runs as tables: which judged documents a run retrieved, and at which rank. The only importer of polars."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import BadData, BadInput, MissingExtra
from ragassay.core.models import LARGEST_GRADE
from ragassay.core.validation import shown
from ragassay.datasets.judgments import qrels_line, run_line
from ragassay.datasets.source import ValueProblem, max_unpacked, too_large_unpacked, undecodable

if TYPE_CHECKING:
    import polars as pl

QRELS, RUN = ("query", "iteration", "document", "grade"), ("query", "Q0", "document", "rank", "score", "tag")
_GZIP = b"\x1f\x8b"
_BLANKS = (b"\t", b"\v", b"\f")  # and the space


class Retrieved(NamedTuple):
    """Documents that a run retrieved for the judged queries.

    ``judgments``: grades, query by query, those of query ``n`` from ``offsets[n]`` to ``offsets[n + 1]``; ``lengths``:
    documents for each query, 0 if the run lacks it; ``rows``, ``ranks`` (from 0) and ``grades`` of the judged documents
    among them; ``unjudged``: number of the run's queries without judgments.
    """

    queries: list[str]
    judgments: NDArray[np.float64]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    rows: NDArray[np.int64]
    ranks: NDArray[np.int64]
    grades: NDArray[np.float64]
    unjudged: int

    def tables(
        self, begin: int, end: int, depth: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
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


def read_retrieved(qrels: str, run: str) -> Retrieved:
    """The documents that ``run`` retrieved under the judgments of ``qrels``; both plain or compressed with gzip.

    Documents are ranked by score, descending, compared as float64 (trec_eval: float32), ties by id, descending in the
    order of its bytes, as trec_eval does; the rank field is not read. A judgment that is repeated counts once. Raises
    MissingExtra without polars, BadInput for a file that is missing or empty, and BadData with file and line for a line
    that does not fit, a document judged twice with different grades, and one that a query retrieves twice.
    """
    try:
        import polars as pl
    except ImportError:
        raise MissingExtra("reading TREC files fast", "trec") from None
    judged = _read(qrels, QRELS)
    names = judged.select(pl.col("query").unique(maintain_order=True)).with_row_index("row")
    judged = judged.join(names, on="query").sort("row", maintain_order=True)
    ranked, starts = _in_rank_order(_read(run, RUN))
    lists = pl.DataFrame(
        {"query": ranked["query"].gather(starts), "start": starts, "length": np.diff(starts, append=len(ranked))}
    )
    judged = judged.join(lists, on="query", how="left", maintain_order="left")
    found = names.join(lists, on="query", how="left", maintain_order="left")["length"].fill_null(0)
    candidates = ranked.with_row_index("line").filter(pl.col("pair").is_in(judged["pair"].implode()))
    same = (pl.col("query") == pl.col("query_right")) & (pl.col("document") == pl.col("document_right"))
    hits = candidates.join(judged, on="pair").filter(same).sort("row", "line")
    return Retrieved(
        names["query"].to_list(),
        judged["grade"].to_numpy(),
        np.searchsorted(judged["row"].to_numpy(), np.arange(len(names) + 1)),
        found.to_numpy(),
        hits["row"].cast(pl.Int64).to_numpy(),
        (hits["line"] - hits["start"]).to_numpy(),
        hits["grade"].to_numpy(),
        len(lists) - int((found > 0).sum()),
    )


def _in_rank_order(run: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.intp]]:
    """A run whose lists are each together and in order of rank, and where each begins; sorted only if it is not so."""
    starts, scores = _starts(run), run["score"].to_numpy()
    falls = scores[1:] < scores[:-1]
    falls[starts[1:] - 1] = True
    if not falls.all() or run["query"].gather(starts).is_duplicated().any():
        run = run.sort("query", "score", "document", descending=[False, True, True])
        starts = _starts(run)
    return run, starts


def _starts(run: pl.DataFrame) -> NDArray[np.intp]:
    queries = run["query"].hash(1).to_numpy()
    return np.flatnonzero(np.concatenate(([True], queries[1:] != queries[:-1])))


def _read(path: str, columns: tuple[str, ...]) -> pl.DataFrame:
    """Query, document and number of each line, and a hash of the pair of ids.

    By polars, or line by line if a line does not fit or two have the same pair.
    """
    import polars as pl

    what = "qrels" if columns is QRELS else "run"
    pair = (pl.col("query").hash(1) ^ pl.col("document").hash(2)).alias("pair")
    source = str(Path(path).absolute()) if _is_plain(path) else _content(path, what)  # polars expands "~"
    table = _parsed(source, columns)
    if table is not None:
        table = table.with_columns(pair)
        if table["pair"].n_unique() == len(table):
            return table
    content = source if isinstance(source, bytes) else _content(path, what)
    return _by_line(path, content, columns).with_columns(pair)


def _is_plain(path: str) -> bool:
    """Can polars read the file from where it lies? As far as its beginning shows; a pipe can be read only once."""
    if not Path(path).is_file():
        return False
    try:
        with Path(path).open("rb") as file:
            head = file.read(1 << 16)
    except OSError:
        return False
    return bool(head.strip()) and not head.startswith((_GZIP, codecs.BOM_UTF8)) and not any(b in head for b in _BLANKS)


def _parsed(source: str | bytes, columns: tuple[str, ...]) -> pl.DataFrame | None:
    """The table of lines whose fields are parted by single blanks; None if a line does not fit."""
    import polars as pl

    if isinstance(source, bytes):
        source = source.translate(bytes.maketrans(b"".join(_BLANKS), b" " * len(_BLANKS)))
    value, last = "grade" if columns is QRELS else "score", columns[-1]
    types = dict.fromkeys(columns, pl.String) | {value: pl.Float64}
    wanted = sorted({columns.index(name) for name in ("query", "document", value, last)})
    try:
        table = pl.read_csv(
            source, has_header=False, separator=" ", quote_char=None, schema=types, columns=wanted, glob=False
        )
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None
    fits = pl.col(value).is_finite()
    if columns is QRELS:
        fits &= (pl.col(value) == pl.col(value).floor()) & (pl.col(value).abs() <= LARGEST_GRADE)
    # polars refuses a line with too many fields, and of one with too few the last is null
    if not len(table) or sum(table.null_count().row(0)) or not table.select(fits.all()).item():
        return None
    return table.select("query", "document", pl.col(value) + 0.0)  # + 0.0: -0.0 and 0.0 are a tie


def _by_line(path: str, content: bytes, columns: tuple[str, ...]) -> pl.DataFrame:
    """The same table for any blanks; a judgment that is repeated counts once. Raises BadData with the first bad line."""
    import polars as pl

    first_lines: dict[tuple[str, str], int] = {}
    values: dict[tuple[str, str], float] = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.isspace() or not line:
            continue
        problem = ""
        try:
            cells = line.decode().split()
            query, document, value = run_line(cells) if columns is RUN else qrels_line(cells)
        except UnicodeDecodeError as error:
            raise BadData([f"{path}:{number}: {undecodable(error)}"]) from None
        except ValueProblem as error:
            raise BadData([f"{path}:{number}: {error.what}"]) from None
        key = query, document
        if columns is QRELS and not (value.is_integer() and abs(value) <= LARGEST_GRADE):
            problem = f"grade: should be a whole number from -{LARGEST_GRADE} to {LARGEST_GRADE}, is {shown(cells[3])}"
        elif key in values and (columns is RUN or values[key] != value):
            twice = "is there twice" if columns is RUN else "is judged twice, with different grades"
            problem = f"document {document!r} of query {query!r} {twice} (first on line {first_lines[key]})"
        if problem:
            raise BadData([f"{path}:{number}: {problem}"])
        first_lines.setdefault(key, number)
        values[key] = value + 0.0
    queries, documents = zip(*values, strict=True)
    name = "grade" if columns is QRELS else "score"
    return pl.DataFrame({"query": queries, "document": documents, name: list(values.values())})


def _content(path: str, what: str) -> bytes:
    """The bytes of a file, unpacked, without a byte order mark. Raises BadInput, TooLarge."""
    try:
        content = Path(path).read_bytes()
        if content.startswith(_GZIP):
            limit = max_unpacked(len(content))
            with gzip.open(io.BytesIO(content)) as packed:
                content = packed.read(limit + 1)
            if len(content) > limit:
                raise too_large_unpacked(path, limit)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"the {what} file can't be read: {reason}", where=path) from None
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content or content.isspace():
        raise BadInput(f"the {what} file is empty", where=path)
    return content
