"""Loads datasets: a file or rows in memory, whose columns are decided once, and whose rows are then read one by one."""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from ragassay.core.errors import BadData, BadSettings, TooLarge
from ragassay.core.models import Sample
from ragassay.core.validation import shown
from ragassay.datasets.cells import plain
from ragassay.datasets.columns import ColumnMapping, decide_columns
from ragassay.datasets.dataset import Dataset, DatasetDigest, digest_of_dataset, set_aside_samples
from ragassay.datasets.readers import open_source
from ragassay.datasets.rows import Duplicates, RowBuilder
from ragassay.datasets.source import Source, ValueProblem

_RENAMING = re.compile(r"--map (\S+)=(\S+)")  # a request has no options


def load(
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: Mapping[str, str] | None = None,
    duplicates: Duplicates = "error",
    limit: int | None = None,
    max_grade: float | None = None,
) -> Dataset:
    """The dataset in a file, or in rows as ``tables.rows_in`` takes them; Samples are taken as they are.

    A file of JSON Lines, CSV, TSV or Parquet is read row by row, twice: first to decide what its columns are. Many samples
    are kept in a temporary file (``set_aside``). ``limit``: only this number of rows, from the first, is kept and checked.
    A row with a grade above ``max_grade`` is a bad row.

    ``mapping`` is {our field: their column}; dots reach into objects. ``duplicates`` says what becomes of a document
    id that a response lists twice: a bad row, or dropped with its score and counted in ``warnings``.
    Raises NotFound, BadInput, UnknownName, BadSettings, NothingToEvaluate, and BadData with a line for every bad row.
    """
    check_options(duplicates, limit)
    if isinstance(data, list | tuple) and data and all(isinstance(row, Sample) for row in data):
        return dataset_of(data, limit=limit, max_grade=max_grade)
    with loading(data):
        source = open_source(data, format)
        stream = SampleStream([source], mapping=mapping, duplicates=duplicates, limit=limit, max_grade=max_grade)
        digest = DatasetDigest()
        samples = set_aside_samples(digest.adding(stream))
    return Dataset(
        name=source.name or source.path.stem,
        path=source.path,
        samples=samples,
        digest=digest.hex(),
        mapped=stream.mapped,
        kept=tuple(stream.kept),
        description=source.description,
        metadata=source.metadata,
        warnings=tuple(stream.warnings),
        beyond_limit=stream.beyond_limit,
        judged_only=source.judged_only,
    )


def load_rows(rows: Iterable[dict[str, Any]], *, name: str = "samples", max_grade: float | None = None) -> Dataset:
    """The dataset that a JSON file with these rows would be; ``name`` stands for the file in errors.

    Raises BadData with a line for every bad row: ``samples: row 3: query: is empty``.
    """
    source = Source(Path(name), rows=list(enumerate(rows, 1)), counts_lines=False, name=name)
    try:
        dataset = load(source, max_grade=max_grade)
    except BadData as error:  # a hint is about an option that a request has not
        hint = error.hint and "call the keys as we do: ragassay info schema sample"
        raise BadData(error.problems, hint=hint) from None
    return replace(dataset, warnings=tuple(_RENAMING.sub(r"rename \2 to \1", each) for each in dataset.warnings))


def dataset_of(samples: Sequence[Sample], *, limit: int | None = None, max_grade: float | None = None) -> Dataset:
    """The dataset of Samples that are there already; options and errors as of ``load``."""
    beyond_limit = {sample.query_id: sample.query for sample in samples[limit:]} if limit else {}
    chosen = samples if limit is None else samples[:limit]
    counts: Counter[str] = Counter()
    too_high: list[str] = []

    def checked() -> Iterator[Sample]:
        for sample in chosen:
            counts[sample.query_id] += 1
            grades = (sample.relevance_scores or {}).values() if max_grade else ()
            if grade := next((grade for grade in grades if max_grade and grade > max_grade), None):
                too_high.append(f"relevance_scores of {shown(sample.query_id)}: {grade:g} is above max_grade")
            yield sample

    digest = digest_of_dataset(checked())
    bad = [f"query_id: {shown(query)} is used more than once" for query, count in counts.items() if count > 1]
    if bad or too_high:
        raise BadData([f"data: {what}" for what in (*bad, *too_high)])
    chosen = tuple(chosen) if isinstance(chosen, list) else chosen
    return Dataset("data", Path("data"), chosen, digest, beyond_limit=beyond_limit)


