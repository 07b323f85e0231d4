"""Several sources -> one configuration: the command line beats RAGASSAY_*, which beats the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ragassay.config.document import SECTIONS, Configuration, options, section_of
from ragassay.core.addresses import is_url
from ragassay.core.errors import BadInput, BadSettings, and_more
from ragassay.core.plugins import import_plugin
from ragassay.core.settings import Settings, variables
from ragassay.core.validation import UNKNOWN_KIND, FieldProblem, Location, place_of, problems, suggestion
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.composite import check_own, own_metrics
from ragassay.metrics.metric import parse
from ragassay.metrics.names import split_names
from ragassay.systems.functions import OURS, SYSTEMS

NO_OPTIONS = {
    "budget": "write budget: {usd: 5} or {tokens: 1000000}",
}


@dataclass(frozen=True)
class Layer:
    """Values of one source, nested as in the document. ``places`` names where one stands, such as ragassay.yaml:12."""

    values: dict[str, Any]
    name: str
    places: Mapping[Location, str] = field(default_factory=dict)

    def where(self, location: Location) -> str:
        """The place of the value there, or of what is around it."""
        around = (location[:length] for length in range(len(location), 0, -1))
        return next((self.places[outer] for outer in around if outer in self.places), self.name)

    @classmethod
    def of_options(cls, flat: Mapping[str, Any], name: str, places: Mapping[str, str]) -> Layer:
        """The layer of values by their keys alone, without the sections that these stand in."""
        values: dict[str, Any] = {}
        nested: dict[Location, str] = {}
        for key, value in flat.items():
            section = section_of(key)
            (values if section is None else values.setdefault(section, {}))[key] = value
            nested[(key,) if section is None else (section, key)] = places[key]
        return cls(values, name, nested)


def environment(*, named: bool = True, remote: bool = False) -> Layer:
    """The variables RAGASSAY_* that are set; RAGASSAY_METRICS holds names with commas between them.

    ``named``: is there a file of configuration? ``remote``: a service does the work.
    """
    # wiring reads RAGASSAY_API_BASE too; a report names it only where it beats a file's address
    without = {"judge_prompt"} if remote else set() if named else {"api_base"}
    if remote:
        without |= {key for key, (_, option) in options().items() if option.set_by == "operator"}
    keys = [key for key, (_, option) in options().items() if option.variable and key not in without]
    flat = {key: parsed(key, text) for key, text in variables(keys).items()}
    return Layer.of_options(flat, "environment", {key: f"RAGASSAY_{key.upper()}" for key in flat})


def import_plugins(layers: Sequence[Layer]) -> None:
    """Run the plug-ins of the environment, those that the strongest of ``layers`` names, and the modules of its systems.

    Raises BadSettings. What is not written as it should be is left to the check of the configuration.
    """
    for name in Settings().plugin_names:
        import_plugin(name, "RAGASSAY_PLUGINS")
    for key, of in (("plugins", _plugins), ("systems", _functions)):
        if named := next((layer for layer in reversed(layers) if key in layer.values), None):
            for place, module in of(named.values[key]):
                import_plugin(module, named.where((key, *place)))


def _plugins(given: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    yield from (((), name) for name in given if isinstance(name, str)) if isinstance(given, list) else ()


def _functions(given: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """The place and the module of each system that is a Python function."""
    for name, system in given.items() if isinstance(given, dict) else ():
        function = system.get("function") if isinstance(system, dict) else None
        if isinstance(function, str) and function.rpartition(":")[0]:
            yield (name, "function"), function.rpartition(":")[0]


def parsed(key: str, text: str) -> Any:
    """What the text of a variable or an option means for ``key``; itself where it does not fit, to be refused."""
    kind = options()[key][0].annotation
    if kind == tuple[str, ...] | None:
        return split_names(text)
    if kind in (str, str | None, Path, Path | None):
        return text
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    for number in (int, float):
        with suppress(ValueError):
            if math.isfinite(value := number(word)):
                return value
    return text


def resolve(layers: Sequence[Layer]) -> Configuration:
    """The configuration that ``layers`` give, weakest first; a section is merged key by key, a list is replaced.

    Raises BadSettings, and UnknownName for an unknown metric; both name the place and what to do.
    """
    merged: dict[str, Any] = {}
    origins: dict[Location, Layer] = {}
    for layer in layers:
        if judges := [key for key in ("judge", "judges") if layer.values.get(key)]:
            if len(judges) > 1:
                what = "judge is short for judges: [{model: ...}]; write one of the two"
                raise BadSettings(what, where=layer.where(("judge",)))
            merged.pop("judge", None)  # of a weaker layer, as is judges: the stronger one names them all
            merged.pop("judges", None)
        for key, value in layer.values.items():
            if key in SECTIONS and isinstance(value, dict) and isinstance(merged.get(key, {}), dict):
                merged[key] = {**merged.get(key, {}), **value}
                origins |= {(key, inner): layer for inner in value}
            else:
                merged[key] = value
                origins[(key,)] = layer

    def where(location: Location) -> str:
        layer = origins.get(location[:2]) or origins.get(location[:1]) or layers[-1]
        return layer.where(location)

    # A key without a value is a key that is left out.
    document = {key: value for key, value in merged.items() if value is not None}
    for section in SECTIONS:
        if isinstance(document.get(section), dict):
            document[section] = {key: value for key, value in document[section].items() if value is not None}
    if isinstance(systems := document.get("systems"), dict):
        document["systems"] = {
            name: {"kind": "http", "url": system} if is_url(system) else system for name, system in systems.items()
        }
    try:
        configuration = Configuration.model_validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise first_problem(error, where) from None
    check_rules(configuration, where)
    return configuration


def check_rules(configuration: Configuration, where: Callable[[Location], str] = place_of) -> None:
    """Raise UnknownName or BadInput, with its place, for a metric or a rule that can't be read."""
    location: Location = ()
    try:
        check_own(configuration)
        own = own_metrics(configuration)
        for n, name in enumerate(configuration.metrics or ()):
            location = ("metrics", n)
            parse(name, own)
        location = ("accurate",)
        AccuracyRule.parse(configuration.accurate, own)
    except BadInput as error:
        error.where = where(location or tuple((error.where or "").split(".", 1)))
        raise


def first_problem(
    error: ValidationError, where: Callable[[Location], str], model: type[BaseModel] = Configuration
) -> BadSettings:
    """The first thing in a document of ``model`` that is wrong, in plain words; how many more there are."""
    found = problems(error, model)
    # A key that is misspelt is also one that is missing: the misspelling comes first.
    first = next((problem for problem in found if problem.unknown_key), found[0])
    at = where(first.location)
    message = first.what if at.startswith("--") else first.message
    hint = _moved_or_no_option(first) if model is Configuration and first.unknown_key else None
    if first.kind == UNKNOWN_KIND and isinstance(first.value, dict):
        hint = suggestion(first.value["kind"], (*OURS, *SYSTEMS.names()))
    return BadSettings(f"{message}{and_more(len(found) - 1)}", where=at, hint=hint or first.hint)


def _moved_or_no_option(problem: FieldProblem) -> str | None:
    """What to do about a key that is no option, or is one of another section."""
    *around, key = map(str, problem.location)
    stem = key.lower().removesuffix("_usd").removesuffix("_size")
    if stem in NO_OPTIONS:
        return NO_OPTIONS[stem]
    if around and around[0] not in SECTIONS:
        return None
    if key in Configuration.model_fields:
        return "it belongs at the top"
    return f"it belongs in {section}" if (section := section_of(key)) else None
