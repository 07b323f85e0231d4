"""What gates say, as a document, and in the log."""

from __future__ import annotations

import logging

from ragassay.analysis.gates import GateReport, GateResult
from ragassay.core.formatting import json_document, of_metric
from ragassay.reporting.document import Block, Document, Sentences, Table
from ragassay.reporting.exporters import Exporters, of_document
from ragassay.reporting.junit import gated

_log = logging.getLogger("ragassay.gates")


def log_missed(report: GateReport) -> None:
    """An error in the log for each gate missed."""
    for result in report.missed:
        form = "gate missed: run=%s metric=%s value=%s threshold=%s: %s"
        named = {"gate": result.name, "metric": result.metric, "value": result.value, "threshold": result.threshold}
        about = {"event": "gate_missed", "run": report.run, **named}
        _log.error(
            form,
            report.run,
            result.metric,
            of_metric(result.metric, result.value),
            result.threshold,
            result.reason,
            extra=about,
        )


def of_gates(report: GateReport) -> Document:
    """The verdict, each gate with its value and why, and the worst rows of missed gates."""
    compared = f", baseline {report.baseline}" if report.baseline else ""
    rows = tuple(_row(result) for result in sorted(report.results, key=lambda result: result.passed))
    blocks: list[Block] = [Table("Gates", ("gate", "result", "value", "scored", "why"), rows)]
    if worst := tuple(f"{result.name}: {result.worst_rows}" for result in report.missed if result.worst):
        blocks.append(Sentences("Worst rows", worst))
    return Document(
        f"ragassay: {report.verdict}",
        answer=(f"run {report.run} on {report.dataset}{compared}: {report.verdict}",),
        notes=tuple(f"The baseline was not measured alike: {caution}." for caution in report.cautions),
        blocks=tuple(blocks),
    )


EXPORTERS: Exporters[GateReport] = Exporters(
    "gates exporter", {**of_document("gates", of_gates), "json": json_document, "xml": gated}
)


def _row(result: GateResult) -> tuple[str, ...]:
    value = of_metric(result.metric, result.value, beside=result.threshold)
    outcome = "passed" if result.passed else "UNDECIDED" if result.cause == "undecided" else "MISSED"
    return (result.name, outcome, value, f"{result.n}/{result.rows}", result.reason)
