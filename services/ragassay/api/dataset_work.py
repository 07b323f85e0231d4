"""What takes seconds and memory with datasets, each function run in a process of its own beside the API's.

Each opens the store itself and returns the answer's JSON. A process does one of them at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Literal

from ragassay import datasets
from ragassay.data.stream import CanonicalRows, SampleStream
from ragassay.data.versions import KeptVersion
from ragassay.models import FrozenModel
from ragassay.store.redis import RedisStore
from ragassay.store.redis_datasets import Place, RedisDatasets
from ragassay.synthesis import read_passages

MOST_PROBLEMS = 100  # of an upload, after which the rest of it is not read


def keep(
    place: Place,
    path: Path,
    *,
    columns: Literal["auto", "ours"],
    mapping: Mapping[str, str],
    duplicates: Literal["error", "keep_first"],
    description: str | None,
) -> tuple[bytes, bool]:
    """Keep the rows of a file under its stem; returns the version and whether it is new."""
    with chdir(path.parent):  # so that errors name the file and no folder of the server's
        file, store = Path(path.name), _store(place)
        rows = (
            CanonicalRows(file, most_refused=MOST_PROBLEMS)
            if columns == "ours"
            else SampleStream([file], mapping=mapping, duplicates=duplicates, most_refused=MOST_PROBLEMS)
        )
        version = datasets.import_rows(store, path.stem, rows, description=description)
    kept = KeptVersion(**dict(version), warnings=tuple(rows.warnings))
    return _json(kept), version.created_at == version.imported_at


def describe(place: Place, reference: str, *, against: str | None, similar: float) -> bytes:
    """The description of a version."""
    store = _store(place)
    other = datasets.stored_rows(store, against) if against else None
    return _json(datasets.describe(datasets.stored_rows(store, reference), other, similar=similar))


def diff(place: Place, a: str, b: str) -> bytes:
    """What changed from one version to another."""
    store = _store(place)
    return _json(datasets.diff(datasets.stored_rows(store, a), datasets.stored_rows(store, b)))


def split(place: Place, reference: str, options: datasets.SplitOptions) -> bytes:
    """Split a version."""
    return _json(datasets.split(_store(place), reference, options))


def generate(place: Place, path: Path, options: datasets.GenerateOptions) -> bytes:
    """Keep questions made from the documents in a file under its stem."""
    with chdir(path.parent):
        corpus = read_passages(Path(path.name))
    return _json(datasets.generate(_store(place), path.stem, corpus, options))


def _store(place: Place) -> RedisDatasets:
    return RedisDatasets(RedisStore(place.url, project=place.project))


def _json(document: FrozenModel) -> bytes:
    return document.model_dump_json().encode()
