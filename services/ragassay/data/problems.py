"""Says in plain words what is wrong with a value, so that one line tells a user what to mend and where."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

_LONGEST = 40
_PRINTED = 20


class Misfit(ValueError):
    """A value that can't be what its field needs. ``what`` completes the sentence "field: ..."."""

    def __init__(self, what: str, *, at: str = "") -> None:
        self.what, self.at = what, at
        super().__init__(what)


def shortlist(problems: Sequence[str], most: int = _PRINTED) -> list[str]:
    """The first ``most`` problems and, where there are more, a line that counts the rest."""
    more = len(problems) - most
    return [*problems[:most], *([f"... and {more} more"] if more > 0 else [])]


def shown(value: object) -> str:
    """A value as an error prints it: short, on one line, safe for any terminal."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = ascii(value) if not _is_text(value) else repr(value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]}...{text[0]}"
    if isinstance(value, Mapping):
        keys = ", ".join(shown(str(key)) for key in list(value)[:3])
        return f"an object with the keys {keys}{', ...' if len(value) > 3 else ''}" if value else "an empty object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity"
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return "a number of more than 40 digits"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return f"a value of type {type(value).__name__}"


def _is_text(value: str) -> bool:
    """False for lone surrogates, which no file and no terminal can take."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(value: str) -> str:
    """``value`` itself; raises Misfit where it holds half a surrogate pair."""
    if not value.isascii() and not _is_text(value):
        raise Misfit(f"holds half a surrogate pair, which is no text: {shown(value)}")
    return value


def plain_words(error: ValidationError) -> list[tuple[str, str]]:
    """(field, what is wrong) for each finding of pydantic, once per place; a ``response.`` in front is cut."""
    found: dict[str, str] = {}
    for item in error.errors(include_url=False):
        place = [step for step in item["loc"] if step != "[key]"]
        if place and place[0] == "response":
            place = place[1:]
        if item["type"] in ("string_type", "float_type") and place[-1] in ("str", "float"):
            place.pop()  # one branch of "text or number"; both branches report
        said: Callable[[Any], str] = _WORDS.get(item["type"], _as_it_is)
        what = said(item)
        if not place:  # a rule over several fields names the first of them itself
            place, what = [what.split()[0]], what
        found.setdefault(_path(place), what)
    return list(found.items())


def field_of_place(place: str) -> str:
    """The field in a place such as ``contexts[2]`` or ``relevance_scores.d1``."""
    return re.split(r"[.\[]", place, maxsplit=1)[0]


def _path(place: Sequence[int | str]) -> str:
    head, *rest = place
    return str(head) + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)


def _should_be(kind: str) -> Callable[[Any], str]:
    return lambda item: f"should be {kind}, is {shown(item['input'])}"


def _as_it_is(item: Any) -> str:
    said = str(item["msg"])
    return f"{said[0].lower()}{said[1:]}, is {shown(item['input'])}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "missing": lambda _: "is missing",
    "string_type": _should_be("text"),
    "string_unicode": lambda item: f"holds half a surrogate pair, which is no text: {shown(item['input'])}",
    "string_too_short": lambda _: "is empty",
    "too_short": lambda _: "is empty",
    "int_type": _should_be("a whole number"),
    "int_parsing": _should_be("a whole number"),
    "int_parsing_size": _should_be("a whole number of a sensible size"),
    "int_from_float": _should_be("a whole number"),
    "float_type": _should_be("a number"),
    "float_parsing": _should_be("a number"),
    "finite_number": _should_be("a finite number"),
    "bool_type": _should_be("true or false"),
    "bool_parsing": _should_be("true or false"),
    "tuple_type": _should_be("a list"),
    "dict_type": _should_be("an object"),
    "greater_than_equal": lambda item: f"should be at least {item['ctx']['ge']:g}, is {shown(item['input'])}",
    "less_than_equal": lambda item: f"should be at most {item['ctx']['le']:g}, is {shown(item['input'])}",
    "value_error": lambda item: str(item["ctx"]["error"]),
}
