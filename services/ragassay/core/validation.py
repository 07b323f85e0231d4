"""pydantic's errors in our sentences: what is wrong with a value, where it stands, and which key was meant."""

from __future__ import annotations

import difflib
import math
import re
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, Tag, ValidationError

Location: TypeAlias = tuple[str | int, ...]
_NAME = re.compile(r"[^\W\d][\w-]*")
_ADDED = re.compile(r"\[key\]|\(.*\)|literal\[.*\]|constrained-\w+")  # steps of pydantic's own: of mappings and unions
_BRANCHES = {"string_type": "str", "float_type": "float", "finite_number": "float"}  # its last step in ``str | float``
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
    return problems_of(error.errors(include_url=False), model)


def problems_of(details: Iterable[Any], model: type[BaseModel] | None = None) -> list[FieldProblem]:
    """The same from pydantic's error details."""
    by_location: dict[Location, FieldProblem] = {}
    for item in details:
        location, hint = _location(item["type"], item["loc"]), None
        if item["type"] == "extra_forbidden" and model:
            hint = suggestion(str(location[-1]), _model_at(model, item["loc"][:-1]).model_fields)
        by_location.setdefault(location, FieldProblem(location, wording(item), item["type"], item["input"], hint))
    # pydantic counts only the entries that fit: a list whose entries are wrong is not empty
    around = {location[:steps] for location in by_location for steps in range(len(location))}
    return [one for one in by_location.values() if one.kind != "too_short" or one.location not in around]


def _location(kind: str, steps: Location) -> Location:
    """The place without the steps of pydantic's own; the last step of an unknown key is that key, whatever its name."""
    if kind == "extra_forbidden":
        return (*_location("", steps[:-1]), steps[-1])
    location = tuple(step for step in steps if not _ADDED.fullmatch(str(step)))
    return location[:-1] if location[-1:] == (_BRANCHES.get(kind),) else location


def suggestion(key: str, known: Collection[str]) -> str:
    """The known key that is near an unknown one, or all that are known."""
    near = difflib.get_close_matches(key.lower(), sorted(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The model of the section at ``location``, as pydantic has it, in a document of ``model``."""
    annotation: Any = model
    steps = iter(location)
    for step in steps:
        if field := model.model_fields.get(str(step)):
            annotation = field.annotation
            if typing.get_origin(annotation) is dict:
                next(steps, None)  # a name that the user chose
        else:
            annotation = next(_tagged(annotation, step), annotation)
        model = next(_models_in(annotation), model)
    return model


def _tagged(annotation: Any, tag: str | int) -> Iterator[Any]:
    """The branches of a union that have the tag."""
    for inner in typing.get_args(annotation):
        if isinstance(inner, Tag) and inner.tag == tag:
            yield annotation
        yield from _tagged(inner, tag)


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
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def wording(item: Any) -> str:
    """One of pydantic's error details in a few words, without its place."""
    kind = item["type"]
    if kind == UNKNOWN_KIND:
        return f"unknown kind {shown(item['input']['kind'])}"
    if kind in _WORDS:
        return _WORDS[kind].format_map(item.get("ctx", {}))
    if kind == "greater_than_equal" and 0 < item["ctx"]["ge"] < 1e-9:  # pydantic writes all its zeros
        return f"should be above 0, is {shown(item['input'])}"
    should_be = f"should be {_KINDS[kind]}" if kind in _KINDS else str(item["msg"]).removeprefix("Input ")
    return f"{should_be[0].lower()}{should_be[1:]}, is {shown(item['input'])}"


_WORDS = {
    "missing": "is missing",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "extra_forbidden": "is unknown",
    "string_too_long": "is longer than {max_length} characters",
    "too_long": "has more than {max_length} entries",
    "value_error": "{error}",
}
_KINDS = {
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type"), "an object"),
    "string_type": "text",
}
