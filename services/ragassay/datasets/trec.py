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
    ranked, lengths = _with_ranks(_read(run, RUN))
    found = names.join(lengths, on="query", how="left", maintain_order="left")["length"].fill_null(0)
    same = (pl.col("query") == pl.col("query_right")) & (pl.col("document") == pl.col("document_right"))
    hits = ranked.join(judged, on="pair").filter(same).sort("row", "position")
    return Retrieved(
        names["query"].to_list(),
        judged["grade"].to_numpy(),
        np.searchsorted(judged["row"].to_numpy(), np.arange(len(names) + 1)),
        found.cast(pl.Int64).to_numpy(),
        hits["row"].cast(pl.Int64).to_numpy(),
        hits["position"].cast(pl.Int64).to_numpy(),
        hits["grade"].to_numpy(),
        len(lengths) - int((found > 0).sum()),
    )


def _with_ranks(ranked: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A run with a column of positions, from 0, and the length of each query's list.

    Positions are those of the lines if each query's lines are together and in order, else those of a sort.
    """
    import polars as pl

    def first_lines() -> pl.Series:
        return ranked.select(new=(pl.col("query") != pl.col("query").shift()).fill_null(value=True))["new"]

    new = first_lines()
    in_order = bool((new | (ranked["score"] < ranked["score"].shift()).fill_null(value=True)).all())
    if not in_order or ranked["query"].filter(new).is_duplicated().any():
        ranked = ranked.sort("query", "score", "document", descending=[False, True, True])
        new = first_lines()
    starts = np.flatnonzero(new.to_numpy())
    lengths = np.diff(starts, append=len(ranked))
    positions = np.arange(len(ranked)) - np.repeat(starts, lengths)
    return ranked.with_columns(position=positions), pl.DataFrame(
        {"query": ranked["query"].filter(new), "length": lengths}
    )


def _read(path: str, columns: tuple[str, ...]) -> pl.DataFrame:
    """Query, document and number of each line, and a hash of the pair of ids.

    By polars, or line by line if a line does not fit or two have the same pair.
    """
    import polars as pl

    content = _content(path, "qrels" if columns is QRELS else "run")
    pair = (pl.col("query").hash(1) ^ pl.col("document").hash(2)).alias("pair")
    table = _parsed(content, columns)
    if table is not None:
        table = table.with_columns(pair)
        if table["pair"].n_unique() == len(table):
            return table
    return _by_line(path, content, columns).with_columns(pair)


def _parsed(content: bytes, columns: tuple[str, ...]) -> pl.DataFrame | None:
    """The table of lines whose fields are parted by single blanks; None if a line does not fit."""
    import polars as pl

    if any(blank in content for blank in _BLANKS):
        content = content.translate(bytes.maketrans(b"".join(_BLANKS), b" " * len(_BLANKS)))
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    if content.count(b" ") != lines * (len(columns) - 1):
        return None  # polars refuses a line with too many fields; so none has too few
    value = "grade" if columns is QRELS else "score"
    types = dict.fromkeys(columns, pl.String) | {value: pl.Float64}
    wanted = [columns.index(name) for name in ("query", "document", value)]
    try:
        table = pl.read_csv(content, has_header=False, separator=" ", quote_char=None, schema=types, columns=wanted)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None
    fits = pl.col(value).is_finite()
    if columns is QRELS:
        fits &= (pl.col(value) == pl.col(value).floor()) & (pl.col(value).abs() <= LARGEST_GRADE)
    if len(table) != lines or sum(table.null_count().row(0)) or not table.select(fits.all()).item():
        return None
    return table.with_columns(pl.col(value) + 0.0)  # + 0.0: -0.0 and 0.0 are a tie


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
