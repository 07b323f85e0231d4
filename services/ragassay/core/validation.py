"""pydantic's errors in our sentences: what is wrong with a value, where it stands, and which key was meant."""

from __future__ import annotations

import difflib
import math
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

Location: TypeAlias = tuple[str | int, ...]
_NAME = re.compile(r"[^\W\d][\w-]*")
_ADDED = re.compile(r"\[key\]|\(.*\)")  # steps of pydantic's own: the key of a mapping, the tag of a union
_LONGEST = 40  # characters of a value that is shown
UNKNOWN_KIND = "unknown_kind"  # of a mapping's error, whose keys depend on its ``kind``


@dataclass(frozen=True)
class FieldProblem:
    """One thing that is wrong. ``what`` completes the sentence "place: ..."; ``kind`` is pydantic's word for it."""

    location: Location
    what: str
    kind: str
    value: object
    hint: str | None = None

    @property
    def place(self) -> str:
        """Such as ``gates[0].metric``; empty for the document itself."""
        return place_of(self.location)

    @property
    def unknown_key(self) -> bool:
        """A key that the document does not have."""
        return self.kind == "extra_forbidden"

    @property
    def message(self) -> str:
        """The sentence, without the hint."""
        if self.unknown_key:
            return f"unknown key {self.place[:100]}"
        return f"{self.place}: {self.what}" if self.location else self.what

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


def problems(error: ValidationError, model: type[BaseModel] | None = None) -> list[FieldProblem]:
    """What is wrong, once per place; with ``model``, each unknown key with the keys that it may have been."""
    by_location: dict[Location, FieldProblem] = {}
    for item in error.errors(include_url=False):
        location = tuple(step for step in item["loc"] if not _ADDED.fullmatch(str(step)))
        kind, what, hint = item["type"], wording(item), None
        if kind == "extra_forbidden" and model:
            hint = suggestion(str(location[-1]), _model_at(model, location[:-1]).model_fields)
        elif kind in ("string_type", "float_type") and location[-1:] in (("str",), ("float",)):
            location, what = location[:-1], f"should be text or a number, is {shown(item['input'])}"
        by_location.setdefault(location, FieldProblem(location, what, kind, item["input"], hint))
    # a list whose entries are wrong is not empty, though pydantic counts only those that fit
    return [one for one in by_location.values() if one.kind != "too_short" or not _holds(one.location, by_location)]


def _holds(location: Location, others: Collection[Location]) -> bool:
    return any(len(other) > len(location) and other[: len(location)] == location for other in others)


def suggestion(key: str, known: Collection[str]) -> str:
    """The known key that is near an unknown one, or all that are known."""
    near = difflib.get_close_matches(key.lower(), sorted(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model of the section at ``location`` in a document of ``model``."""
    steps = iter(location)
    for step in steps:
        if field := model.model_fields.get(str(step)):
            model = next(_models_in(field.annotation), model)
            if typing.get_origin(field.annotation) is dict:
                next(steps, None)  # a name that the user chose
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models_in(inner)


def place_of(location: Sequence[str | int]) -> str:
    """A location as a user reads it: ``contexts[2]``, ``relevance_scores.d1``."""
    if not location:
        return ""
    head, *rest = location
    return str(head) + "".join(f".{step}" if _NAME.fullmatch(str(step)) else f"[{_index(step)}]" for step in rest)


def _index(step: str | int) -> str:
    return str(step) if isinstance(step, int) else shown(step)


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
        return f"a number of more than {_LONGEST} digits"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return f"a value of type {type(value).__name__}"


def is_text(value: str) -> bool:
    """False for lone surrogates, which no file and no terminal can take."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def wording(item: Any) -> str:
    """One of pydantic's error details in a few words, without its place."""
    in_words: Callable[[Any], str] = _WORDS.get(item["type"], _as_it_is)
    return in_words(item)


def _as_it_is(item: Any) -> str:
    message = str(item["msg"]).removeprefix("Input ")
    return f"{message[0].lower()}{message[1:]}, is {shown(item['input'])}"


def _should_be(kind: str) -> Callable[[Any], str]:
    return lambda item: f"should be {kind}, is {shown(item['input'])}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "missing": lambda _: "is missing",
    "string_type": _should_be("text"),
    "string_too_short": lambda _: "is empty",
    "too_short": lambda _: "is empty",
    "int_type": _should_be("a whole number"),
    "int_parsing": _should_be("a whole number"),
    "int_parsing_size": _should_be("a whole number of a sensible size"),
    "int_from_float": _should_be("a whole number"),
    "float_type": lambda item: _should_be("a sensible number" if isinstance(item["input"], int) else "a number")(item),
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
    UNKNOWN_KIND: lambda item: f"unknown kind {shown(item['input']['kind'])}",
    "greater_than": lambda item: f"should be more than {item['ctx']['gt']:.15g}, is {shown(item['input'])}",
    "less_than": lambda item: f"should be less than {item['ctx']['lt']:.15g}, is {shown(item['input'])}",
    "greater_than_equal": lambda item: f"should be at least {item['ctx']['ge']:.15g}, is {shown(item['input'])}",
    "less_than_equal": lambda item: f"should be at most {item['ctx']['le']:.15g}, is {shown(item['input'])}",
    "value_error": lambda item: str(item["ctx"]["error"]),
}
