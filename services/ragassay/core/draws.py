"""Seeded draws of rows: the same on any machine, in whatever order the rows come."""

from __future__ import annotations

import hashlib


def draw_key(seed: int, *names: str) -> bytes:
    """SHA-256 of the seed and of what a row is named by. Rows sorted by it are in random order."""
    return hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()
