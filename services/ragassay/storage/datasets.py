"""What is evaluated: files, rows in memory, or a stored version of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragassay.core.errors import BadSettings
from ragassay.datasets.columns import MapOption
from ragassay.datasets.dataset import Dataset
from ragassay.datasets.load import load
from ragassay.datasets.rows import Duplicates
from ragassay.datasets.source import Source
from ragassay.datasets.versions import DatasetStore, DatasetVersion, file_or_version


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
