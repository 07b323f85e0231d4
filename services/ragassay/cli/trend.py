"""``ragassay trend``: a metric over the runs in the home folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.errors import AssayError, BadSettings

if TYPE_CHECKING:
    from ragassay.documents import Report
    from ragassay.settings import Settings
    from ragassay.trends import Trend

Metric = Annotated[str, typer.Argument(help="A metric, cost_per_accurate_answer, or such as latency_ms.p95.")]
System = Annotated[str | None, typer.Option("--system", metavar="NAME", help="Only this system.")]
Dataset = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="Runs on this dataset. [that of the newest run]")
]
Last = Annotated[int | None, typer.Option("--last", metavar="N", help="Only the newest N runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def trend(
    metric: Metric, system: System = None, dataset: Dataset = None, last: Last = None, as_json: AsJson = False
) -> None:
    """Show a metric over the runs so far, and where its level changed."""
    import orjson

    from ragassay import trends
    from ragassay.cli.configured import configured
    from ragassay.gates.figures import Figure
    from ragassay.settings import Settings

    if last is not None and last < 1:
        raise BadSettings(f"should be at least 1, is {last}", where="--last")
    Figure.parse(metric)
    configuration = configured(None, {})
    alpha, seed = configuration.statistics.alpha, configuration.seed
    found = trends.trend(
        _reports(Settings()), metric, system=system, dataset=dataset, last=last, alpha=alpha, seed=seed
    )
    if as_json:
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        sys.stdout.buffer.write(orjson.dumps(found.model_dump(mode="json"), option=options))
        sys.stdout.buffer.flush()
    else:
        _print(found)


def _reports(settings: Settings) -> Iterator[Report]:
    """One report at a time, oldest first; a run that can't be read is named on stderr."""
    from ragassay.store.folder import FolderStore

    store = FolderStore(settings.home)
    for run in store.ids():
        try:
            report = store.open(run).report
        except (AssayError, ValueError):
            typer.echo(f"left out: {run} has no report that this version can read", err=True)
            continue
        yield report


def _print(found: Trend) -> None:
    from ragassay.gates.wording import number

    typer.echo(f"{found.metric} on {found.dataset} ({found.better} is better)")
    for system, series in found.systems.items():
        typer.echo(f"\n{system}")
        steps = {series.known[change.index].run: change for change in series.changes}
        digest = series.points[0].dataset_digest
        for point in series.points:
            if point.dataset_digest != digest:
                typer.echo("  -- the dataset's content changed --")
                digest = point.dataset_digest
            if change := steps.get(point.run):
                said = f"{number(change.before, change.after)} to {number(change.after, change.before)}"
                typer.echo(f"  -- the level changed from {said} (p={change.p:.3g}) --")
            value = "none" if point.value is None else number(point.value)
            interval = ""
            if point.interval and point.interval.low is not None:
                high = "unbounded" if point.interval.high is None else number(point.interval.high)
                interval = f"{number(point.interval.low)}..{high}"
            why = f"  {point.reason}" if point.reason else ""
            typer.echo(
                f"  {point.created_at[:16]}  {value:>9}  {interval:<20} n={point.n}/{point.rows}  {point.run}{why}"
            )
        if not series.changes:
            typer.echo(f"  no change of level found over {len(series.known)} runs")
