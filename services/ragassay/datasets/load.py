"""Loads datasets: files, tables in memory or rows of a request, whose columns are decided once by the first rows."""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, get_args

from ragassay.core.errors import BadData, BadSettings, NothingToEvaluate, TooLarge
from ragassay.core.files import MIB
from ragassay.core.models import Sample
from ragassay.core.validation import shown
from ragassay.datasets.cells import plain
from ragassay.datasets.columns import ColumnMapping, Wanted, decide_columns
from ragassay.datasets.dataset import Dataset, DatasetDigest, digest_of_dataset, set_aside_samples
from ragassay.datasets.readers import open_source
from ragassay.datasets.rows import Duplicates, RowBuilder, grade_problem
from ragassay.datasets.source import NumberedRow, Source, ValueProblem

MAX_DECIDING_ROWS = 1000
_RENAMING = re.compile(r"--map (\S+)=(\S+)")  # a request has no options


def load(
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: Mapping[str, str] | None = None,
    duplicates: Duplicates = "error",
    limit: int | None = None,
    max_grade: float | None = None,
    max_problems: int | None = None,
    canonical: bool = False,
) -> Dataset:
    """The dataset in a file, in several files, or in rows (dicts, frames or Samples).

    Columns are decided by the header and the first 1,000 rows. JSON Lines, CSV, TSV and Parquet are read row by row, and
    many samples are kept in a temporary file (``set_aside``). ``limit``: only this number of rows, from the first, is kept
    and checked. A row with a grade above ``max_grade`` is a bad row.

    ``mapping`` is {our field: their column}; dots reach into objects. ``duplicates`` says what becomes of a document id
    that a response lists twice: a bad row, or dropped with its score and counted in ``warnings``. ``canonical``: rows are
    JSON Lines whose keys are those of a Sample. Raises NotFound, BadInput, UnknownName, BadSettings, NothingToEvaluate, and
    BadData with a line for every bad row, at most ``max_problems``.
    """
    check_options(duplicates, limit)
    if isinstance(data, list | tuple) and data and all(isinstance(row, Sample) for row in data):
        return dataset_of(data, limit=limit, max_grade=max_grade)
    loader = _Loader(mapping or {}, duplicates, limit, max_grade, canonical)
    with loading(data):
        parts = list(dict.fromkeys(map(Path, data))) if are_files(data) else [data]
        sources = [open_source(part, "jsonl" if canonical else format, max_problems) for part in parts]
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
        beyond_limit=loader.beyond_limit,
        judged_only=any(source.judged_only for source in sources),
    )


def are_files(data: Any) -> bool:
    """Is it a list of paths? ``load`` reads each file once."""
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(each, str | Path) for each in data)


@dataclass
class _Loader:
    """The samples of sources that are read one after the other, and what there is to say of them."""

    mapping: Mapping[str, str]
    duplicates: Duplicates
    limit: int | None
    max_grade: float | None
    canonical: bool
    mapped: dict[str, str] = field(default_factory=dict)
    kept: dict[str, None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    beyond_limit: dict[str, str] = field(default_factory=dict)
    _rows: int = 0
    _files: dict[str, Path] = field(default_factory=dict)

    def samples(self, source: Source) -> Iterator[Sample]:
        """The samples of one source; its bad rows are raised together when it was read to its end."""
        if self.canonical:
            rows, columns = iter(source), ColumnMapping({})
        else:
            rows, columns = with_columns(source, self.mapping, "dataset")
        self.mapped = {**columns.sources, **self.mapped}
        builder = RowBuilder(source, columns, self.duplicates, self.max_grade)
        for number, values in rows:
            index, self._rows = self._rows, self._rows + 1
            if self.limit is not None and index >= self.limit:
                builder.leave_out(index, values)
                continue
            sample = builder.canonical(number, values) if self.canonical else builder.sample(index, number, values)
            if sample is not None:
                self._check_id(sample.query_id, source.path)
                yield sample
        try:
            source.metadata = {str(key): plain(value, f".{key}") for key, value in source.metadata.items()}
        except ValueProblem as error:
            source.add_problem(0, f"metadata{error.at}: {error.what}")
        source.check()
        self.kept |= builder.kept
        self.beyond_limit |= builder.beyond_limit
        self.warnings += [*source.warnings, *columns.warnings, *builder.warnings()]

    def _check_id(self, query_id: str, path: Path) -> None:
        first = self._files.setdefault(query_id, path)
        if first != path:
            what = f"{path}: query_id: {shown(query_id)} is used already in {first}"
            raise BadData([what], hint="files that are imported together need ids that differ")


def with_columns(
    source: Source, mapping: Mapping[str, str], wanted: Wanted
) -> tuple[Iterator[NumberedRow], ColumnMapping]:
    """All rows of a source, and its columns as its first rows decide them; raises NothingToEvaluate without rows."""
    rows, first, size = iter(source), list[NumberedRow](), 0
    for row in islice(rows, MAX_DECIDING_ROWS):
        first.append(row)
        size += len(repr(row))
        if size > MIB:
            break
    if not first:
        source.check()
        raise NothingToEvaluate("there are no rows", where=str(source.path))
    return chain(first, rows), decide_columns(source, [values for _, values in first], mapping, wanted)


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
    bad: list[str] = []

    def checked() -> Iterator[Sample]:
        for sample in chosen:
            counts[sample.query_id] += 1
            if max_grade:
                problems = grade_problem(sample, max_grade)
                bad.extend(f"{place} of {shown(sample.query_id)}: {what}" for place, what in problems.items())
            yield sample

    digest = digest_of_dataset(checked())
    bad += [f"query_id: {shown(query)} is used more than once" for query, count in counts.items() if count > 1]
    if bad:
        raise BadData([f"data: {what}" for what in bad])
    chosen = tuple(chosen) if isinstance(chosen, list) else chosen
    return Dataset("data", Path("data"), chosen, digest, beyond_limit=beyond_limit)


def check_options(duplicates: str, limit: int | None) -> None:
    """Raise BadSettings for a value that these options don't have."""
    if duplicates not in get_args(Duplicates):
        raise BadSettings(f"should be error or keep_first, is {shown(duplicates)}", where="duplicates")
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
