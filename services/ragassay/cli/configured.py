"""The configuration of a command: its options over the environment over a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer

from ragassay.core.declarations import Option
from ragassay.core.errors import BadSettings
from ragassay.core.options import BudgetOptions, FileOptions, JobOptions, PerformanceOptions

if TYPE_CHECKING:
    from ragassay.config import Configuration, Layer

_Command = TypeVar("_Command", bound=Callable[..., None])


class Declaration(NamedTuple):
    """An option with its type and default."""

    type: Any
    default: Any
    option: Option


def _with_flags() -> dict[str, Declaration]:
    """The options that the command line has, by their keys."""
    declared = {
        key: Declaration(hint.__origin__, getattr(group, key, None), hint.__metadata__[-1])
        for group in (FileOptions, JobOptions, PerformanceOptions, BudgetOptions)
        for key, hint in get_type_hints(group, include_extras=True).items()
    }
    return {key: declaration for key, declaration in declared.items() if declaration.option.flags}


DECLARED = _with_flags()
_LISTS = (tuple[str, ...], tuple[Any, ...])  # of texts, and of what a text is short for


def option(key: str, note: str = "") -> Any:
    """What typer is told of a declared option; its help ends with ``note``."""
    kind, _, option = DECLARED[key]
    choices = f"<{'|'.join(map(str, get_args(kind)))}>" if get_origin(kind) is Literal else None
    about = (option.usage or option.about).replace("`", "")
    help_ = f"{about[:1].upper()}{about[1:]}.{note}"
    return typer.Option(*option.flags, metavar=option.metavar or choices, help=help_)


Plugins = Annotated[list[str] | None, option("plugins")]


def takes_options(*, without: Collection[str] = ()) -> Callable[[_Command], _Command]:
    """A command whose ``**options`` are the declared ones, as typer reads a signature; None where one is not used."""

    def decorate(command: _Command) -> _Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        declared = [_parameter(key) for key in DECLARED if key not in without]
        vars(command)["__signature__"] = signature.replace(parameters=[*declared, *own])
        return command

    return decorate


def _parameter(key: str) -> inspect.Parameter:
    """An option as text, which is read as a variable's is; a list where it may be repeated."""
    kind, default, _ = DECLARED[key]
    if kind is bool:  # the flag turns it off
        typed: Any = bool
    elif kind == tuple[Path, ...]:
        typed = list[Path] | None
    else:
        typed = list[str] | None if kind in _LISTS or get_origin(kind) is dict else str | None
    note = "" if default in (None, (), {}) or kind is bool else f" [{default}]"
    annotation = Annotated[typed, option(key, note)]
    unused = False if kind is bool else None
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=unused, annotation=annotation)


def _value(key: str, value: Any) -> Any:
    """What an option that was used means, as a file would have it."""
    from ragassay.config import parsed

    kind, default, option = DECLARED[key]
    if kind is bool:
        return not default
    if kind in (tuple[Path, ...], *_LISTS):
        return list(map(str, value))
    return pairs(value, option.flags[-1], str(option.metavar)) if get_origin(kind) is dict else parsed(key, value)


def used(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command's options that were used."""
    return {key: value for key, value in options.items() if value is not None and value is not False and value != []}


def configured(
    path: Path | None,
    options: Mapping[str, Any],
    *,
    data: Path | None = None,
    remote: bool = False,
) -> Configuration:
    """Resolve what the command line, RAGASSAY_* and a file set; ``data`` is the argument DATA.

    The file is the one at ``path``. Without ``path``, DATA and datasets it is ``ragassay.yaml`` of the current folder, if
    there is one, and a line on stderr says so. ``remote``: a service does the work, so RAGASSAY_API_BASE does not count.
    Raises BadSettings, UnknownName, NotFound.
    """
    from ragassay import config

    names_data = data is not None or options.get("datasets")
    if path is None and not names_data:
        path = config.find(Path())
        if path is not None:
            typer.echo(f"configuration: {path}", err=True)
    layers = [config.environment(named=path is not None, remote=remote), command_line(options, data)]
    if path is not None:
        layers = [config.read(path), *layers]
    config.import_plugins(layers)
    return config.resolve(layers)


def reading(configuration: Configuration) -> dict[str, Any]:
    """How a file of rows is read."""
    return {
        "format": configuration.format,
        "mapping": configuration.map,
        "duplicates": configuration.duplicates,
        "limit": configuration.limit,
    }


def import_plugins(names: Sequence[str] | None) -> None:
    """Run the plug-ins of the environment and those of ``--import``, for a command without a configuration."""
    from ragassay import config

    config.import_plugins([config.Layer({"plugins": list(names or ())}, "--import")])


def command_line(options: Mapping[str, Any], data: Path | None = None) -> Layer:
    """The options that were used as a layer of the configuration."""
    from ragassay.config import Layer

    flat = {key: _value(key, value) for key, value in used(options).items()}
    places = {key: DECLARED[key].option.flags[-1] for key in flat}
    if data is not None:
        flat["data"], places["data"] = str(data), "DATA"
    return Layer.of_options(flat, "command line", places)


def pairs(texts: list[str] | None, flag: str, form: str) -> dict[str, str]:
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
