"""Receives bodies of any length into a file: within a limit, in time, and never more than a piece of them in memory."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fastapi import Request

from ragassay.api.bodies import arriving, media_type
from ragassay.core.errors import Unavailable
from ragassay.core.files import open_private, private_folder, write_errors
from ragassay.core.settings import Settings

MAX_AT_ONCE, MAX_OF_A_PROJECT = 32, 8
LONGEST_S = 1800.0  # in which an upload has to arrive
_LIMIT = "RAGASSAY_MAX_UPLOAD_BYTES is the operator's limit"
_LEFT_BEHIND_S = 24 * 3600  # by a process that was killed
TABLES = {
    "application/x-ndjson": ".jsonl",
    "application/jsonl": ".jsonl",
    "application/x-jsonlines": ".jsonl",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/vnd.apache.parquet": ".parquet",
    "application/x-parquet": ".parquet",
}


@asynccontextmanager
async def received(request: Request, project: str | None, name: str) -> AsyncIterator[Path]:
    """The body as a file ``name`` with the extension of its Content-Type, alone in a folder that goes with the block.

    Raises Refused for another Content-Type, a body that is too slow or breaks off, TooLarge, Unavailable while many
    arrive already, DiskFull.
    """
    hint = f"send one of: {', '.join(TABLES)}; text in UTF-8"
    suffix = TABLES[media_type(request, TABLES, "can't be read: ", hint)]
    settings: Settings = request.app.state.settings
    async with _folder(request, project) as folder:
        path = folder / f"{name}{suffix}"
        with write_errors(path), open(path, "wb", opener=open_private) as file:
            async for piece in arriving(request, settings.max_upload_bytes, LONGEST_S, _LIMIT):
                await asyncio.to_thread(file.write, piece)
        yield path


@asynccontextmanager
async def _folder(request: Request, project: str | None) -> AsyncIterator[Path]:
    """A folder for an upload, one of a few of a project at a time; it goes with the block."""
    uploading: Counter[str | None] = request.app.state.uploading
    if uploading[project] >= MAX_OF_A_PROJECT or uploading.total() >= MAX_AT_ONCE:
        what = f"{uploading[project]} uploads of this project arrive already"
        raise Unavailable(what, hint="send it again in a minute", retry_after=60)
    uploads = request.app.state.settings.home / "uploads"
    uploading[project] += 1
    try:
        with write_errors(uploads):
            private_folder(uploads)
            _clear(uploads)
            folder = Path(tempfile.mkdtemp(dir=uploads))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        uploading[project] -= 1


def _clear(uploads: Path) -> None:
    for folder in uploads.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(folder, ignore_errors=True)
