"""Several sources -> one configuration: the command line beats RAGASSAY_* and .env, which beat the file."""

from __future__ import annotations

import difflib
import json
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from ragassay.config.document import SECTIONS, Configuration
from ragassay.errors import BadInput, BadSettings
from ragassay.gates import Gate
from ragassay.metrics import parse
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.models import Price
from ragassay.stats import stop_rule
from ragassay.strategies.options import KEYS, WORD, AnswerModel, RetrievalConfig, Route, SystemConfig, Weights

Place: TypeAlias = tuple[str | int, ...]
NO_OPTIONS = {
    "batch": "rows are evaluated and stored in chunks of 50, which is not an option",
    "budget": "write budget: {usd: 5} or {tokens: 1000000}",
    "schedule": "ragassay has no clock of its own; start it from cron or a build server",
}


@dataclass(frozen=True)
class Layer:
    """Values of one source, nested as in the document. ``places`` says where one stands, such as ragassay.yaml:12."""

    values: dict[str, Any]
    name: str
    places: Mapping[Place, str] = field(default_factory=dict)

    def where(self, place: Place) -> str:
        """The place of the value there, or of what is around it."""
        for length in range(len(place), 0, -1):
            if found := self.places.get(place[:length]):
                return found
        return self.name


def resolve(layers: Sequence[Layer]) -> Configuration:
    """The configuration that ``layers`` give, weakest first; a section is merged key by key, a list is replaced.

    Raises BadSettings, and UnknownName for a metric that nobody knows; both name the place and what to do.
    """
    merged: dict[str, Any] = {}
    origins: dict[Place, Layer] = {}
    for layer in layers:
        for key, value in layer.values.items():
            if key in SECTIONS and isinstance(value, dict) and isinstance(merged.get(key, {}), dict):
                merged[key] = {**merged.get(key, {}), **value}
                origins |= {(key, inner): layer for inner in value}
            else:
                merged[key] = value
                origins[(key,)] = layer

    def where(place: Place) -> str:
        layer = origins.get(place[:2]) or origins.get(place[:1]) or layers[-1]
        return layer.where(place)

    # A key without a value is a key that is left out.
    given = {key: value for key, value in merged.items() if value is not None}
    for section in SECTIONS:
        if isinstance(given.get(section), dict):
            given[section] = {key: value for key, value in given[section].items() if value is not None}
    try:
        configuration = Configuration.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        raise first_problem(error, where) from None
    _check(configuration, where)
    return configuration


def _check(configuration: Configuration, where: typing.Callable[[Place], str]) -> None:
    """What needs the metrics to be known."""
    place: Place = ()
    try:
        for n, name in enumerate(configuration.metrics or ()):
            place = ("metrics", n)
            parse(name)
        place = ("accurate",)
        AccuracyRule.parse(configuration.accurate)
        place = ("stop_when",)
        if configuration.stop_when is not None:
            stop_rule(configuration.stop_when)
    except BadInput as error:
        error.where = where(place)
        raise


def first_problem(
    error: ValidationError, where: typing.Callable[[Place], str], model: type[BaseModel] = Configuration
) -> BadSettings:
    """The first thing in a document of ``model`` that is wrong, in plain words; how many more there are."""
    found = error.errors(include_url=False)
    # A key that is misspelt is also one that is missing: the misspelling comes first.
    one = next((error for error in found if error["type"] == "extra_forbidden"), found[0])
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    place: Place = tuple(key for key in one["loc"] if key not in (WORD, KEYS))
    at = where(place)
    name = ".".join(map(str, place))
    if one["type"] == "extra_forbidden":
        key = str(place[-1])
        return BadSettings(f"unknown key {name[:100]}{more}", where=at, hint=_suggestion(key, place, model))
    label = "" if at.startswith("--") or not name else f"{name}: "
    if one["type"] == "missing":
        return BadSettings(f"{name} is missing{more}", where=at)
    if one["type"] == "value_error":
        return BadSettings(f"{label}{one['ctx']['error']}{more}", where=at)
    said = one["msg"].removeprefix("Input ").replace("valid ", "")
    said = _WORDS.get(one["type"], said[:1].lower() + said[1:])
    return BadSettings(f"{label}{said}, not {_shown(one['input'])}{more}", where=at)


_WORDS = {
    "string_type": "should be text",
    "bool_type": "should be true or false",
    "int_type": "should be a whole number",
    "float_type": "should be a number",
    "dict_type": "should be keys with values",
    "model_type": "should be keys with values",
    "tuple_type": "should be a list",
    "finite_number": "should be a finite number",
}


def _suggestion(key: str, place: Place, model: type[BaseModel]) -> str:
    if model is not Configuration:
        known = sorted(_at(model, place[:-1]).model_fields)
        near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.6)
        return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    stem = key.lower().removesuffix("_usd").removesuffix("_size")
    if stem in NO_OPTIONS:
        return NO_OPTIONS[stem]
    known = _keys_at(place[:-1])
    if near := difflib.get_close_matches(key.lower(), known, n=1, cutoff=0.6):
        return f"did you mean {near[0]}?"
    models: dict[str, type[BaseModel]] = {"": Configuration, **SECTIONS}
    for section, model in models.items():
        if key in model.model_fields and known != sorted(model.model_fields):
            return f"it belongs in {section}" if section else "it belongs at the top"
    return f"known: {', '.join(known)}"


def _keys_at(place: Place) -> list[str]:
    models: dict[str, type[BaseModel]] = {**SECTIONS, "gates": Gate, "prices": Price}
    if place and place[0] == "systems":
        models = {"use": RetrievalConfig, "routes": Route, "weights": Weights, "answer": AnswerModel}
        inner = next((key for key in reversed(place) if key in models), "")
        return sorted(models.get(str(inner), SystemConfig).model_fields)
    model = models.get(str(place[0]), Configuration) if place else Configuration
    return sorted(model.model_fields)


def _at(model: type[BaseModel], place: Place) -> type[BaseModel]:
    """The model of the section that stands at ``place`` in a document of ``model``."""
    for key in place:
        field = model.model_fields.get(str(key))
        kinds = (field.annotation, *typing.get_args(field.annotation)) if field else ()
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), model)
    return model


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
