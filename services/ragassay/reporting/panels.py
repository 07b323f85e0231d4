"""Panels of one's own on the page of a run and in its exports: a function of its report that gives a chart or a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ragassay.core.errors import BadSettings, class_and_reason
from ragassay.core.plugins import Registry
from ragassay.core.report import ReportWithResults
from ragassay.reporting.charts import Chart
from ragassay.reporting.document import Sentences, Table

Draw = TypeVar("Draw", bound=Callable[[ReportWithResults], Chart | Table | None])


def panel(name: str) -> Callable[[Draw], Draw]:
    """Register a function from a Report to a ``Chart`` or ``Table``, or None if it has nothing to show of that run.

    If it fails, a sentence stands in its place. Raises BadSettings for an empty name.
    """
    if not isinstance(name, str) or not name.strip():
        raise BadSettings("a panel has a name", hint='say it: @panel("tokens by system")')

    def register(draw: Draw) -> Draw:
        PANELS.add(name, draw)
        return draw

    return register


PANELS: Registry[Callable[[ReportWithResults], object]] = Registry("panel")


def panels(report: ReportWithResults) -> Iterator[Chart | Table | Sentences]:
    """What each registered panel shows of a report, or why it shows nothing."""
    for name in PANELS.names():
        try:
            shown = PANELS.get(name)(report)
        except Exception as error:  # the user's code
            yield Sentences(name, (f"the panel {name} raised {class_and_reason(error)}",))
            continue
        if isinstance(shown, Chart | Table):
            yield shown
        elif shown is not None:
            what = f"the panel {name} returned a {type(shown).__name__}, neither a Chart nor a Table"
            yield Sentences(name, (what,))
