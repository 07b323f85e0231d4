"""From a YAML file, the environment and what a caller sets to one configuration; every error names its place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError

from ragassay.config.model import GatedConfig, ProjectConfig, section_of, sections
from ragassay.core.addresses import is_url
from ragassay.core.errors import BadInput, BadSettings, NotFound, and_more
from ragassay.core.plugins import import_plugin
from ragassay.core.report import run_and_system
from ragassay.core.settings import Settings
from ragassay.core.validation import UNKNOWN_KIND, FieldProblem, Location, place_of, problems, suggestion
from ragassay.datasets.versions import is_file, reference_in
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.composite import check_custom_metrics, custom_metrics
from ragassay.metrics.metric import parse
from ragassay.systems.functions import OURS, SYSTEMS

FILE_NAME = "ragassay.yaml"
_TAG = "tag:yaml.org,2002:"
_FUNCTION = re.compile(r"[^:]+\.py:\w+")
_JUDGES = ("judge", "judges")  # two ways to say the same


class Override(NamedTuple):
    """A value that takes the place of a file's; ``source`` is named in errors, such as ``--seed``."""

    location: tuple[str, ...]
    value: Any
    source: str

    @classmethod
    def of_text(cls, text: str) -> Override:
        """``statistics.alpha=0.01``: the value is read as YAML. Raises BadSettings."""
        key, equals, value = text.partition("=")
        if not (equals and key.strip()):
            raise BadSettings(
                f"{text!r} is not of the form KEY=VALUE", where="--set", hint="--set statistics.alpha=0.01"
            )
        source = f"--set {key.strip()}"
        try:
            return cls(tuple(key.strip().split(".")), document_of(value, source).values, source)
        except BadSettings as error:
            error.where = source
            raise


@dataclass
class Document:
    """Nested values. ``places`` says where each stands, such as ``ragassay.yaml:12``."""

    values: Any
    name: str
    places: dict[Location, str] = field(default_factory=dict)

    def where(self, location: Location) -> str:
        """The place of the value there, or of what is around it."""
        around = (location[:length] for length in range(len(location), 0, -1))
        return next((self.places[outer] for outer in around if outer in self.places), self.name)

    def set(self, override: Override) -> None:
        """Put a value in its place, in place of what stands there; raises BadSettings if that can have no keys."""
        location, value, source = override
        for key in _JUDGES if location[0] in _JUDGES else ():
            self.values.pop(key, None)
        values = self.values
        for length, key in enumerate(location[:-1], 1):
            if location[: length - 1] == ("systems",) and key in values:
                values[key] = system_in_keys(values[key])
            values = values.setdefault(key, {})
            if not isinstance(values, dict):
                raise BadSettings(f"{'.'.join(location[:length])} has no keys", where=source)
        values[location[-1]] = value
        self.places = {place: text for place, text in self.places.items() if place[: len(location)] != location}
        self.places[location] = source


def load(path: Path | None = None, overrides: Iterable[Override] = (), *, remote: bool = False) -> ProjectConfig:
    """The configuration in a file, or the defaults, with what the environment and then ``overrides`` set.

    ``remote``: a service does the work, so RAGASSAY_API_BASE does not count. Runs the plug-ins that it names. Raises
    NotFound, BadSettings, and UnknownName for an unknown metric; they name the place and what to do.
    """
    document = Document({}, "options") if path is None else read(path)
    for override in (*_environment(document, remote=remote), *overrides):
        document.set(override)
    import_plugins(document)
    return check(document)


def _environment(document: Document, *, remote: bool) -> Iterator[Override]:
    """RAGASSAY_JUDGE, and RAGASSAY_API_BASE in place of a file's address. An empty variable says nothing."""
    settings = Settings()
    if settings.judge and "judge" in settings.model_fields_set:
        yield Override(("judge",), settings.judge, "RAGASSAY_JUDGE")
    if settings.api_base and "api_base" in document.values and not remote:
        yield Override(("api_base",), settings.api_base, "RAGASSAY_API_BASE")


