"""``ragassay trend``: a metric over the runs in the home folder, or over the jobs of a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.jobs import connected
from ragassay.cli.options import AsJson, AtServer, Plugins
from ragassay.cli.terminal import print_json
from ragassay.core.errors import BadSettings

if TYPE_CHECKING:
    from ragassay.analysis.trends import Point, Trend

FigureName = Annotated[
    str,
    typer.Argument(help="A metric, cost_per_accurate_answer, suspicious, refusal_recall, or such as latency_ms.p95."),
]
SystemName = Annotated[str | None, typer.Option("--system", metavar="NAME", help="Only this system.")]
DatasetName = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="Runs on this dataset. [that of the newest run]")
]
Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Configuration. [./ragassay.yaml]")]
JudgeName = Annotated[
    str | None, typer.Option("--judge", metavar="NAME", help="Runs with this judge. [that of the newest run]")
]
Last = Annotated[int | None, typer.Option("--last", metavar="N", help="Only the newest N runs.")]


def trend(
    metric: FigureName,
    system: SystemName = None,
    dataset: DatasetName = None,
    judge: JudgeName = None,
    last: Last = None,
    config: Config = None,
    plugin: Plugins = None,
    server: AtServer = None,
    as_json: AsJson = False,
) -> None:
    """Show a metric over the runs so far, or with --server over the jobs of a service, and where its level changed."""
    from ragassay.analysis import trends
    from ragassay.cli.options import configured
    from ragassay.core.settings import Settings
    from ragassay.storage.folder import FolderStore

    if last is not None and last < 1:
        raise BadSettings(f"should be at least 1, is {last}", where="--last")
    configuration = configured(config, {"plugins": plugin})
    chosen = {"system": system, "dataset": dataset, "judge": judge, "last": last}
    terms: dict[str, Any] = {**chosen, "alpha": configuration.statistics.alpha, "seed": configuration.seed}
    if server is None:
        result = trends.trend(FolderStore(Settings().home).newest(), metric, **terms)
    else:
        with connected(server) as service:
            result = service.trend(metric, **terms)
    for why, runs in result.left_out.items():
        typer.echo(f"left out: {runs} {'run' if runs == 1 else 'runs'} {why}", err=True)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: Trend) -> None:
    from ragassay.core.formatting import number
    from ragassay.reporting.tables import width

    typer.echo(f"{result.metric} on {result.dataset}, judge {result.judge} ({result.better} is better)")
    points = [point for series in result.systems.values() for point in series.points]
    times = max(len(_line(point)) for point in points) <= width()
    for system, series in result.systems.items():
        typer.echo(f"\n{system}")
        steps = {series.known[change.index].run: change for change in series.changes}
        for point in series.points:
            for what in point.changed:
                typer.echo(f"  -- {what} --")
            if change := steps.get(point.run):
                before = number(change.before, beside=change.after)
                after = number(change.after, beside=change.before)
                typer.echo(f"  -- the level changed from {before} to {after} (p={change.p:.3g}) --")
            typer.echo(_line(point, time=times))
        if not series.changes:
            known = len(series.known)
            typer.echo(f"  no change of level found over {known} run{'' if known == 1 else 's'}")


def _line(point: Point, *, time: bool = True) -> str:
    """One run; a run's id begins with its time, so that this can be left out."""
    from ragassay.core.formatting import interval, number

    bounds = "" if point.interval is None or point.interval.low is None else interval(point.interval)
    parts = [point.created_at[:16]] if time else []
    parts += [f"{number(point.value):>7}", f"{bounds:<12}", f"{f'n={point.n}/{point.rows}':<7}", point.run]
    parts += ["unfinished"] if point.status == "incomplete" else []
    return f"  {'  '.join([*parts, *([point.reason] if point.reason else [])])}"
