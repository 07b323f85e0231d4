"""One row per query and system, for a spreadsheet; a summary row per system and metric comes first in its own columns."""

from __future__ import annotations

import csv
import io
import re

from ragassay.documents import Report
from ragassay.metrics.base import OPERATIONAL
from ragassay.models import Result

FIELDS = (
    *("row", "system", "query_id", "category", "difficulty", "query", "answer", "responded", "error"),
    *("latency_ms", "input_tokens", "output_tokens", "cost_usd"),
    *("evaluation_input_tokens", "evaluation_output_tokens", "evaluation_cost_usd"),
)
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")


def export(report: Report) -> bytes:
    """Rows ``mean`` and ``n`` for each system, then a row ``query`` for each result; a missing score is an empty cell."""
    metrics = report.provenance.metrics
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*FIELDS, *metrics, "missing", "suspicious"])
    for name, system in report.systems.items():
        for row in ("mean", "n"):
            figures = [getattr(system.metrics[metric], row) for metric in metrics]
            means = {f: getattr(getattr(system, f), row) for f in OPERATIONAL if f in FIELDS}
            cells = {"row": row, "system": name, **means}
            writer.writerow([*(cell(cells.get(field)) for field in FIELDS), *map(cell, figures), "", ""])
    for system in report.systems.values():
        for result in system.results:
            writer.writerow(_query_row(result, metrics))
    return out.getvalue().encode()


def _query_row(result: Result, metrics: tuple[str, ...]) -> list[str]:
    cells = {
        **result.model_dump(include=set(FIELDS)),
        "row": "query",
        "evaluation_input_tokens": result.evaluation.input_tokens,
        "evaluation_output_tokens": result.evaluation.output_tokens,
        "evaluation_cost_usd": result.evaluation.cost_usd,
    }
    missing = "; ".join(f"{m}: {result.scores[m].reason}" for m in metrics if result.scores[m].value is None)
    marked = " ".join(result.verdict.suspicious) if result.verdict else ""
    scores = (cell(result.scores[m].value) for m in metrics)
    return [*(cell(cells[f]) for f in FIELDS), *scores, cell(missing), cell(marked)]


def cell(value: object) -> str:
    """Text that a spreadsheet will not run: what could start a formula gets a quote, unless it is a number."""
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") and text and not _NUMBER.fullmatch(text) else text
