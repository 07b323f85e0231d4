"""``ragassay trend`` and ``ragassay cost``: over the runs in the home folder, or over the jobs of a service."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from ragassay.cli.options import AsJson, AtServer, Config, Outputs, Plugins, client, configured
from ragassay.cli.terminal import show

FigureName = Annotated[
    str, Argument(help="A metric, cost_per_accurate_answer, suspicious, refusal_recall, or such as latency_ms.p95.")
]
SystemName = Annotated[str | None, Option("--system", metavar="NAME", help="Only this system.")]
DatasetName = Annotated[
    str | None, Option("--dataset", metavar="NAME", help="Runs on this dataset. [that of the newest run]")
]
JudgeName = Annotated[
    str | None, Option("--judge", metavar="NAME", help="Runs with this judge. [that of the newest run]")
]
NewestRuns = Annotated[int | None, Option("--last", metavar="N", min=1, help="Only the newest N runs.")]


def trend(
    metric: FigureName,
    system: SystemName = None,
    dataset: DatasetName = None,
    judge: JudgeName = None,
    last: NewestRuns = None,
    config: Config = None,
    plugin: Plugins = None,
    server: AtServer = None,
    as_json: AsJson = False,
) -> None:
    """Show a metric over the runs so far, and where its level changed.

    With --server: over the jobs of a service.
    """
    from ragassay.analysis import trends
    from ragassay.core.settings import Settings
    from ragassay.reporting.trends import of_trend
    from ragassay.storage.folder import FolderStore

    configuration = configured(config, {"plugins": plugin})
    terms: dict[str, Any] = {"system": system, "dataset": dataset, "judge": judge, "last": last}
    terms |= {"alpha": configuration.statistics.alpha, "seed": configuration.seed}
    if server is None:
        result = trends.trend(FolderStore(Settings().home).newest(), metric, **terms)
    else:
        with client(server) as service:
            result = service.trend(metric, **terms)
    show(result, of_trend, as_json=as_json)


Since = Annotated[str | None, Option("--since", metavar="DAY", help="Only runs from that day or time on.")]
Until = Annotated[
    str | None, Option("--until", metavar="DAY", help="Only runs until that time, or the end of that day.")
]
Zone = Annotated[str, Option("--zone", metavar="NAME", help="Time zone of days, such as Europe/Berlin.")]
SystemNames = Annotated[list[str] | None, Option("--system", metavar="NAME", help="Only this system. Repeatable.")]
DatasetNames = Annotated[
    list[str] | None, Option("--dataset", metavar="NAME", help="Only runs on this dataset. Repeatable.")
]
By = Annotated[
    str | None,
    Option(
        "--by",
        metavar="A,B",
        help="Groups: of system, dataset, category, model, day, month and judge. [dataset,system]",
    ),
]


def cost(
    since: Since = None,
    until: Until = None,
    zone: Zone = "UTC",
    system: SystemNames = None,
    dataset: DatasetNames = None,
    by: By = None,
    output: Outputs = None,
    as_json: AsJson = False,
    server: AtServer = None,
) -> None:
    """Show what accurate answers cost over the runs so far.

    With --server: over the jobs of a service.
    """
    from ragassay.analysis.costs import cost_query, cost_report
    from ragassay.core.settings import Settings
    from ragassay.reporting.costs import EXPORTERS, of_costs
    from ragassay.storage.folder import FolderStore

    EXPORTERS.check(output or ())
    options: dict[str, Any] = {"since": since, "until": until, "zone": zone}
    options |= {"system": system, "dataset": dataset, "by": by}
    query = cost_query(**options, dashes="--")
    result: object
    if server is None:
        result = cost_report(FolderStore(Settings().home).newest(), query)
    else:
        with client(server) as service:
            result = service.costs(**options)
    show(result, of_costs, EXPORTERS, output or [], as_json=as_json)
