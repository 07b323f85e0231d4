"""``ragassay cost``: what accurate answers cost over the runs here, or over the jobs of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.jobs import connected
from ragassay.cli.options import AsJson, AtServer, Outputs
from ragassay.cli.terminal import show

if TYPE_CHECKING:
    from ragassay.analysis.costs import CostReport

Since = Annotated[str | None, typer.Option("--since", metavar="DAY", help="Only runs from that day or time on.")]
Until = Annotated[
    str | None, typer.Option("--until", metavar="DAY", help="Only runs until that time, or the end of that day.")
]
Zone = Annotated[str, typer.Option("--zone", metavar="NAME", help="Time zone of days, such as Europe/Berlin.")]
SystemNames = Annotated[
    list[str] | None, typer.Option("--system", metavar="NAME", help="Only this system. Repeatable.")
]
DatasetNames = Annotated[
    list[str] | None, typer.Option("--dataset", metavar="NAME", help="Only runs on this dataset. Repeatable.")
]
By = Annotated[
    str | None,
    typer.Option(
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
    """Show what accurate answers cost over the runs so far, or with --server over the jobs of a service."""
    from ragassay.analysis.costs import asked, cost_report
    from ragassay.core.settings import Settings
    from ragassay.reporting.costs import EXPORTERS, of_costs
    from ragassay.storage.folder import FolderStore

    EXPORTERS.check(output or ())
    days = {"since": since, "until": until, "zone": zone}
    options: dict[str, Any] = {**days, "system": system, "dataset": dataset, "by": by}
    query = asked(**options, dashes="--")
    result: CostReport
    if server is None:
        result = cost_report(FolderStore(Settings().home).newest(), query)
    else:
        with connected(server) as service:
            result = service.costs(**options)
    show(result, of_costs, EXPORTERS, output or [], as_json=as_json)
