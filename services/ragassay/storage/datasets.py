"""Datasets in a folder: the rows of each version once, under their digest, however many names it has.

datasets/rows/<digest>.jsonl            canonical rows; the file's SHA-256 is its name
datasets/versions/<name>/<digest>.json  name, description, times and lineage; written last
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from ragassay.core.errors import BadSettings, NotFound
from ragassay.core.files import numbered_lines, write_by_digest, write_whole
from ragassay.datasets.columns import MapOption
from ragassay.datasets.dataset import Dataset
from ragassay.datasets.load import load
from ragassay.datasets.rows import Duplicates
from ragassay.datasets.source import Source
from ragassay.datasets.versions import DatasetStore, DatasetVersion, MakeVersion, file_or_version


class FolderDatasets(DatasetStore):
    """Datasets under one folder, ``.ragassay`` by default."""

    _if_damaged = "the folder of datasets is damaged; import the rows again"

    def __init__(self, root: Path) -> None:
        self._root = root / "datasets"

    def names(self) -> list[str]:
        """The names that have a version, sorted."""
        return sorted({path.parent.name for path in self._root.glob("versions/*/*.json")})

    def rows_file(self, version: DatasetVersion) -> Path:
        """The file of the rows, JSON Lines."""
        return self._root / "rows" / f"{version.digest}.jsonl"

    def _records(self, name: str) -> Iterator[bytes]:
        return (path.read_bytes() for path in (self._root / "versions" / name).glob("*.json"))

    def _lines(self, version: DatasetVersion) -> Iterator[bytes]:
        path = self.rows_file(version)
        if not path.is_file():
            raise NotFound("there is no such file", where=str(path), hint=self._if_damaged)
        return (line for _, line in numbered_lines(path, longest=-1))

    def _keep(self, name: str, lines: Iterable[bytes], make_version: MakeVersion) -> DatasetVersion:
        version = make_version(*write_by_digest(self._root / "rows", lines, ".jsonl"))
        content = orjson.dumps(version.model_dump(mode="json"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        write_whole(self._root / "versions" / name / f"{version.digest}.json", content, private=True)
        return version


def open_data(
    store: DatasetStore,
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - as the option is called
    mapping: MapOption | None = None,
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
        reading: dict[str, Any] = {"format": format, "mapping": mapping, "duplicates": duplicates}
        return load(data, **reading, limit=limit, max_grade=max_grade, other_files=other_files)
    if (mapping or format != "auto") and not other_files:
        option = "map" if mapping else "format"
        raise BadSettings(
            f"{option} is about files; {data} is a stored dataset", hint="give it to: ragassay data import"
        )
    return version_dataset(store, version, limit=limit, max_grade=max_grade)


def version_dataset(
    store: DatasetStore, version: DatasetVersion, *, limit: int | None = None, max_grade: float | None = None
) -> Dataset:
    """The rows of a stored version as a dataset; options and errors as of ``load``."""
    source = Source(
        Path(version.reference),
        enumerate(store.samples(version), 1),
        name=version.name,
        description=version.description,
        judged_only=version.judged_only,
        counts_lines=False,
        canonical=True,
    )
    return load(source, limit=limit, max_grade=max_grade)
