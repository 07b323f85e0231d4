"""``ragassay trend``: a metric over the runs in the home folder, or over the jobs of a service."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ragassay.cli.jobs import connected
from ragassay.cli.options import AsJson, AtServer, Config, Plugins
from ragassay.cli.terminal import show

FigureName = Annotated[
    str,
    typer.Argument(help="A metric, cost_per_accurate_answer, suspicious, refusal_recall, or such as latency_ms.p95."),
]
SystemName = Annotated[str | None, typer.Option("--system", metavar="NAME", help="Only this system.")]
DatasetName = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="Runs on this dataset. [that of the newest run]")
]
JudgeName = Annotated[
    str | None, typer.Option("--judge", metavar="NAME", help="Runs with this judge. [that of the newest run]")
]
Last = Annotated[int | None, typer.Option("--last", metavar="N", min=1, help="Only the newest N runs.")]


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
    from ragassay.reporting.trends import of_trend
    from ragassay.storage.folder import FolderStore

    configuration = configured(config, {"plugins": plugin})
    chosen = {"system": system, "dataset": dataset, "judge": judge, "last": last}
    terms: dict[str, Any] = {**chosen, "alpha": configuration.statistics.alpha, "seed": configuration.seed}
    if server is None:
        result = trends.trend(FolderStore(Settings().home).newest(), metric, **terms)
    else:
        with connected(server) as service:
            result = service.trend(metric, **terms)
    show(result, of_trend, as_json=as_json)
