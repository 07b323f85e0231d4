"""Commands that only look: which metrics there are, what documents look like, what a dataset holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ragassay.cli.configured import AsJson, Plugins, import_plugins, option, pairs
from ragassay.cli.terminal import print_json
from ragassay.errors import UnknownName
from ragassay.render import shortlist

if TYPE_CHECKING:
    from rich.console import Console

    from ragassay.data.describe import DatasetStatistics, Description


def metrics(plugin: Plugins = None, as_json: AsJson = False) -> None:
    """List the metrics: name, kind, what they need and what they measure."""
    from ragassay.metrics import METRICS

    import_plugins(plugin)
    if as_json:
        rows = [
            {
                "name": m.form,
                "kind": m.kind,
                "better": m.better,
                "needs": m.needs,
                "options": m.usual_options,
                "description": m.description,
            }
            for m in METRICS
        ]
        print_json(rows)
        return
    from rich.markup import escape
    from rich.table import Table

    from ragassay.cli.terminal import console
    from ragassay.metrics.options import as_text

    table = Table(box=None, pad_edge=False)
    for column in ("metric", "kind", "better", "what it measures"):
        table.add_column(column, no_wrap=column != "what it measures")
    for metric in sorted(
        METRICS, key=lambda m: (("retrieval", "quality", "performance", "cost").index(m.kind), m.family)
    ):
        options = as_text(metric.usual_options.items())
        about = f"{metric.description} Options: {options}" if options else metric.description
        table.add_row(escape(metric.form), metric.kind, metric.better, escape(about))
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
    from ragassay.ab import Recipe, Trial
    from ragassay.api.submission import NewJob
    from ragassay.compare.benchmark import Benchmark
    from ragassay.compare.models import Comparison
    from ragassay.compare.trends import Trend
    from ragassay.config import Configuration
    from ragassay.costs import CostReport
    from ragassay.documents import Report
    from ragassay.gates import GateReport
    from ragassay.models import FrozenModel, Response, Sample

    documents: dict[str, type[FrozenModel]] = {
        "report": Report,
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


data = typer.Typer(help="Check, keep, describe and split datasets.", rich_markup_mode=None)


@data.callback()
def _data() -> None:
    """Check, keep, describe and split datasets."""


@data.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="DATA", help="A file, with or without responses, or a dataset.")],
    format: Annotated[str, option("format")] = "auto",  # noqa: A002 - the option's name
    mapping: Annotated[list[str] | None, option("map")] = None,
    duplicates: Annotated[Literal["error", "keep_first"], option("duplicates")] = "error",
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Say what a file holds: what was mapped to what, counts, nulls, duplicates, and which metrics it allows."""
    from ragassay.data.describe import describe
    from ragassay.runs.plan import computable
    from ragassay.settings import Settings
    from ragassay.store.datasets import FolderDatasets, open_data

    import_plugins(plugin)
    columns = pairs(mapping, "--map", "OURS=THEIRS")
    store = FolderDatasets(Settings().home)
    dataset = open_data(store, file, format=format, mapping=columns, duplicates=duplicates)
    description = describe(dataset, computable())
    if as_json:
        typer.echo(description.model_dump_json(indent=2))
    else:
        print_description(description)


def print_description(description: DatasetStatistics) -> None:
    """What a dataset holds."""
    from rich.markup import escape
    from rich.table import Table

    from ragassay.cli.terminal import console
    from ragassay.data.describe import Description

    of_file = description if isinstance(description, Description) else None
    out, mapped = console(), of_file.mapped if of_file else {}
    counts = f"{description.rows} rows, {description.responses} with a response"
    digest = f", digest {description.digest[:12]}" if description.digest else ""
    out.print(f"{escape(description.path)}: {counts}{digest}")
    fields = Table(box=None, pad_edge=False)
    for column in ("field", "column", "rows", "null"):
        fields.add_column(column, justify="right" if column in ("rows", "null") else "left")
    for name, rows in description.fields.items():
        fields.add_row(name, escape(mapped.get(name, "")), str(rows), str(description.rows - rows))
    out.print(fields)
    if of_file and of_file.kept_as_metadata:
        out.print(f"kept as metadata: {escape(', '.join(of_file.kept_as_metadata))}")
    tables = {
        "categories": description.categories,
        "difficulties": description.difficulties,
        "parts": description.splits,
    }
    if description.generated:
        out.print(f"generated by a program: {description.generated} of {description.rows} rows")
    if description.unanswerable:
        out.print(f"can't be answered: {description.unanswerable} of {description.rows} rows")
    for label, table in tables.items():
        if table:
            out.print(f"{label}: {escape(', '.join(f'{name} {rows}' for name, rows in table.items()))}")
    spreads = {
        "relevant documents": description.relevant_per_query,
        "retrieved documents": description.retrieved_per_query,
        "contexts": description.contexts_per_query,
        **{f"words of {name}": spread for name, spread in description.words.items()},
    }
    for label, spread in spreads.items():
        if spread:
            out.print(f"{label}: {spread.mean:.1f} on average, {spread.min:g} to {spread.max:g}")
    repeated = [f"{each.query} ({', '.join(each.query_ids)})" for each in description.repeated_queries]
    for line in shortlist(repeated):
        out.print(f"asked more than once: {escape(line)}")
    if of_file and of_file.metrics:
        _print_computable(out, of_file)
    for warning in description.warnings:
        out.print(f"warning: {escape(warning)}")


def _print_computable(out: Console, description: Description) -> None:
    """Metrics by how many rows have their input; what the others lack is said once per reason."""
    from rich.markup import escape

    groups: dict[tuple[int, str], list[str]] = {}
    for metric in description.metrics:
        counted = (f"{reason} ({rows})" if metric.rows else reason for reason, rows in metric.lacking.items())
        lacking = "; ".join(counted)
        groups.setdefault((metric.rows, lacking), []).append(metric.metric)
    out.print("\nmetrics that can be computed")
    for (rows, lacking), names in sorted(groups.items(), key=lambda group: -group[0][0]):
        if rows:
            out.print(
                f"  {rows} of {description.rows} rows: {', '.join(names)}"
                + (f" - {escape(lacking)}" if lacking else "")
            )
    none = [f"{', '.join(names)} ({escape(lacking)})" for (rows, lacking), names in groups.items() if not rows]
    if none:
        out.print(f"  no row: {'; '.join(none)}")
