"""Options that commands share, each with one meaning, and ``--set`` for every key of the configuration without a flag."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from ragassay.core.errors import BadSettings

if TYPE_CHECKING:
    from ragassay.config import Override, ProjectConfig

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

System = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        metavar="NAME=FILE|URL",
        help="Responses of a system, or the address that it answers at. Repeatable.",
    ),
]
Judge = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        metavar="local|MODEL",
        help="A judge: local, or a model that LiteLLM supports; MODEL,samples=3 or MODEL,role=reference,on=0.2. "
        "Repeatable. [local]",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="A,B",
        help="Metrics to compute; see: ragassay info metrics. [every usual one that the rows have the input for]",
    ),
]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the run. [that of the data]")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Only the first N rows. [all]")]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OURS=THEIRS", help="Column of a field that isn't recognized. Repeatable."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Seed of the judge and of every random draw. [0]")
]
Dataset = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="NAME=FILE", help="A file of queries, or a stored dataset. Repeatable."),
]
BaselineName = Annotated[
    str | None,
    typer.Option("--baseline", metavar="SYSTEM", help="With several datasets: the system to compare with. [the first]"),
]
Concurrency = Annotated[int | None, typer.Option("-j", "--concurrency", metavar="N", help="Judge calls at once. [8]")]
BudgetUsd = Annotated[
    float | None,
    typer.Option("--budget-usd", metavar="USD", help="The most that judge calls may cost, in USD. [no cap]"),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any key of the configuration, such as statistics.alpha=0.01; see: ragassay info init. Repeatable.",
    ),
]


class Flag(NamedTuple):
    """A flag: its name, the key of the configuration that it sets, and its type and help for typer."""

    name: str
    location: tuple[str, ...]
    annotation: Any


FLAGS = {
    "system": Flag("--system", ("systems",), System),
    "judge": Flag("--judge", ("judges",), Judge),
    "dataset": Flag("--dataset", ("datasets",), Dataset),
    "baseline": Flag("--baseline", ("baseline",), BaselineName),
    "metrics": Flag("--metrics", ("metrics",), Metrics),
    "name": Flag("--name", ("name",), Name),
    "limit": Flag("--limit", ("limit",), Limit),
    "map": Flag("--map", ("map",), Map),
    "seed": Flag("--seed", ("seed",), Seed),
    "concurrency": Flag("-j", ("performance", "concurrency"), Concurrency),
    "budget_usd": Flag("--budget-usd", ("budget", "usd"), BudgetUsd),
    "output": Flag("-o", ("output",), Outputs),
    "plugins": Flag("--import", ("plugins",), Plugins),
    "settings": Flag("--set", (), Set),
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


def overrides(options: Mapping[str, Any]) -> list[Override]:
    """What the flags that were used set in a configuration; ``--set`` comes last."""
    from ragassay.config import Override
    from ragassay.metrics.names import split_names

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
    from ragassay import config

    given = overrides(options)
    if data is not None:
        given.append(config.Override(("data",), str(data), "DATA"))
    keys = {key: value for key, value in (schedule or {}).items() if value is not None}
    given += [config.Override(("schedule", key), value, f"--{key}") for key, value in keys.items()]
    names_data = any(override.location[0] in ("data", "datasets") for override in given)
    if path is None and not names_data and (path := config.find(Path())) is not None:
        typer.echo(f"configuration: {path}", err=True)
    return config.load(path, given, remote=remote)


def import_plugins(names: Sequence[str] | None) -> None:
    """Run the plug-ins of the environment and those of ``--import``, for a command without a configuration."""
    from ragassay import config

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


def instead_of(flag: str) -> str | None:
    """How to set the key of the configuration that a flag seems to mean; None for a flag that means none."""
    from ragassay.config.model import ProjectConfig, section_of

    key = flag.removeprefix("--").replace("-", "_")
    section = section_of(key)
    if section is None and key not in ProjectConfig.model_fields:
        return None
    return f"--set {f'{section}.{key}' if section else key}=VALUE"
