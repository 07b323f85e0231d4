"""Ids of runs in folders."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime


def new_run_id(name: str) -> str:
    """An id that sorts by time and says what was evaluated: ``20260131-140509-handbook-1f3a``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{slug(name)}-{secrets.token_hex(2)}"


def slug(name: str) -> str:
    """The name as it stands in an id."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
