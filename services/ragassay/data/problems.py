"""Says in plain words what is wrong with a value, so that one line tells a user what to mend and where."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

_NAME = re.compile(r"[^\W\d][\w-]*")
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
        text = ascii(value) if not is_text(value) else repr(value)
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


def is_text(value: str) -> bool:
    """False for lone surrogates, which no file and no terminal can take."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_words(error: ValidationError) -> list[tuple[str, str]]:
    """(field, what is wrong) for each finding of pydantic, once per place; a ``response.`` in front is cut."""
    found: dict[str, str] = {}
    for item in error.errors(include_url=False):
        kind, place, given = item["type"], [step for step in item["loc"] if step != "[key]"], item["input"]
        if place and place[0] == "response":
            place = place[1:]
        what = wording(item)
        if kind in ("string_type", "float_type") and place[-1:] in (["str"], ["float"]):
            place, what = place[:-1], f"should be text or a number, is {shown(given)}"
        elif kind == "tuple_type" and len(place) == 1 and place[0] != "retrieved_scores":
            what = f"should be text or a list, is {shown(given)}"
        elif kind == "string_type" and len(place) == 1 and isinstance(given, Mapping):
            what += " (--map with a dotted name takes one of them)"
        if not place:  # a rule over several fields names the first of them itself
            name, _, what = what.partition(" ")
            place = [name]
        found.setdefault(_path(place), what)
    return list(found.items())


def wording(item: Any) -> str:
    """What one finding of pydantic says, without its place."""
    said: Callable[[Any], str] = _WORDS.get(item["type"], _as_it_is)
    return said(item)


def field_of_place(place: str) -> str:
    """The field in a place such as ``contexts[2]`` or ``relevance_scores.d1``."""
    return re.split(r"[.\[]", place, maxsplit=1)[0]


def _path(place: Sequence[int | str]) -> str:
    head, *rest = place
    return str(head) + "".join(f".{step}" if _NAME.fullmatch(str(step)) else f"[{_index(step)}]" for step in rest)


def _index(step: int | str) -> str:
    return str(step) if isinstance(step, int) else shown(step)


def _should_be(kind: str) -> Callable[[Any], str]:
    return lambda item: f"should be {kind}, is {shown(item['input'])}"


def _as_it_is(item: Any) -> str:
    said = str(item["msg"])
    return f"{said[0].lower()}{said[1:]}, is {shown(item['input'])}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "missing": lambda _: "is missing",
    "string_type": _should_be("text"),
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
    "list_type": _should_be("a list"),
    "dict_type": _should_be("an object"),
    "model_type": _should_be("an object"),
    "literal_error": lambda item: f"should be {item['ctx']['expected']}, is {shown(item['input'])}",
    "string_too_long": lambda item: f"is longer than {item['ctx']['max_length']} characters",
    "too_long": lambda item: f"has more than {item['ctx']['max_length']} entries",
    "extra_forbidden": lambda _: "is unknown",
    "greater_than": lambda item: f"should be more than {item['ctx']['gt']:.15g}, is {shown(item['input'])}",
    "less_than": lambda item: f"should be less than {item['ctx']['lt']:.15g}, is {shown(item['input'])}",
    "greater_than_equal": lambda item: f"should be at least {item['ctx']['ge']:.15g}, is {shown(item['input'])}",
    "less_than_equal": lambda item: f"should be at most {item['ctx']['le']:.15g}, is {shown(item['input'])}",
    "value_error": lambda item: str(item["ctx"]["error"]),
}
