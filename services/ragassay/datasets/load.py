"""Loads datasets and a system's responses, and joins them by id or by the query's text.

They come as files, tables in memory or rows of a request, whose columns the first rows decide.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, get_args

from ragassay.core.errors import BadData, BadSettings, NothingToEvaluate, TooLarge
from ragassay.core.files import MIB
from ragassay.core.formatting import listed
from ragassay.core.models import Response, Sample
from ragassay.core.validation import shown
from ragassay.datasets.cells import plain
from ragassay.datasets.columns import (
    RESPONSE_FIELDS,
    SAMPLE_FIELDS,
    ColumnMapper,
    ColumnMapping,
    MapOption,
    Wanted,
    lists_in_columns,
    with_lists,
)
from ragassay.datasets.dataset import Dataset, DatasetDigest, Responses, plain_text, set_aside_samples
from ragassay.datasets.readers import open_source
from ragassay.datasets.rows import Duplicates, FirstRows, RowBuilder
from ragassay.datasets.source import NumberedRow, Source, ValueProblem

logger = logging.getLogger("ragassay")

MAX_DECIDING_ROWS = 1000


def load(
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: MapOption | None = None,
    duplicates: Duplicates = "error",
    limit: int | None = None,
    max_grade: float | None = None,
    max_problems: int | None = None,
    other_files: bool = False,
) -> Dataset:
    """The dataset in a file, in several files, or in rows (dicts, frames or Samples).

    Columns are decided by the header and the first 1,000 rows. JSON Lines, CSV, TSV and Parquet are read row by row, and
    many samples are kept in a temporary file (``set_aside``). ``limit``: only this number of rows, from the first, is read
    and checked. A row with a grade above ``max_grade`` is a bad row.

    ``mapping`` is {our field: their column, or several of which each file has one}; dots reach into objects. With
    ``other_files``, of the responses, it names their columns too. ``duplicates`` says what becomes of a document id
    that a response lists twice: a bad row, or dropped with its score and counted in ``warnings``. Raises NotFound,
    BadInput, UnknownName, BadSettings, NothingToEvaluate, and BadData with a line for every bad row, at most
    ``max_problems``.
    """
    if limit is not None and limit < 1:
        raise BadSettings(f"should be at least 1, is {limit}", where="--limit")
    loader = _Loader(mapping or {}, duplicates, limit, max_grade, RESPONSE_FIELDS if other_files else ())
    with _loading(data, duplicates):
        parts = list(dict.fromkeys(map(Path, data))) if are_files(data) else [data]
        sources = [open_source(part, format, max_problems) for part in parts]
        digest = DatasetDigest()
        samples = set_aside_samples(digest.adding(chain.from_iterable(map(loader.samples, sources))))
    return Dataset(
        name=sources[0].name or sources[0].path.stem,
        path=sources[0].path,
        samples=samples,
        digest=digest.hex(),
        mapped=loader.mapped,
        kept=tuple(loader.kept),
        description=next((source.description for source in sources if source.description), None),
        metadata=sources[0].metadata,
        warnings=tuple(loader.warnings),
        judged_only=any(source.judged_only for source in sources),
        limited=loader.limited,
        systems=sources[0].systems,
    )


def are_files(data: Any) -> bool:
    """Is it a list of paths? ``load`` reads each file once."""
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(each, str | Path) for each in data)


@dataclass
class _Loader:
    """The samples of sources that are read one after the other, and what there is to say of them."""

    mapping: MapOption
    duplicates: Duplicates
    limit: int | None
    max_grade: float | None
    elsewhere: Collection[str]
    mapped: dict[str, str] = field(default_factory=dict)
    kept: dict[str, None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    limited: bool = False
    _rows: int = 0
    _first_rows: FirstRows = field(default_factory=dict)

    def samples(self, source: Source) -> Iterator[Sample]:
        """The samples of one source; its bad rows are raised together when it was read to its end."""
        rows, columns = _with_columns(source, self.mapping, "dataset", self.elsewhere)
        self.mapped = {**columns.sources, **self.mapped}
        builder = RowBuilder(source, columns, self.duplicates, self._first_rows, self.max_grade)
        for number, values in rows:
            if self._rows == self.limit:
                self.limited = True
                break
            self._rows += 1
            if sample := builder.sample(self._rows - 1, number, values):
                yield sample
        try:
            source.metadata = plain(source.metadata)
        except ValueProblem as error:
            source.add_problem(0, f"metadata{error.at}: {error.what}")
        source.check()
        self.kept |= builder.kept
        self.warnings += [*source.warnings, *columns.warnings, *builder.warnings()]


def _with_columns(
    source: Source, mapping: MapOption, wanted: Wanted, elsewhere: Collection[str]
) -> tuple[Iterator[NumberedRow], ColumnMapping]:
    """All rows of a source, and its columns as its first rows decide them; raises NothingToEvaluate without rows."""
    rows, first, size = iter(source), list[NumberedRow](), 0
    for row in islice(rows, MAX_DECIDING_ROWS):
        first.append(row)
        size += len(repr(row))
        if size > MIB or source.canonical:
            break
    if not first:
        source.check()
        raise NothingToEvaluate("there are no rows", where=str(source.path))
    reading: Iterator[NumberedRow] = chain(first, rows)
    if source.canonical:
        return reading, ColumnMapping({})
    names = {*source.columns, *(name for _, values in first for name in values)}
    deciding = [values for _, values in first]
    if lists := lists_in_columns(names, mapping):
        reading = ((number, with_lists(values, lists)) for number, values in reading)
        deciding = [with_lists(values, lists) for values in deciding]
    try:
        return reading, ColumnMapper(source, deciding, mapping, wanted, elsewhere).map()
    except BadData as error:
        raise BadData([*error.problems, *source.problems], hint=error.hint, option=error.option) from None


def load_responses(
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: MapOption | None = None,
    duplicates: Duplicates = "error",
) -> Responses:
    """One system's recorded responses, in a file or in rows as ``load`` takes them.

    Columns about the query are ignored, except a history, which may end with the answer; unknown ones are kept in the
    metadata. Without any query_id, responses are keyed by the query's text, if that is there. Raises as ``load`` does.
    """
    responses: dict[str, Response] = {}
    texts: list[tuple[Any, Response]] = []
    with _loading(data, duplicates):
        source = open_source(data, format)
        reading, columns = _with_columns(source, mapping or {}, "responses", SAMPLE_FIELDS)
        rows = list(reading)
        of_traces = source.of_traces and columns.sources.get("query_id") == "query_id"
        keys = ("query",) if of_traces else ("query_id", "query")
        key = next((key for key in keys if any(columns.value(key, values) is not None for _, values in rows)), None)
        if key is None:
            what = f"{source.path}: query_id: no column holds it, nor the query's text, so no response can be joined"
            raise BadData([what], hint="say which: map query_id=COLUMN", option="map")
        builder = RowBuilder(source, columns, duplicates, {}, responses_by=key)
        for index, (number, values) in enumerate(rows):
            if (sample := builder.sample(index, number, values)) and sample.response:
                if key == "query_id":
                    responses[sample.query_id] = sample.response
                texts.append((sample.query if key == "query" else columns.value("query", values), sample.response))
    source.check()
    has_texts = all(isinstance(text, str) for text, _ in texts)
    warnings = (*columns.warnings, *builder.warnings())
    return Responses(source.path, responses, tuple(texts) if has_texts else (), warnings)


def join(dataset: Dataset, responses: Responses, system: str) -> dict[str, Response]:
    """The system's responses by the id of their sample; a sample without one is absent.

    They belong together by id, and by the query's text where one of the two files has no ids. Raises BadData for a
    response to a query that the dataset does not have, and for a text that several rows have.
    """
    field, no_ids = "query_id", "query_id" not in dataset.mapped
    keys = {sample.query_id: sample.query_id for sample in dataset}
    answers = list(responses.by_id.items())
    if not answers or (no_ids and responses.texts and not responses.by_id.keys() <= keys.keys()):
        field = "query"
        keys = {sample.query_id: plain_text(sample.query) for sample in dataset}
        answers = [(plain_text(text), response) for text, response in responses.texts]
    in_dataset, in_responses = Counter(keys.values()), Counter(key for key, _ in answers)
    unknown = [key for key in in_responses if key not in in_dataset]
    if unknown and dataset.partial and len(unknown) < len(in_responses):
        level = logging.DEBUG if dataset.limited else logging.WARNING  # who sets a limit knows
        logger.log(
            level, "%s: %d of %d responses are to queries that are left out", system, len(unknown), len(in_responses)
        )
    elif unknown:
        what = f"system {system!r} answers {listed(map(shown, unknown))}: not in the dataset {dataset.path}"
        hint = "the dataset has no query_id column, so its ids are q_0, q_1 ..." if no_ids else None
        raise BadData([f"{responses.path}: {field}: {what}"], hint=hint if field == "query_id" else None)
    for key, count in in_responses.items():
        if max(in_dataset[key], count) > 1:
            times = f"is {in_dataset[key]} times in the dataset and {count} times in the responses"
            what = f"not both files have ids, and the query {shown(key)} {times}"
            raise BadData([f"{responses.path}: query_id: {what}"], hint="give each response the query_id of its query")
    by_key = dict(answers)
    return {query_id: by_key[key] for query_id, key in keys.items() if key in by_key}


@contextmanager
def _loading(data: Any, duplicates: str) -> Iterator[None]:
    """Pauses garbage collection: looking for cycles among the rows of a document took 4 of 14 seconds.

    Raises BadSettings for other ``duplicates`` than there are, TooLarge if the memory does not suffice.
    """
    if duplicates not in get_args(Duplicates):
        raise BadSettings(f"should be error or keep_first, is {shown(duplicates)}", where="duplicates")
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    except MemoryError:
        where = str(data) if isinstance(data, str | Path) else None
        raise TooLarge(
            "does not fit into the memory of this process", where=where, hint="evaluate it in parts"
        ) from None
    finally:
        if was_on:
            gc.enable()
