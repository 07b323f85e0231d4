"""Gate results as files: JUnit XML for a build server, Markdown for a pull request, JSON for programs."""

from __future__ import annotations

import logging

from ragassay.analysis.gates import GateReport, GateResult
from ragassay.core.formatting import (
    Exporters,
    json_document,
    markdown_code,
    markdown_row,
    markdown_text,
    number,
)
from ragassay.reporting.junit import gated

_log = logging.getLogger("ragassay.gates")
MARKER = "<!-- ragassay gates -->"


def log_missed(report: GateReport) -> None:
    """An error in the log for each gate missed."""
    for result in report.missed:
        form = "gate missed: run=%s metric=%s value=%s threshold=%s: %s"
        named = {"gate": result.name, "metric": result.metric, "value": result.value, "threshold": result.threshold}
        about = {"event": "gate_missed", "run": report.run, **named}
        _log.error(form, report.run, result.metric, number(result.value), result.threshold, result.reason, extra=about)


def markdown(report: GateReport) -> bytes:
    """A table for a pull request. Its first line is a hidden marker, by which a later comment can replace this one."""
    total, missed = len(report.results), len(report.missed)
    verdict = f"{missed} of {total} gates missed" if missed else f"all {total} gates passed"
    compared = f", baseline {markdown_code(report.baseline)}" if report.baseline else ""
    lines = [
        MARKER,
        f"## ragassay: {verdict}",
        "",
        f"Run {markdown_code(report.run)} on {markdown_text(report.dataset)}{compared}.",
        "",
        *(f"The baseline was not measured alike: {markdown_text(caution)}.\n" for caution in report.cautions),
        "| | gate | value | scored | why |",
        "| --- | --- | --- | --- | --- |",
        *(_line(result) for result in sorted(report.results, key=lambda result: result.passed)),
    ]
    if worst := [result for result in report.missed if result.worst]:
        lines += ["", "Worst rows:", ""]
        lines += [f"- {markdown_text(result.name)}: {markdown_text(result.worst_rows)}" for result in worst]
    return ("\n".join(lines) + "\n").encode()


EXPORTERS: Exporters[GateReport] = Exporters("gates exporter", {"json": json_document, "md": markdown, "xml": gated})


def _line(result: GateResult) -> str:
    verdict = "passed" if result.passed else "**missed**"
    value = number(result.value, beside=result.threshold)
    name, reason = markdown_text(result.name), markdown_text(result.reason)
    return markdown_row([verdict, name, value, f"{result.n}/{result.rows}", reason])
