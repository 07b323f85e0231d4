"""Options that commands share, each with one meaning, and ``--set`` for every key of the configuration without a flag."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from ragassay import config
from ragassay.config import Override, ProjectConfig
from ragassay.core.errors import BadSettings
from ragassay.core.formatting import split_names

_Command = TypeVar("_Command", bound=Callable[..., None])
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The service. [http://127.0.0.1:8400]")]
AtServer = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="Use the service at URL instead of this folder.")
]
Last = Annotated[int, typer.Option("--last", metavar="N", min=1, help="Only the newest N.")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration. [without DATA: ./ragassay.yaml]")
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="FILE.py|MODULE",
        help="Run a file, or import a module, that registers metrics, judges, systems or exporters. Repeatable.",
    ),
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option("-o", "--output", metavar="FILE", help="Also write FILE; its extension picks the format. Repeatable."),
]

Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OURS=THEIRS", help="Column of a field that isn't recognized. Repeatable."),
]
Concurrency = Annotated[int | None, typer.Option("-j", "--concurrency", metavar="N", help="Judge calls at once. [8]")]
BudgetUsd = Annotated[
    float | None,
    typer.Option("--budget-usd", metavar="USD", help="The most that judge calls may cost, in USD. [no cap]"),
]


class Flag(NamedTuple):
    """A flag: its name, the key of the configuration that it sets, and its type and help for typer."""

    name: str
    location: tuple[str, ...]
    annotation: Any


def _flag(name: str, key: str, kind: Any, metavar: str, about: str) -> Flag:
    return Flag(name, (key,), Annotated[kind, typer.Option(name, metavar=metavar, help=about)])


_TEXT, _TEXTS = str | None, list[str] | None
FLAGS = {
    "system": _flag(
        "--system",
        "systems",
        _TEXTS,
        "NAME=FILE|URL",
        "Responses of a system, or its address, which is sent {query} and replies {answer, contexts}. Repeatable.",
    ),
    "judge": _flag(
        "--judge",
        "judges",
        _TEXTS,
        "local|MODEL",
        "A judge: local, or a model that LiteLLM supports; MODEL,samples=3 or MODEL,role=reference,on=0.2. "
        "Repeatable. [local]",
    ),
    "dataset": _flag(
        "--dataset", "datasets", _TEXTS, "NAME=FILE", "A file of queries, or a stored dataset. Repeatable."
    ),
    "baseline": _flag(
        "--baseline", "baseline", _TEXT, "SYSTEM", "With several datasets: the system to compare with. [the first]"
    ),
    "metrics": _flag(
        "--metrics",
        "metrics",
        _TEXT,
        "A,B",
        "Metrics to compute; see: ragassay info metrics. [every usual one that the rows have the input for]",
    ),
    "name": _flag("--name", "name", _TEXT, "NAME", "Name of the run. [that of the data]"),
    "limit": _flag("--limit", "limit", int | None, "N", "Only the first N rows. [all]"),
    "map": Flag("--map", ("map",), Map),
    "seed": _flag("--seed", "seed", int | None, "N", "Seed of the judge and of every random draw. [0]"),
    "concurrency": Flag("-j", ("performance", "concurrency"), Concurrency),
    "budget_usd": Flag("--budget-usd", ("budget", "usd"), BudgetUsd),
    "output": Flag("-o", ("output",), Outputs),
    "plugins": Flag("--import", ("plugins",), Plugins),
    "settings": _flag(
        "--set",
        "",
        _TEXTS,
        "KEY=VALUE",
        "Any key of the configuration, such as statistics.alpha=0.01; see: ragassay info init. Repeatable.",
    ),
}


def takes_options(*, without: Collection[str] = ()) -> Callable[[_Command], _Command]:
    """A command whose ``**options`` are ``FLAGS``, as typer reads a signature; None for each that is not used."""

    def decorate(command: _Command) -> _Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shared = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=flag.annotation)
            for key, flag in FLAGS.items()
            if key not in without
        ]
        vars(command)["__signature__"] = signature.replace(parameters=[*shared, *own])
        return command

    return decorate


def used(options: Mapping[str, Any]) -> list[str]:
    """The flags that were used, as they are typed."""
    return [FLAGS[key].name for key in _given(options)]


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were used, also with a value such as 0 or the empty text."""
    return {key: value for key, value in options.items() if value is not None and value != []}


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are given."""
    return {key: value for key, value in values.items() if value is not None}


def overrides(options: Mapping[str, Any]) -> list[Override]:
    """What the flags that were used set in a configuration; ``--set`` comes last."""
    values = _given(options)
    texts = values.pop("settings", ())
    read: dict[str, Callable[[Any], Any]] = {
        "system": lambda texts: pairs(texts, "--system", "NAME=FILE|URL"),
        "dataset": lambda texts: pairs(texts, "--dataset", "NAME=FILE"),
        "map": lambda texts: pairs(texts, "--map", "OURS=THEIRS"),
        "metrics": split_names,
        "output": lambda paths: list(map(str, paths)),
    }
    flags = {
        key: Override(FLAGS[key].location, read.get(key, lambda value: value)(value), FLAGS[key].name)
        for key, value in values.items()
    }
    return [*flags.values(), *map(Override.of_text, texts)]


def configured(
    path: Path | None,
    options: Mapping[str, Any],
    *,
    data: Path | None = None,
    remote: bool = False,
    schedule: Mapping[str, Any] | None = None,
) -> ProjectConfig:
    """The configuration of a command: that of a file, changed by its flags; ``data`` is the argument DATA.

    The file is the one at ``path``. Without ``path`` and DATA it is ``ragassay.yaml`` of the current folder, if there is
    one, and a line on stderr says so. ``remote``: a service does the work. ``schedule``: keys of that section.
    Raises BadSettings, UnknownName, NotFound.
    """
    given = overrides(options)
    if data is not None:
        given.append(config.Override(("data",), str(data), "DATA"))
    given += [config.Override(("schedule", key), value, f"--{key}") for key, value in (schedule or {}).items()]
    names_data = any(override.location[0] in ("data", "datasets") for override in given)
    if path is None and not names_data and (path := config.find(Path())) is not None:
        typer.echo(f"configuration: {path}", err=True)
    return config.load(path, given, remote=remote)


def import_plugins(names: Sequence[str] | None) -> None:
    """Run the plug-ins of the environment and those of ``--import``, for a command without a configuration."""
    config.import_plugins(config.Document({"plugins": list(names or ())}, "--import"))


def pairs(texts: Sequence[str] | None, flag: str, form: str) -> dict[str, str]:
    """{name: value} of a repeatable option NAME=VALUE; raises BadSettings."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise BadSettings(f"{flag} {text!r} is not of the form {form}")
        if name.strip() in pairs:
            raise BadSettings(f"{flag} names {name.strip()!r} twice")
        pairs[name.strip()] = value.strip()
    return pairs