class SampleStream:
    """The samples of several sources, one after the other; no more than one row of a streamed file is in memory.

    That holds for JSON Lines, CSV, TSV and Parquet; other formats are read whole, file by file. Options and errors are
    those of ``load``. Columns are decided when the stream is made; bad rows are raised, all of a file together, when it
    was read to its end, or ``max_problems`` of them. ``canonical``: the keys of the rows, JSON Lines, are those of a
    Sample, so no column is decided. ``warnings``, ``kept`` and what else a file says are complete after the last row.
    """

    def __init__(
        self,
        sources: Iterable[Path | Source],
        *,
        format: str = "auto",  # noqa: A002 - the name of the option
        mapping: Mapping[str, str] | None = None,
        duplicates: Duplicates = "error",
        limit: int | None = None,
        max_grade: float | None = None,
        max_problems: int | None = None,
        canonical: bool = False,
    ) -> None:
        check_options(duplicates, limit)
        self._duplicates, self._limit, self._max_grade, self._canonical = duplicates, limit, max_grade, canonical
        self._columns: dict[Source, ColumnMapping] = {}
        for each in dict.fromkeys(sources):
            source = open_source(each, "jsonl" if canonical else format)
            source.max_problems = max_problems
            nothing = ColumnMapping({}, "metadata", nested=False, in_seconds=frozenset(), warnings=())
            self._columns[source] = nothing if canonical else decide_columns(source, mapping or {}, "dataset")
        self.warnings: list[str] = []
        self.kept: dict[str, None] = {}
        self.beyond_limit: dict[str, str] = {}

    @property
    def mapped(self) -> dict[str, str]:
        """Our fields to the columns of the first file that has them."""
        return {ours: theirs for columns in reversed(self._columns.values()) for ours, theirs in columns.mapped.items()}

    @property
    def description(self) -> str | None:
        """What the rows are, by the first file that says it."""
        return next((source.description for source in self._columns if source.description), None)

    @property
    def judged_only(self) -> bool:
        """Are queries without judgments left out of a file?"""
        return any(source.judged_only for source in self._columns)

    def __iter__(self) -> Iterator[Sample]:
        self.warnings.clear()
        first_sources: dict[str, Source] = {}
        for source, columns in self._columns.items():
            for sample in self._samples(source, columns, len(first_sources)):
                first = first_sources.setdefault(sample.query_id, source)
                if first is not source:
                    what = f"query_id: {shown(sample.query_id)} is used already in {first.path}"
                    hint = "files that are imported together need ids that differ"
                    raise BadData([f"{source.path}: {what}"], hint=hint)
                yield sample

    def _samples(self, source: Source, columns: ColumnMapping, already: int) -> Iterator[Sample]:
        builder = RowBuilder(source, columns, self._duplicates, self._max_grade)
        for index, (number, values) in enumerate(source, already):
            if self._limit is not None and index >= self._limit:
                builder.leave_out(index, values)
            elif (
                sample := builder.canonical(number, values)
                if self._canonical
                else builder.sample(index, number, values)
            ):
                yield sample
        try:
            source.metadata = {str(key): plain(value, f".{key}") for key, value in source.metadata.items()}
        except ValueProblem as error:
            source.add_problem(0, f"metadata{error.at}: {error.what}")
        source.check()
        self.kept |= builder.kept
        self.beyond_limit |= builder.beyond_limit
        self.warnings += [*source.warnings, *columns.warnings, *builder.warnings()]


def check_options(duplicates: str, limit: int | None) -> None:
    """Raise BadSettings for a value that these options don't have."""
    if duplicates not in get_args(Duplicates):
        raise BadSettings(f"should be error or keep_first, is {shown(duplicates)}", where="--duplicates")
    if limit is not None and limit < 1:
        raise BadSettings(f"should be at least 1, is {limit}", where="--limit")


@contextmanager
def loading(data: Any) -> Iterator[None]:
    """Without garbage collection: looking for cycles among the rows of a document took 4 of 14 seconds.

    Raises TooLarge if the memory does not suffice.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    except MemoryError:
        what = "does not fit into the memory of this process"
        where = str(data) if isinstance(data, str | Path) else None
        raise TooLarge(what, where=where, hint="evaluate it in parts") from None
    finally:
        if was_on:
            gc.enable()
