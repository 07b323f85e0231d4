"""``ragassay trend``: a metric over the runs in the home folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.configured import AsJson, Plugins
from ragassay.errors import AssayError, BadSettings

if TYPE_CHECKING:
    from ragassay.compare.trends import Trend
    from ragassay.documents import Report
    from ragassay.settings import Settings

FigureName = Annotated[
    str, typer.Argument(help="A metric, cost_per_accurate_answer, suspicious, or such as latency_ms.p95.")
]
SystemName = Annotated[str | None, typer.Option("--system", metavar="NAME", help="Only this system.")]
DatasetName = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="Runs on this dataset. [that of the newest run]")
]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Configuration. [./ragassay.yaml]")]
Last = Annotated[int | None, typer.Option("--last", metavar="N", help="Only the newest N runs.")]


def trend(
    metric: FigureName,
    system: SystemName = None,
    dataset: DatasetName = None,
    last: Last = None,
    config: Config = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Show a metric over the runs so far, and where its level changed."""
    from ragassay.cli.configured import configured
    from ragassay.compare import trends
    from ragassay.compare.figures import Figure
    from ragassay.render import json_document
    from ragassay.settings import Settings

    if last is not None and last < 1:
        raise BadSettings(f"should be at least 1, is {last}", where="--last")
    configuration = configured(config, {"plugins": plugin}, evaluates=False)
    Figure.parse(metric)
    alpha, seed = configuration.statistics.alpha, configuration.seed
    result = trends.trend(
        _reports(Settings()), metric, system=system, dataset=dataset, last=last, alpha=alpha, seed=seed
    )
    if as_json:
        typer.echo(json_document(result), nl=False)
    else:
        _print(result)


def _reports(settings: Settings) -> Iterator[Report]:
    """One report at a time, oldest first; a run that can't be read is named on stderr."""
    from ragassay.store.folder import FolderStore

    store = FolderStore(settings.home)
    for run in store.ids():
        try:
            report = store.open(run).report()
        except AssayError:
            typer.echo(f"left out: {run} has no report that this version can read", err=True)
            continue
        yield report


def _print(result: Trend) -> None:
    from ragassay.render import interval, number

    typer.echo(f"{result.metric} on {result.dataset} ({result.better} is better)")
    for system, series in result.systems.items():
        typer.echo(f"\n{system}")
        steps = {series.known[change.index].run: change for change in series.changes}
        digest = series.points[0].dataset_digest
        for point in series.points:
            if point.dataset_digest != digest:
                typer.echo("  -- the dataset's content changed --")
                digest = point.dataset_digest
            if change := steps.get(point.run):
                before = number(change.before, beside=change.after)
                after = number(change.after, beside=change.before)
                typer.echo(f"  -- the level changed from {before} to {after} (p={change.p:.3g}) --")
            value, ends = number(point.value), point.interval
            bounds = "" if ends is None or ends.low is None else interval(ends)
            why = f"  {point.reason}" if point.reason else ""
            typer.echo(
                f"  {point.created_at[:16]}  {value:>9}  {bounds:<20} n={point.n}/{point.rows}  {point.run}{why}"
            )
        if not series.changes:
            typer.echo(f"  no change of level found over {len(series.known)} runs")
