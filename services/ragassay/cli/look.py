"""Commands that only look: which metrics there are, what documents look like, what this machine has."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ragassay.errors import UnknownName

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def metrics(as_json: AsJson = False) -> None:
    """List the metrics: name, kind, what they need and what they say."""
    from ragassay.metrics import METRICS

    if as_json:
        import orjson

        rows = [
            {"name": _form(m), "kind": m.kind, "better": m.better, "needs": m.needs, "description": m.description}
            for m in METRICS
        ]
        sys.stdout.buffer.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("metric", "kind", "better", "what it says"):
        table.add_column(column, no_wrap=column != "what it says")
    for found in sorted(
        METRICS, key=lambda m: (("retrieval", "quality", "performance", "cost").index(m.kind), m.family)
    ):
        table.add_row(escape(_form(found)), found.kind, found.better, found.description)
    Console(highlight=False).print(table)


def _form(metric: object) -> str:
    takes, optional = getattr(metric, "takes", None), getattr(metric, "optional", False)
    suffix = f"[@{takes}]" if optional else f"@{takes}" if takes else ""
    return f"{getattr(metric, 'family', '')}{suffix}"


def schema(
    document: Annotated[
        str, typer.Argument(help="report, comparison, gates, trend, ab, ab-config, config, sample, response or job.")
    ],
) -> None:
    """Print the JSON schema of a document."""
    import orjson

    from ragassay.ab import Recipe, Trial
    from ragassay.comparisons import Comparison
    from ragassay.config import Configuration
    from ragassay.documents import Report
    from ragassay.gates import GateReport
    from ragassay.models import JobSpec, Noun, Response, Sample
    from ragassay.trends import Trend

    documents: dict[str, type[Noun]] = {
        "report": Report,
        "comparison": Comparison,
        "gates": GateReport,
        "trend": Trend,
        "ab": Trial,
        "ab-config": Recipe,
        "config": Configuration,
        "sample": Sample,
        "response": Response,
        "job": JobSpec,
    }
    if document not in documents:
        raise UnknownName("document", document, documents)
    text = orjson.dumps(documents[document].model_json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    sys.stdout.buffer.write(text)


def doctor(as_json: AsJson = False) -> None:
    """Say what works on this machine, and how to get the rest."""
    from ragassay.cli.doctor import examine
    from ragassay.settings import Settings

    for finding in examine(Settings()):
        if as_json:
            typer.echo(finding.model_dump_json())
        else:
            typer.echo(f"{'ok     ' if finding.ok else 'missing'} {finding.what}: {finding.detail}")
