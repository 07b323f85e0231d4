"""Receives bodies of any length into a file: within a limit, in time, and never more than a piece of them in memory."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fastapi import Request
from starlette.requests import ClientDisconnect

from ragassay.api.bodies import announced, media_type
from ragassay.api.forms import Form
from ragassay.api.problems import Refused
from ragassay.core.errors import TooLarge, Unavailable
from ragassay.core.files import open_private, private_folder, write_errors
from ragassay.core.settings import Settings

SILENT_S = 60.0
LEAST_BYTES = 60_000  # in SILENT_S, else an upload ends: about 1 kB a second
MOST_AT_ONCE, MOST_OF_A_PROJECT = 32, 8
_PIECE = 1024 * 1024  # bytes that are written to the disk together
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
async def received(request: Request, project: str, name: str) -> AsyncIterator[Path]:
    """The body as a file ``name`` with the extension of its Content-Type, alone in a folder that goes with the block.

    Raises Refused for another Content-Type, a body that is too slow or breaks off, TooLarge, Unavailable while many
    arrive already, DiskFull.
    """
    hint = f"send one of: {', '.join(TABLES)}; text in UTF-8"
    suffix = TABLES[media_type(request, TABLES, "can't be read: ", hint)]
    async with _arriving(request, project) as folder:
        path = folder / f"{name}{suffix}"
        with write_errors(path), open(path, "wb", buffering=0, opener=open_private) as file:
            await _receive(request, lambda content: _write_all(file.fileno(), content))
        yield path


@asynccontextmanager
async def received_form(request: Request, project: str) -> AsyncIterator[tuple[Form, Path]]:
    """The body as a form and the file that it brings, empty where none was chosen, in a folder that goes with the block.

    Raises BadInput for what is no form, and as ``received`` does.
    """
    async with _arriving(request, project) as folder:
        path = folder / "file"
        with write_errors(path), Form(request.headers.get("content-type", ""), path) as form:
            await _receive(request, form.write)
            form.end()
        yield form, path


@asynccontextmanager
async def _arriving(request: Request, project: str) -> AsyncIterator[Path]:
    """A folder for what arrives, one of a few of a project at a time; it goes with the block."""
    state, settings = request.app.state, request.app.state.settings
    arriving: Counter[str] = state.arriving
    if arriving[project] >= MOST_OF_A_PROJECT or arriving.total() >= MOST_AT_ONCE:
        what = f"{arriving[project]} uploads of this project arrive already"
        raise Unavailable(what, hint="send it again in a minute", retry_after=60)
    uploads = settings.home / "uploads"
    arriving[project] += 1
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
        arriving[project] -= 1


async def _receive(request: Request, write: Callable[[bytearray], object]) -> None:
    """Hand the body over to what writes it, in a thread of its own."""
    settings: Settings = request.app.state.settings
    limit, longest = settings.max_upload_bytes, settings.max_upload_s
    if announced(request) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(longest):
            await _hand_over(request, write, limit)
    except TimeoutError:
        what = f"the body did not arrive within {longest:.0f} s, or less than {LEAST_BYTES:,} bytes in {SILENT_S:.0f} s"
        raise Refused(408, "body_too_slow", what, hint="send it again") from None
    except ClientDisconnect:
        raise Refused(400, "gone", "the client disconnected before the body was complete") from None


async def _hand_over(request: Request, write: Callable[[bytearray], object], limit: int) -> None:
    pieces, held, size = request.stream(), bytearray(), 0
    began, before = time.monotonic(), 0
    while True:
        async with asyncio.timeout(SILENT_S):
            piece = await anext(pieces, None)
        if piece is None or len(held) >= _PIECE:
            await asyncio.to_thread(write, held)
            held = bytearray()
        if piece is None:
            return
        held += piece
        size += len(piece)
        if (now := time.monotonic()) - began >= SILENT_S:
            if size - before < LEAST_BYTES:
                raise TimeoutError
            began, before = now, size
        if size > limit:
            raise _too_large(limit)


def _write_all(file: int, content: bytearray) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is larger than {limit:,} bytes", hint="RAGASSAY_MAX_UPLOAD_BYTES is the operator's limit"
    )


def _clear(uploads: Path) -> None:
    for folder in uploads.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(folder, ignore_errors=True)
