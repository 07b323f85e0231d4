"""A custom panel on the page of a run: how much slower slow answers are."""

from ragassay import Report
from ragassay.reporting.charts import Chart, Drawn, bars
from ragassay.reporting.panels import panel


@panel("latency spread")
def spread(report: Report) -> Chart | None:
    """A bar for each system: how many times as long as the median answer the slow ones take."""
    times = {name: one.latency_ms for name, one in report.systems.items() if one.latency_ms.p50}
    ratios = {name: (time.p95 or 0.0) / (time.p50 or 1.0) for name, time in times.items()}
    return bars("p95 of the latency", "times the median", {n: Drawn(n, r, f"{r:.1f} x") for n, r in ratios.items()})
