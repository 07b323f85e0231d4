"""Reading an upload takes seconds and memory, so it is done in a process of its own, which opens the store itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Literal

from ragassay.datasets.load import load
from ragassay.datasets.versions import KeptVersion, import_rows
from ragassay.service.redis import RedisStore

MAX_PROBLEMS = 100  # of an upload, after which the rest of it is not read


def keep(
    url: str,
    project: str | None,
    path: Path,
    *,
    columns: Literal["auto", "ours"],
    mapping: Mapping[str, str],
    description: str | None,
) -> tuple[bytes, bool]:
    """Keep the rows of a file under its stem; returns the version and whether it is new."""
    with chdir(path.parent):  # so that errors name the file and no folder of the server's
        file, store = Path(path.name), RedisStore(url, project=project).datasets
        form = "samples" if columns == "ours" else "auto"
        rows = load(file, format=form, mapping=mapping, max_problems=MAX_PROBLEMS)
        version = import_rows(store, path.stem, rows, description=description)
    kept_version = KeptVersion(**dict(version), warnings=tuple(rows.warnings))
    return kept_version.model_dump_json().encode(), version.created_at == version.imported_at