def import_plugins(document: Document) -> None:
    """Run the plug-ins of the environment, those that the document names, and the modules of its systems.

    Raises BadSettings. What is not written as it should be is left to the check of the configuration.
    """
    for name in Settings().plugins:
        import_plugin(name, "RAGASSAY_PLUGINS")
    plugins, systems = (document.values.get(key) for key in ("plugins", "systems"))
    for name in plugins if isinstance(plugins, list) else ():
        if isinstance(name, str):
            import_plugin(name, document.where(("plugins",)))
    for name, system in systems.items() if isinstance(systems, dict) else ():
        keys = system_in_keys(system)
        function = keys.get("function") if isinstance(keys, dict) else None
        if isinstance(function, str) and (module := function.rpartition(":")[0]):
            import_plugin(module, document.where(("systems", name, "function")))


def system_in_keys(choice: Any) -> Any:
    """What an address, or a function in a file, is short for; any other choice as it is."""
    if is_url(choice):
        return {"kind": "http", "url": choice}
    if isinstance(choice, str) and _FUNCTION.fullmatch(choice):
        return {"kind": "python", "function": choice}
    return choice


def check(document: Document) -> ProjectConfig:
    """The configuration that a document makes. A key without a value is a key that is left out."""
    values = {key: value for key, value in document.values.items() if value is not None}
    for section in sections().keys() & values.keys():
        if isinstance(values[section], dict):
            values[section] = {key: value for key, value in values[section].items() if value is not None}
    if isinstance(systems := values.get("systems"), dict):
        values["systems"] = {name: system_in_keys(system) for name, system in systems.items()}
    try:
        configuration = ProjectConfig.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise first_problem(error, document.where) from None
    check_rules(configuration, document.where)
    return configuration


def check_rules(configuration: GatedConfig, where: Callable[[Location], str] = place_of) -> None:
    """Raise UnknownName or BadInput, with its place, for a metric or a rule that can't be read."""
    location: Location = ()
    try:
        check_custom_metrics(configuration)
        custom = custom_metrics(configuration)
        for n, name in enumerate(configuration.metrics or ()):
            location = ("metrics", n)
            parse(name, custom)
        location = ("accurate",)
        AccuracyRule.parse(configuration.accurate, custom)
    except BadInput as error:
        error.where = where(location or tuple((error.where or "").split(".", 1)))
        raise


def first_problem(
    error: ValidationError, where: Callable[[Location], str], model: type[BaseModel] = ProjectConfig
) -> BadSettings:
    """The first thing in a document of ``model`` that is wrong, in plain words; how many more there are."""
    found = problems(error, model)
    # A key that is misspelt is also one that is missing: the misspelling comes first.
    first = next((problem for problem in found if problem.unknown_key), found[0])
    at = where(first.location)
    message = first.what if at.startswith("--") else first.message
    hint = _right_place(first) if model is ProjectConfig and first.unknown_key else None
    if first.kind == UNKNOWN_KIND and isinstance(first.value, dict):
        hint = suggestion(first.value["kind"], (*OURS, *SYSTEMS.names()))
    return BadSettings(f"{message}{and_more(len(found) - 1)}", where=at, hint=hint or first.hint)


def _right_place(problem: FieldProblem) -> str | None:
    """Where a key belongs that stands in the wrong section."""
    *around, key = map(str, problem.location)
    if around and around[0] not in sections():
        return None
    if key in ProjectConfig.model_fields:
        return "it belongs at the top"
    return f"it belongs in {section}" if (section := section_of(key)) else None


def find(folder: Path) -> Path | None:
    """``ragassay.yaml`` of a folder; None without one."""
    path = folder / FILE_NAME
    return path if path.is_file() else None


def read(path: Path) -> Document:
    """The document in a file, its paths relative to where the command runs."""
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file", hint="write one: ragassay info init")
    document = read_yaml(path)
    document.values = rebased_paths(document.values, path.parent)
    return document


def read_yaml(path: Path) -> Document:
    """The keys and values in a YAML file, as they stand there; raises NotFound, and BadSettings that names the line."""
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSettings(f"is not UTF-8 text (byte {error.start})", where=str(path)) from None
    document = document_of(text, str(path))
    if document.values is None:
        document.values = {}
    if not isinstance(document.values, dict):
        raise BadSettings("should be keys with values, such as 'judge: local'", where=f"{path}:1")
    return document


