"""``ragassay init`` and ``ragassay doctor``: a configuration to begin with, and what this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ragassay.cli.configured import AsJson
from ragassay.core.errors import BadSettings, Conflict

if TYPE_CHECKING:
    from ragassay.core.settings import Settings

Target = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write it. [ragassay.yaml]")]


def init(file: Target = None) -> None:
    """Write a commented configuration with every key and its default."""
    from ragassay import config
    from ragassay.core.files import write_whole

    path = file or Path(config.FILE_NAME)
    if path.exists() or path.is_symlink():
        raise Conflict(f"{path} is there already", hint="name another file: ragassay init FILE")
    if not path.parent.is_dir():
        raise BadSettings(f"there is no folder {str(path.parent)!r}", where=str(path), hint="make it first")
    write_whole(path, config.template().encode())
    command = f"ragassay evaluate --config {path}" if file else "ragassay evaluate"
    typer.echo(f"wrote {path}; fill in 'data:', then run: {command}")


def doctor(as_json: AsJson = False) -> None:
    """List what works on this machine, and how to get the rest."""
    import orjson

    from ragassay.core.settings import Settings

    for finding in _examine(Settings()):
        if as_json:
            typer.echo(orjson.dumps(finding._asdict()).decode())
        else:
            typer.echo(f"{'ok     ' if finding.ok else 'missing'} {finding.what}: {finding.detail}")


class _Finding(NamedTuple):
    what: str
    ok: bool
    detail: str


def _examine(settings: Settings) -> Iterator[_Finding]:
    """Check everything that an evaluation may need. Imports nothing heavy and makes no call."""
    import os
    import platform
    import sys
    from importlib import metadata

    from ragassay.core.package_data import folder
    from ragassay.core.settings import provider_keys
    from ragassay.embeddings import unavailable
    from ragassay.llm import Prices

    yield _Finding("ragassay", True, f"{metadata.version('ragassay')}, Python {platform.python_version()}")
    yield _Finding("python", sys.version_info >= (3, 11), "3.11 or newer is needed")
    home = settings.home.absolute()
    nearest = next(path for path in (home, *home.parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    yield _Finding("runs", writable, f"{home} {'can' if writable else 'cannot'} be written; RAGASSAY_HOME moves it")
    missing = unavailable(settings.embeddings)
    yield _Finding(
        "local embeddings", missing is None, missing or settings.embeddings or "the bundled model on onnxruntime"
    )
    priced = Prices().of("gpt-4o-mini") is not None
    yield _Finding("price table", priced, "LiteLLM's bundled table" if priced else "not found; reinstall litellm")
    for name in ("prompts", "datasets"):
        yield _Finding(name, True, str(folder(name)))
    keys = provider_keys()
    none = "none set; only needed for --judge MODEL (OPENAI_API_KEY ...)"
    yield _Finding("provider keys", bool(keys), f"set: {', '.join(keys)}" if keys else none)
