"""Options of one metric, in its name: ``rougeL(stem=true)``, ``alpha_ndcg@10(alpha=0.3)``.

They are the keywords with a default of the metric's function; what a value may be, its annotation or its default says.
"""

from __future__ import annotations

import re
import typing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragassay.errors import BadSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ragassay.metrics.base import Metric

_NAME = re.compile(r"([^()]*)\((.*)\)")
_OUTSIDE = re.compile(r",(?![^()]*\))")
_WORDS = {"true": True, "false": False}


def split(text: str) -> tuple[str, str]:
    """The name, and what stands in the parentheses at its end; empty without any."""
    match = _NAME.fullmatch(text.strip())
    return (match[1].strip(), match[2].strip()) if match else (text, "")


def listed(text: str) -> list[str]:
    """The names in a text that has commas between them; those within parentheses part options."""
    return [name.strip() for name in _OUTSIDE.split(text) if name.strip()]


def as_text(options: Iterable[tuple[str, Any]]) -> str:
    """As they stand at the end of a name; empty without any."""
    pairs = [f"{key}={_text(value)}" for key, value in options]
    return f"({','.join(pairs)})" if pairs else ""


def with_options(metric: Metric, text: str) -> Metric:
    """The metric with these options; raises BadSettings for one that it has not, and for a value that does not fit."""
    usual = {} if metric.parts else metric.usual_options
    given: dict[str, Any] = {}
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        where = f"metric {metric.name!r}"
        if not (key and equals and value):
            raise BadSettings(f"{where}: can't read the option {pair.strip()!r}", hint="write (option=value)")
        if key not in usual:
            known = ", ".join(f"{name}={_text(default)}" for name, default in usual.items())
            raise BadSettings(f"{where}: has no option {key!r}", hint=f"it has: {known}" if known else "it has none")
        if key in given:
            raise BadSettings(f"{where}: {key} is given twice")
        given[key] = _read(metric, key, value, where)
    return replace(
        metric, options=tuple((key, given[key]) for key in usual if given.get(key, usual[key]) != usual[key])
    )


def _read(metric: Metric, key: str, text: str, where: str) -> Any:
    """The value in a text, as the function's annotation, else its default, wants it."""
    from pydantic import TypeAdapter, ValidationError  # not above: a TREC file is read without it

    from ragassay.validation import wording

    value: Any = _WORDS.get(text.lower(), text)
    if value is text:
        try:
            value = int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
        except ValueError:
            value = text.strip("\"'")
    wanted = _annotation(metric, key)
    try:
        return TypeAdapter(wanted).validate_python(value, strict=wanted is not float)
    except ValidationError as error:
        raise BadSettings(f"{where}: {key} {wording(error.errors()[0])}") from None


def _annotation(metric: Metric, key: str) -> Any:
    default = metric.usual_options[key]
    try:
        hints = typing.get_type_hints(metric.function, include_extras=True)
    except (NameError, TypeError):  # an annotation that is there for a type checker alone
        hints = {}
    return hints.get(key) or (type(default) if default is not None else Any)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
