"""Options that commands share, each with one meaning, and ``--set`` for every key of the configuration without a flag.

What a command's help does not need is imported when the command runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer
from typer import Option

from ragassay.core.errors import BadSettings
from ragassay.core.formatting import split_names

if TYPE_CHECKING:
    from ragassay.client import Client
    from ragassay.config import Override, ProjectConfig

_Command = TypeVar("_Command", bound=Callable[..., None])
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Server = Annotated[str | None, Option("--server", metavar="URL", help="The service. [http://127.0.0.1:8400]")]
AtServer = Annotated[
    str | None, Option("--server", metavar="URL", help="Use the service at URL instead of this folder.")
]
Last = Annotated[int, Option("--last", metavar="N", min=1, help="Only the newest N.")]
Config = Annotated[
    Path | None, Option("--config", metavar="FILE", help="Configuration. [without DATA: ./ragassay.yaml]")
]
Plugins = Annotated[
    list[str] | None,
    Option(
        "--import",
        metavar="FILE.py|MODULE",
        help="Run a file, or import a module, that registers metrics, judges, systems or exporters. Repeatable.",
    ),
]
Outputs = Annotated[
    list[Path] | None,
    Option("-o", "--output", metavar="FILE", help="Also write FILE; its extension picks the format. Repeatable."),
]

Map = Annotated[
    list[str] | None,
    Option(
        "--map",
        metavar="OURS=THEIRS",
        help="Your column of a field, such as answer=reply or contexts=docs.text, if its name isn't recognized. Repeatable, "
        "also for one field, if the columns of your files differ.",
    ),
]
Concurrency = Annotated[int | None, Option("-j", "--concurrency", metavar="N", help="Judge calls at once. [8]")]
BudgetUsd = Annotated[
    float | None, Option("--budget-usd", metavar="USD", help="The most that judge calls may cost, in USD. [no cap]")
]


class Flag(NamedTuple):
    """A flag: its name, the key of the configuration that it sets, its type and help for typer, and what reads its value."""

    name: str
    location: tuple[str, ...]
    annotation: Any
    read: Callable[[Any], Any] = lambda value: value


def _pairs(form: str, flag: str) -> Callable[[Sequence[str]], dict[str, str]]:
    return lambda texts: pairs(texts, flag, form)


def named_columns(texts: Sequence[str] | None) -> dict[str, list[str]]:
    """{our field: their columns} of ``--map``, which may name a field several times, for files with different columns."""
    columns: dict[str, list[str]] = {}
    for text in texts or ():
        for ours, theirs in pairs([text], "--map", "OURS=THEIRS").items():
            columns.setdefault(ours, []).append(theirs)
    return columns


def _text(name: str, key: str, metavar: str, about: str, kind: Any = str | None) -> Flag:
    return Flag(name, (key,), Annotated[kind, Option(name, metavar=metavar, help=about)])


def _named(name: str, key: str, form: str, about: str) -> Flag:
    """A repeatable flag NAME=VALUE."""
    return _text(name, key, form, about, list[str] | None)._replace(read=_pairs(form, name))


_JUDGE = (
    "A judge: local, or a model that LiteLLM supports; MODEL,samples=3 or MODEL,role=reference,on=0.2. "
    "Repeatable. [local]"
)
_SYSTEM = (
    "Responses of a system; its address, which is sent {query} and replies {answer, contexts}; or app.py:ask, a function that "
    "takes the query and returns {answer, contexts}. For an address with another body or reply: --set "
    "systems.NAME.request='{q: \"{query}\"}' and --set systems.NAME.reply='{answer: \"$.text\"}', or ragassay.yaml. Repeatable."
)
_METRICS = "Metrics to compute; see: ragassay info metrics. [every usual one that the rows have the input for]"
_ANY_KEY = "Any key of the configuration, such as statistics.alpha=0.01; see: ragassay info init. Repeatable."
FLAGS = {
    "system": _named("--system", "systems", "NAME=FILE|URL", _SYSTEM),
    "judge": _text("--judge", "judges", "local|MODEL", _JUDGE, list[str] | None),
    "dataset": _named("--dataset", "datasets", "NAME=FILE", "A file of queries, or a stored dataset. Repeatable."),
    "baseline": _text(
        "--baseline", "baseline", "SYSTEM", "With several datasets: the system to compare with. [the first]"
    ),
    "metrics": _text("--metrics", "metrics", "A,B", _METRICS)._replace(read=split_names),
    "name": _text("--name", "name", "NAME", "Name of the run. [that of the data]"),
    "limit": _text("--limit", "limit", "N", "Only the first N rows. [all]", int | None),
    "map": Flag("--map", ("map",), Map, named_columns),
    "seed": _text("--seed", "seed", "N", "Seed of the judge and of every random draw. [0]", int | None),
    "concurrency": Flag("-j", ("performance", "concurrency"), Concurrency),
    "budget_usd": Flag("--budget-usd", ("budget", "usd"), BudgetUsd),
    "output": Flag("-o", ("output",), Outputs, lambda paths: list(map(str, paths))),
    "plugins": Flag("--import", ("plugins",), Plugins),
    "settings": _text("--set", "", "KEY=VALUE", _ANY_KEY, list[str] | None),
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


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were used, also with a value such as 0 or the empty text."""
    return {key: value for key, value in values.items() if value is not None and value != []}


def used(options: Mapping[str, Any]) -> list[str]:
    """The flags that were used, as they are typed."""
    return [FLAGS[key].name for key in given(options)]


def overrides(options: Mapping[str, Any]) -> list[Override]:
    """What the flags that were used set in a configuration; ``--set`` comes last."""
    from ragassay.config import Override

    values = given(options)
    texts = values.pop("settings", ())
    flags = [Override(FLAGS[key].location, FLAGS[key].read(value), FLAGS[key].name) for key, value in values.items()]
    return [*flags, *map(Override.of_text, texts)]


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

    changes = overrides(options)
    if data is not None:
        changes.append(config.Override(("data",), str(data), "DATA"))
    changes += [config.Override(("schedule", key), value, f"--{key}") for key, value in (schedule or {}).items()]
    names_data = any(override.location[0] in ("data", "datasets") for override in changes)
    if path is None and not names_data and (path := config.find(Path())) is not None:
        typer.echo(f"configuration: {path}", err=True)
    return config.load(path, changes, remote=remote)


def import_plugins(names: Sequence[str] | None) -> None:
    """Run the plug-ins of the environment and those of ``--import``, for a command without a configuration."""
    from ragassay import config

    config.import_plugins(config.Document({"plugins": list(names or ())}, "--import"))


def client(server: str | None) -> Client:
    """The service at the address, or the one of RAGASSAY_SERVER."""
    from ragassay.client import Client

    return Client(server)


def pairs(texts: Sequence[str] | None, flag: str, form: str) -> dict[str, str]:
    """{name: value} of a repeatable option NAME=VALUE; raises BadSettings."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise BadSettings(f"{flag} {text!r} is not of the form {form}")
        if name in pairs:
            raise BadSettings(f"{flag} names {name!r} twice")
        pairs[name] = value
    return pairs
