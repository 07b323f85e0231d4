"""How numbers, intervals, lists, documents and foreign text are written, wherever ragassay shows them.

Imports little: every command line passes through ``printable``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ragassay.core.statistics import Interval

IN_PERCENT = frozenset({"gate_efficiency"})
MAX_LISTED = 4
MAX_LINES = 20
MAX_CHARACTERS = 2000
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_XML = re.compile("[\ufffe\uffff]")


def printable(text: str) -> str:
    r"""Text that no terminal acts on: control characters become ``\u001b``, so JSON stays the same document.

    That is C0 without newline and tab, DEL, C1, what overrides the direction of text, and half surrogate pairs.
    """
    return _ACTS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def bounded(text: str, max_characters: int = MAX_CHARACTERS) -> str:
    """Text that no terminal acts on, of so many characters at the most: what comes from elsewhere may be long."""
    text = printable(text)
    return text if len(text) <= max_characters else f"{text[:max_characters]} ..."


def number(value: float | None, digits: int = 3, *, sign: str = "", beside: float | None = None) -> str:
    """``digits`` decimals; as many significant digits below 0.01; ``none``.

    ``sign``: ``+`` shows it also where it is positive. ``beside``: more digits where they are needed to tell the
    number from this one.
    """
    if value is None:
        return "none"
    text = f"{value:{sign}.{digits}f}" if abs(value) >= 0.01 or value == 0 else f"{value:{sign}.{digits}g}"
    if beside is not None and value != beside and text == number(beside, digits, sign=sign):
        return f"{value:{sign}.6g}"
    return text


def of_metric(metric: str, value: float | None, digits: int = 3, *, sign: str = "", beside: float | None = None) -> str:
    """A mean of a metric, as ``number`` writes it or as a percentage; with a ``sign``, + or -, a difference in points."""
    if value is None or metric not in IN_PERCENT:
        return number(value, digits, sign=sign, beside=beside)
    digits = 6 if beside is not None and value != beside and f"{100 * value:.3g}" == f"{100 * beside:.3g}" else 3
    return f"{100 * value:{sign}.{digits}g} {'points' if sign else '%'}"


def changes_of(metric: str) -> Callable[[float], str]:
    """How differences of a metric are written: ``+0.24``, ``+24 points``."""
    return partial(of_metric, metric, digits=2, sign="+")


def signed(value: float) -> str:
    """A difference of scores: ``+0.24``, ``-0.0057``."""
    return number(value, 2, sign="+")


def p_value(p: float) -> str:
    """``0.012``, ``<0.0001``."""
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"


def quantity(value: float, digits: int = 3, *, sign: str = "") -> str:
    """A measurement in its own unit: ``digits`` significant digits, and never fewer than stand before the point."""
    if 1e-9 < abs(value) < 1e-4:
        from decimal import Decimal

        return f"{Decimal(f'{value:.{digits}g}'):{sign}f}"  # no exponent: the cost of a call is so small
    return f"{value:{sign}.0f}" if abs(value) >= 100 else f"{value:{sign}.{digits}g}"


def interval(ci: Interval, write: Callable[[float], str] = number, form: str = "{}..{}") -> str:
    """``0.110..0.360``, ``unbounded`` above where it is, or why there is none. ``form``: such as ``[{}, {}]``."""
    if ci.low is None:
        return f"no interval: {ci.reason}"
    return form.format(write(ci.low), "unbounded" if ci.high is None else write(ci.high))


def percent(share: float) -> str:
    """``95 %``."""
    return f"{100 * share:.3g} %"


def minute(time: str) -> str:
    """``2026-11-20 03:00``: an ISO 8601 time without seconds and zone."""
    return time[:16].replace("T", " ")


def split_names(text: str) -> list[str]:
    """The names in a text that has commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def listed(names: Iterable[str], max_names: int = MAX_LISTED) -> str:
    """``a, b and c``; a list that is longer than ``max_names`` by two or more is cut and the rest counted."""
    every = list(names)
    if len(every) > max_names + 1:
        every = [*every[:max_names], f"{len(every) - max_names} more"]
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)


def cut(text: str, max_characters: int) -> str:
    """Text on one line, of ``max_characters`` characters at the most: a longer one ends in ``...``."""
    line = " ".join(text.split())
    return line if len(line) <= max_characters else f"{line[: max_characters - 3].rstrip()}..."


def shortlist(lines: Sequence[str], max_lines: int = MAX_LINES) -> list[str]:
    """The first ``max_lines`` and, where there are more, a line that counts the rest."""
    more = len(lines) - max_lines
    return [*lines[:max_lines], *([f"... and {more} more"] if more > 0 else [])]


def json_document(document: object) -> bytes:
    """A model, or what JSON has types for, as indented JSON; text in it that a terminal would act on is escaped."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return printable(orjson.dumps(document, default=_plain, option=options).decode()).encode()


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json")


def xml_text(text: str) -> str:
    """Text without the characters that XML forbids."""
    return _NOT_XML.sub("\ufffd", printable(text))
