"""A provider's text as text that can be written: JSON allows half surrogate pairs, UTF-8 does not."""

from __future__ import annotations

from typing import Any


def without_surrogates(text: str) -> str:
    """``text`` with each lone surrogate replaced by U+FFFD; two halves that belong together become one character."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def readable(value: Any) -> Any:
    """A value of a JSON document, all of its texts without lone surrogates."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [readable(each) for each in value]
    if isinstance(value, dict):
        return {without_surrogates(key): readable(each) for key, each in value.items()}
    return value
