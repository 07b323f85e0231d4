"""Datasets in a folder: the rows of each version once, under their digest, however many names it has.

datasets/rows/<digest>.jsonl            canonical rows; the file's SHA-256 is its name
datasets/versions/<name>/<digest>.json  name, description, times and lineage; written last
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, BadSettings, NotFound, NothingToEvaluate
from ragassay.core.files import numbered_lines, write_by_digest, write_whole
from ragassay.core.models import Sample
from ragassay.core.validation import problems
from ragassay.datasets.dataset import Dataset, canonical_line, set_aside_samples
from ragassay.datasets.load import dataset_of, load
from ragassay.datasets.rows import Duplicates
from ragassay.datasets.versions import (
    DatasetStore,
    DatasetVersion,
    Origin,
    Wanted,
    check_name,
    file_or_version,
    latest_first,
    new_version,
    stored_samples,
)

_DAMAGED = "the folder of datasets is damaged; import the rows again"


class FolderDatasets:
    """Datasets under one folder, ``.ragassay`` by default."""

    def __init__(self, root: Path) -> None:
        self._root = root / "datasets"

    def names(self) -> list[str]:
        """The names that have a version, sorted."""
        return sorted({path.parent.name for path in self._root.glob("versions/*/*.json")})

    def versions(self, name: str) -> list[DatasetVersion]:
        """The versions of a name, the latest first; raises BadData for a damaged record."""
        found = [_version(path) for path in (self._root / "versions" / name).glob("*.json")]
        return latest_first(found)

    def rows_file(self, version: DatasetVersion) -> Path:
        """The file of the rows, JSON Lines."""
        return self._root / "rows" / f"{version.digest}.jsonl"

    def samples(self, version: DatasetVersion, wanted: Wanted | None = None) -> Iterator[Sample]:
        """The rows of a version in their order, or those ``wanted``; raises BadData where the file is not what was stored."""
        path = self.rows_file(version)
        if not path.is_file():
            raise NotFound("there is no such file", where=str(path), hint=_DAMAGED)
        lines = (line for _, line in numbered_lines(path, longest=-1))
        return stored_samples(lines, version, wanted, of=str(path), row=f"{path}:", hint=_DAMAGED)

    def add(self, name: str, samples: Iterable[Sample], origin: Callable[[], Origin]) -> DatasetVersion:
        """Keep rows as the latest version of a name; see ``DatasetStore``. Raises BadSettings, DiskFull."""
        check_name(name)
        digest, rows = write_by_digest(self._root / "rows", map(canonical_line, samples), ".jsonl")
        if not rows:
            raise NothingToEvaluate("there is no row to keep", where=name)
        version = new_version(name, digest, rows, self.versions(name), origin(), datetime.now(UTC))
        content = orjson.dumps(version.model_dump(mode="json"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        write_whole(self._root / "versions" / name / f"{digest}.json", content, private=True)
        return version


def open_data(
    store: DatasetStore,
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - as the option is called
    mapping: Mapping[str, str] | None = None,
    duplicates: Duplicates = "error",
    limit: int | None = None,
    max_grade: float | None = None,
    other_files: bool = False,
) -> Dataset:
    """The dataset that is meant by a path or by ``NAME[@VERSION]``, or by rows; options and errors as of ``load``.

    Raises BadSettings for options about columns and format, which a stored dataset has behind it, unless
    ``other_files`` are read with them too.
    """
    version = file_or_version(store, Path(data)) if isinstance(data, str | Path) else None
    if version is None:
        return load(data, format=format, mapping=mapping, duplicates=duplicates, limit=limit, max_grade=max_grade)
    if (mapping or format != "auto") and not other_files:
        option = "--map" if mapping else "--format"
        raise BadSettings(
            f"{option} is about files; {data} is a stored dataset", hint="give it to: ragassay data import"
        )
    rows = dataset_of(set_aside_samples(store.samples(version)), limit=limit, max_grade=max_grade)
    return replace(
        rows, name=version.name, path=Path(data), description=version.description, judged_only=version.judged_only
    )


def _version(path: Path) -> DatasetVersion:
    try:
        return DatasetVersion.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BadData([f"{path}: {problems(error)[0]}"], hint=_DAMAGED) from None
