"""How the figures of a run's rows are distributed, drawn from the columns beside them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ragassay.dashboard.site import address_of
from ragassay.documents import Report
from ragassay.exporters.charts import Chart, histogram
from ragassay.store.places import RowPlaces

MOST_SYSTEMS = 6  # beside each other in a column
_FIGURES = {
    "latency_ms": ("Latency of a response: how many rows", "ms"),
    "cost_usd": ("Cost of a query: how many rows", "USD"),
}


def distributions(run: str, report: Report, rows: RowPlaces) -> Iterator[Chart]:
    """What responses took and cost, as far as they report it; a column leads to its rows."""
    shown = list(report.systems)[:MOST_SYSTEMS]
    for figure, (title, unit) in _FIGURES.items():
        by_system = rows.column(figure).reshape(len(rows.systems), -1)
        values = {name: by_system[rows.systems.index(name)] for name in shown}
        known = int(np.isfinite(by_system).sum())
        note = f"{known:,} of {sum(one.queries for one in report.systems.values()):,} rows report it."
        note += f" Of the first {MOST_SYSTEMS} systems." if len(report.systems) > MOST_SYSTEMS else ""
        if drawn := histogram(title, unit, values, note=note, address=partial(_rows, run, figure)):
            yield drawn


def _rows(run: str, figure: str, system: str, low: float, high: float | None) -> str:
    bounds = (f"{figure}>={low:.12g}", *([] if high is None else [f"{figure}<{high:.12g}"]))
    return f"/ui/runs/{run}/queries?{address_of({'system': system, 'where': bounds, 'sort': figure})}"
