"""Which texts are embedded, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ragassay.core.errors import BadInput
from ragassay.core.protocols import Embedder

DIGITS = 6  # of a similarity that count: embeddings differ beyond, with the batch and the machine


def distinct(texts: Iterable[str]) -> list[str]:
    """By length, then text: batches, and so the last digit of a vector, depend on which texts there are alone."""
    return sorted(set(texts), key=lambda text: (len(text), text))


def vectors_of(embedder: Embedder, texts: Iterable[str]) -> dict[str, Any]:
    """{text: its vector} for the distinct texts, embedded in one call and a fixed order; no texts are no call."""
    once = distinct(texts)
    return dict(zip(once, embedder.embed(once), strict=True)) if once else {}


def refuse_blank(texts: Sequence[str]) -> None:
    """Raises BadInput on a text without a visible character: its vector would be an arbitrary one."""
    for n, text in enumerate(texts):
        if not text.strip():
            raise BadInput(f"text {n} of {len(texts)} to embed is blank", hint="leave blank texts out")
