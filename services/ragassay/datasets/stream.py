"""Reads samples from files of any length: once to decide what their columns are, and once more, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from ragassay.core.errors import BadData
from ragassay.core.models import Sample
from ragassay.core.validation import shown
from ragassay.datasets.formats import stream
from ragassay.datasets.load import check_options, columns_of, metadata_of
from ragassay.datasets.mapping import ColumnMapping
from ragassay.datasets.problems import plain_words
from ragassay.datasets.rows import Duplicates, RowBuilder


class SampleStream:
    """The samples of several files, one after the other; at no time more than one row of a file is in memory.

    That holds for JSON Lines, CSV, TSV and Parquet; other formats are read whole, file by file. Options and errors are
    those of ``load``, and so are the samples. Columns are decided when the stream is made; bad rows are raised, all of
    a file together, when it was read to its end, or ``most_refused`` of them. ``warnings`` and what stands beside
    the rows are complete then.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        format: str = "auto",  # noqa: A002 - the name of the option
        mapping: Mapping[str, str] | None = None,
        duplicates: Duplicates = "error",
        most_refused: int | None = None,
    ) -> None:
        check_options(duplicates, None)
        self._format, self._duplicates, self._most_refused = format, duplicates, most_refused
        self.warnings: list[str] = []
        self.kept: dict[str, None] = {}
        self.judged_only = False
        self.description: str | None = None
        self._files = {
            path: columns_of(path, format, mapping or {}, most_refused=most_refused) for path in dict.fromkeys(paths)
        }

    @property
    def mapped(self) -> dict[str, str]:
        """Our fields to the columns of the first file that has them."""
        return {ours: theirs for columns in reversed(self._files.values()) for ours, theirs in columns.mapped.items()}

    def __iter__(self) -> Iterator[Sample]:
        first_files: dict[str, Path] = {}
        for path, columns in self._files.items():
            for sample in self._samples(path, columns, len(first_files)):
                first = first_files.setdefault(sample.query_id, path)
                if first != path:
                    what = f"query_id: {shown(sample.query_id)} is used already in {first}"
                    raise BadData([f"{path}: {what}"], hint="files that are imported together need ids that differ")
                yield sample

    def _samples(self, path: Path, columns: ColumnMapping, already: int) -> Iterator[Sample]:
        raw, rows = stream(path, self._format)
        raw.most_refused = self._most_refused
        builder = RowBuilder(raw, columns, self._duplicates)
        for index, (number, values) in enumerate(rows, already):
            if sample := builder.sample(index, number, values):
                yield sample
        metadata_of(raw)
        raw.check()
        self.description, self.judged_only = self.description or raw.description, self.judged_only or raw.judged_only
        self.kept |= builder.kept
        self.warnings += [*raw.warnings, *columns.warnings, *builder.warnings()]


class CanonicalRows:
    """The samples of a JSON Lines file whose keys are those of a Sample, as ``canonical`` writes them; nothing is mapped.

    At no time more than one row is in memory. All bad rows are raised together as BadData, or ``most_refused`` of them.
    """

    judged_only = False
    description: str | None = None

    def __init__(self, path: Path, *, most_refused: int | None = None) -> None:
        self._path, self._most_refused = path, most_refused
        self.mapped: dict[str, str] = {}
        self.warnings: list[str] = []

    def __iter__(self) -> Iterator[Sample]:
        raw, rows = stream(self._path, "jsonl")
        raw.most_refused = self._most_refused
        first_rows: dict[str, int] = {}
        for number, values in rows:
            try:
                sample = Sample.model_validate(values)
            except ValidationError as error:
                for place, what in plain_words(error):
                    raw.refuse(number, f"{place}: {what}")
                continue
            if (first := first_rows.setdefault(sample.query_id, number)) != number:
                raw.refuse(number, f"query_id: {shown(sample.query_id)} is used already in {raw.place(first)}")
            yield sample
        raw.check()
