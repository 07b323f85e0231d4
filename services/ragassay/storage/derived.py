"""What is made of a report and kept in a file beside it: it counts only while the report is as it was then."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import orjson

from ragassay.core.files import write_whole
from ragassay.core.models import FrozenModel

M = TypeVar("M", bound=FrozenModel)


def written(report: Path) -> list[int]:
    """What changes when a report is written again: its size and its time."""
    file = report.stat()
    return [file.st_size, file.st_mtime_ns]


def read_derived(report: Path, name: str, key: str, model: type[M]) -> M | None:
    """What is kept beside a report in the file of that name; None where it is not there, or of another report."""
    try:
        kept = orjson.loads((report.parent / name).read_bytes())
        return model.model_validate(kept[key]) if kept["of"] == written(report) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def write_derived(report: Path, name: str, key: str, document: Any) -> None:
    """Keep a document beside a report; raises DiskFull and OSError."""
    write_whole(report.parent / name, orjson.dumps({"of": written(report), key: document}), private=True)
