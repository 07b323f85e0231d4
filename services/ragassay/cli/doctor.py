"""What this machine has: every finding says what, whether it is there, and how to get it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from ragassay.embeddings import available
from ragassay.models import Noun
from ragassay.prices import Prices
from ragassay.settings import Settings
from ragassay.shipped import folder


class Finding(Noun):
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at everything that an evaluation may need. Imports nothing heavy and calls nobody."""
    yield Finding(
        what="ragassay", ok=True, detail=f"{metadata.version('ragassay')}, Python {platform.python_version()}"
    )
    yield Finding(what="python", ok=sys.version_info >= (3, 11), detail="3.11 or newer is needed")
    yield _writable(settings)
    missing = available(settings.embeddings)
    yield Finding(
        what="local embeddings", ok=missing is None, detail=missing or "sentence-transformers and the bundled model"
    )
    priced = Prices().of("gpt-4o-mini") is not None
    yield Finding(
        what="price table", ok=priced, detail="LiteLLM's bundled table" if priced else "not found; reinstall litellm"
    )
    for name in ("prompts", "datasets"):
        yield Finding(what=name, ok=True, detail=str(folder(name)))
    keys = [name for name in os.environ if name.endswith("_API_KEY") and os.environ[name]]
    yield Finding(
        what="provider keys",
        ok=bool(keys),
        detail=f"set: {', '.join(sorted(keys))}"
        if keys
        else "none set; only needed for --judge MODEL (OPENAI_API_KEY ...)",
    )


def _writable(settings: Settings) -> Finding:
    home = settings.home.absolute()
    nearest = next(path for path in (home, *home.parents) if path.exists())
    ok = nearest.is_dir() and os.access(nearest, os.W_OK)
    return Finding(what="runs", ok=ok, detail=f"{home} {'can' if ok else 'cannot'} be written; RAGASSAY_HOME moves it")
