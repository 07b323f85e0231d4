"""Warnings that name the user's line, not one of ours: also where the work runs in a thread of its own."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from typing import Any, NamedTuple

_BETWEEN = ("ragassay", "asyncio", "contextlib")  # packages between the user's line and the place that warns


class Caller(NamedTuple):
    """A line of the user's, as ``warnings`` wants it."""

    filename: str
    lineno: int
    module: str
    registry: dict[Any, Any]


_CALLER: ContextVar[Caller] = ContextVar("the line that asked for the work of this thread")


def caller() -> Caller:
    """The innermost line on the stack that is the user's."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    return Caller(frame.f_code.co_filename, frame.f_lineno, names.get("__name__", "__main__"), registry)


def on_behalf_of(line: Caller) -> None:
    """From now on, in this context, ``warn`` names that line."""
    _CALLER.set(line)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """``warnings.warn`` at the user's line."""
    at = _CALLER.get(None) or caller()
    warnings.warn_explicit(text, category, at.filename, at.lineno, at.module, at.registry)