def document_of(text: str, name: str) -> Document:
    """YAML with its lines. Plain words are read as in YAML 1.2: 'on' and 'no' are words, 1e-3 is a number."""
    document = Document(None, name)
    try:
        root = yaml.compose(text, _Loader)
        document.values = None if root is None else _value(root, (), document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        lines = text.splitlines()[mark.line : mark.line + 1] if mark else []
        hint = 'quote the path: answer: "$.choices[0].text"' if any(map(_BARE_PATH.search, lines)) else None
        raise BadSettings(f"is not YAML: {error.problem or error.context}", where=where, hint=hint) from None
    except yaml.YAMLError as error:
        raise BadSettings(f"is not YAML: {str(error).splitlines()[0]}", where=name) from None
    except RecursionError:
        raise BadSettings("is nested too deeply", where=name) from None
    return document


_BARE_PATH = re.compile(r"(?<![\"'])\$[^\s\"']*\[")  # a JSONPath whose bracket YAML takes for a list


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


_NUMBER = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
for _kind, _pattern, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", _NUMBER, list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), _first)


def _value(node: yaml.Node, place: Location, document: Document) -> Any:
    where = f"{document.name}:{node.start_mark.line + 1}"
    document.places.setdefault(place, where)
    if isinstance(node, yaml.SequenceNode):
        return [_value(inner, (*place, n), document) for n, inner in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, inner in node.value:
            at, key = f"{document.name}:{key_node.start_mark.line + 1}", str(key_node.value)
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadSettings("a key should be a word", where=at)
            if key in mapping:
                raise BadSettings(f"{key} is given twice", where=at, hint="keep one of the two")
            document.places[(*place, key)] = at
            mapping[key] = _value(inner, (*place, key), document)
        return mapping
    return _scalar(str(node.tag).removeprefix(_TAG), str(node.value), where)


def _scalar(tag: str, text: str, where: str) -> Any:
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    if tag in ("int", "float"):
        number = math.nan if text.lower().endswith(("inf", "nan")) else float(text)
        if not math.isfinite(number):
            raise BadSettings(f"{text[:40]} is not a finite number", where=where)
        return int(text) if tag == "int" else number
    return text


def rebased_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Relative paths as seen from where the command runs; whatever is no text is left for the checks to refuse."""

    def rebased(value: Any, is_path: Callable[[str], bool]) -> Any:
        if isinstance(value, str):
            return str(folder / value) if value and is_path(value) else value
        if isinstance(value, list):
            return [rebased(inner, is_path) for inner in value]
        return {name: rebased(inner, is_path) for name, inner in value.items()} if isinstance(value, dict) else value

    def is_folder(name: str) -> bool:
        return (folder / name).is_dir()

    def system(choice: Any) -> Any:
        if not isinstance(choice, dict):
            return rebased(choice, lambda name: not is_url(name))
        keys = {"function": lambda name: name.partition(":")[0].endswith(".py")}
        keys |= {} if choice.get("kind") == "openai" else {"model": is_folder, "rerank": is_folder}
        return {key: rebased(value, keys[key]) if key in keys else value for key, value in choice.items()}

    keys: dict[str, Callable[[str], bool]] = {
        **dict.fromkeys(("embeddings", "bertscore_model"), is_folder),
        **dict.fromkeys(("corpus", "judge_prompt", "labels", "output"), lambda _: True),
        **dict.fromkeys(("data", "datasets"), lambda name: reference_in(name) is None or is_file(folder / name)),
        "baseline": lambda reference: (folder / run_and_system(reference, folder)[0]).exists(),
        "plugins": lambda name: name.endswith(".py"),
    }
    changed = {key: rebased(value, keys[key]) for key, value in values.items() if key in keys}
    if isinstance(systems := values.get("systems"), dict):
        changed["systems"] = {name: system(choice) for name, choice in systems.items()}
    return values | changed
