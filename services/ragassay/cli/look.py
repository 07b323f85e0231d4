"""``ragassay metrics`` and ``ragassay schema``: which metrics there are, what documents look like."""

from __future__ import annotations

from typing import Annotated

import typer

from ragassay.cli.configured import AsJson, Plugins, import_plugins
from ragassay.cli.terminal import print_json
from ragassay.core.errors import UnknownName


def metrics(plugin: Plugins = None, as_json: AsJson = False) -> None:
    """List the metrics: name, kind, what they need and what they measure."""
    from ragassay.metrics.metric import METRICS

    import_plugins(plugin)
    if as_json:
        rows = [
            {
                "name": m.form,
                "kind": m.kind,
                "better": m.better,
                "needs": m.needs,
                "description": m.description,
            }
            for m in METRICS
        ]
        print_json(rows)
        return
    from rich.markup import escape
    from rich.table import Table

    from ragassay.cli.terminal import console

    table = Table(box=None, pad_edge=False)
    for column in ("metric", "kind", "better", "what it measures"):
        table.add_column(column, no_wrap=column != "what it measures")
    for metric in sorted(
        METRICS, key=lambda m: (("retrieval", "quality", "performance", "cost").index(m.kind), m.family)
    ):
        table.add_row(escape(metric.form), metric.kind, metric.better, escape(metric.description))
    console(width=80).print(table)


def schema(
    document: Annotated[
        str,
        typer.Argument(
            help="report, comparison, benchmark, gates, trend, costs, ab, ab-config, config, sample, response or job."
        ),
    ],
) -> None:
    """Print the JSON schema of a document."""
    from ragassay.analysis.ab import Recipe, Trial
    from ragassay.analysis.benchmark import Benchmark
    from ragassay.analysis.costs import CostReport
    from ragassay.analysis.gates import GateReport
    from ragassay.analysis.models import Comparison
    from ragassay.analysis.trends import Trend
    from ragassay.api.submission import NewJob
    from ragassay.config import Configuration
    from ragassay.core.models import FrozenModel, Response, Sample
    from ragassay.core.report import ReportWithResults

    documents: dict[str, type[FrozenModel]] = {
        "report": ReportWithResults,
        "comparison": Comparison,
        "benchmark": Benchmark,
        "gates": GateReport,
        "trend": Trend,
        "costs": CostReport,
        "ab": Trial,
        "ab-config": Recipe,
        "config": Configuration,
        "sample": Sample,
        "response": Response,
        "job": NewJob,
    }
    if document not in documents:
        raise UnknownName("document", document, documents)
    print_json(documents[document].model_json_schema())
