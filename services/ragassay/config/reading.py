"""Configuration files -> a layer of values, each with the place where it stands."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ragassay.config.layers import Layer
from ragassay.core.addresses import is_url
from ragassay.core.errors import BadSettings, NotFound
from ragassay.core.report import run_and_system
from ragassay.core.validation import Location
from ragassay.datasets.versions import is_file, reference_in

if TYPE_CHECKING:
    import yaml

FILE_NAME = "ragassay.yaml"
LARGEST_FILE = 1_000_000  # bytes
_TAG = "tag:yaml.org,2002:"


def find(folder: Path) -> Path | None:
    """``ragassay.yaml`` of a folder; None without one."""
    path = folder / FILE_NAME
    return path if path.is_file() else None


def read(path: Path) -> Layer:
    """The values in a YAML file, as ``parse`` gives them. Paths are made relative to its folder."""
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file", hint="write one: ragassay info init")
    layer = parse(path)
    return Layer(rebased_paths(layer.values, path.parent), layer.name, layer.places)


def parse(path: Path) -> Layer:
    """The values in a YAML file, as they stand there.

    Raises NotFound, and BadSettings that names the line: not YAML, a key twice, an alias, NaN or infinity.
    """
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file")
    if path.stat().st_size > LARGEST_FILE:
        raise BadSettings(f"is larger than {LARGEST_FILE:,} bytes", where=str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSettings(f"is not UTF-8 text (byte {error.start})", where=str(path)) from None
    try:
        return _yaml(text, path)
    except RecursionError:
        raise BadSettings("is nested too deeply", where=str(path)) from None


def _yaml(text: str, path: Path) -> Layer:
    import yaml

    try:
        root = yaml.compose(text, _loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise BadSettings(f"is not YAML: {error.problem or error.context}", where=where) from None
    except yaml.YAMLError as error:
        raise BadSettings(f"is not YAML: {str(error).splitlines()[0]}", where=str(path)) from None
    places: dict[Location, str] = {}
    values = None if root is None else _value(root, (), places, path)
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise BadSettings("should be keys with values, such as 'judge: local'", where=f"{path}:1")
    return Layer(values, str(path), places)


def _loader() -> type[yaml.SafeLoader]:
    """Reads plain words as YAML 1.2 does: 'on' and 'no' are words and 1e-3 is a number. Knows no aliases."""
    import re

    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                what = "aliases (*name) are not read; write the value out"
                raise yaml.composer.ComposerError(None, None, what, event.start_mark)
            return super().compose_node(parent, index)

    for tag, pattern, first in (
        ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"[-+]?[0-9]+", list("-+0123456789")),
        (
            "float",
            r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
            list("-+.0123456789"),
        ),
    ):
        Loader.add_implicit_resolver(f"{_TAG}{tag}", re.compile(f"^(?:{pattern})$"), first)
    return Loader


def _value(node: yaml.Node, place: Location, places: dict[Location, str], path: Path) -> Any:
    import yaml

    where = f"{path}:{node.start_mark.line + 1}"
    places.setdefault(place, where)
    if isinstance(node, yaml.SequenceNode):
        return [_value(inner, (*place, n), places, path) for n, inner in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, inner in node.value:
            at = f"{path}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise BadSettings("a key should be a word", where=at)
            key = _scalar("str", str(key_node.value), at)
            if key in mapping:
                raise BadSettings(f"{key} is given twice", where=at, hint="keep one of the two")
            places[(*place, key)] = at
            mapping[key] = _value(inner, (*place, key), places, path)
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
    if tag != "str":
        raise BadSettings(f"the tag !{tag} is not read", where=where, hint="write a plain value")
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")  # JSON writes large characters as two halves
    except UnicodeDecodeError:
        raise BadSettings("holds half a character (a lone surrogate)", where=where) from None


def rebased_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Relative paths as seen from where the command runs; whatever is no text is left for the checks to refuse."""

    def rebase(value: Any) -> Any:
        return str(folder / value) if isinstance(value, str) and value else value

    def system(choice: Any) -> Any:
        if not isinstance(choice, dict):
            return choice if is_url(choice) else rebase(choice)
        local = () if choice.get("kind") == "openai" else ("model", "rerank")
        models = {key: choice[key] for key in local if isinstance(choice.get(key), str)}
        own = {key: rebase(name) for key, name in models.items() if (folder / name).is_dir()}
        function = choice.get("function")
        if isinstance(function, str) and function.partition(":")[0].endswith(".py"):
            own["function"] = rebase(function)
        return {**choice, **own}

    rebased = dict(values)
    for key in ("data", "corpus", "judge_prompt", "labels"):
        if key in rebased and not (key == "data" and _is_stored(rebased[key], folder)):
            rebased[key] = rebase(rebased[key])
    for key in ("embeddings", "bertscore_model"):
        if isinstance(rebased.get(key), str) and (folder / rebased[key]).is_dir():
            rebased[key] = rebase(rebased[key])
    if isinstance(rebased.get("datasets"), dict):
        given = rebased["datasets"]
        rebased["datasets"] = {name: d if _is_stored(d, folder) else rebase(d) for name, d in given.items()}
    if isinstance(rebased.get("systems"), dict):
        rebased["systems"] = {name: system(choice) for name, choice in rebased["systems"].items()}
    if isinstance(rebased.get("output"), list):
        rebased["output"] = [rebase(file) for file in rebased["output"]]
    if isinstance(rebased.get("plugins"), list):
        files = rebased["plugins"]
        rebased["plugins"] = [rebase(f) if isinstance(f, str) and f.endswith(".py") else f for f in files]
    baseline = rebased.get("baseline")
    if isinstance(baseline, str) and (folder / run_and_system(baseline, folder)[0]).exists():
        rebased["baseline"] = rebase(baseline)
    return rebased


def _is_stored(data: Any, folder: Path) -> bool:
    """Is it the name of a stored dataset rather than of a file?"""
    return isinstance(data, str) and reference_in(data) is not None and not is_file(folder / data)
