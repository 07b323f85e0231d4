"""Files that are either whole or absent: written beside their place, flushed, then moved there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from ragassay.errors import BadData


def write_whole(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` in one step; a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def to_lines(rows: Iterable[Any]) -> bytes:
    """Rows as JSON Lines."""
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def read_lines(path: Path) -> Iterator[Any]:
    """Rows of a JSON Lines file; a damaged line is an error that names it."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise BadData([f"{path}:{number}: not JSON ({error})"], hint="the run's folder is damaged") from None
