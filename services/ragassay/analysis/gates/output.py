"""Gate results as files: JUnit XML for a build server, Markdown for a pull request, JSON for programs."""

from __future__ import annotations

import logging
from xml.etree import ElementTree

from ragassay.analysis.gates.check import GateReport, GateResult
from ragassay.core.formatting import (
    Exporters,
    json_document,
    markdown_code,
    markdown_row,
    markdown_text,
    number,
    xml_text,
)

_log = logging.getLogger("ragassay.gates")
MARKER = "<!-- ragassay gates -->"


def log_missed(report: GateReport) -> None:
    """An error in the log for each gate missed."""
    for result in report.missed:
        form = "gate missed: run=%s metric=%s value=%s threshold=%s: %s"
        named = {"gate": result.name, "metric": result.metric, "value": result.value, "threshold": result.threshold}
        about = {"event": "gate_missed", "run": report.run, **named}
        _log.error(form, report.run, result.metric, number(result.value), result.threshold, result.reason, extra=about)


def junit(report: GateReport) -> bytes:
    """A test suite with a test case for each gate; the class name is the system."""
    missed = str(len(report.missed))
    attributes = {"name": "ragassay gates", "tests": str(len(report.results)), "failures": missed, "errors": "0"}
    suites = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(suites, "testsuite", {**attributes, "skipped": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in {"run": report.run, "baseline": report.baseline, "dataset": report.dataset}.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": name, "value": xml_text(value)})
    for result in report.results:
        place = {"classname": xml_text(result.system), "name": xml_text(result.name)}
        case = ElementTree.SubElement(suite, "testcase", place)
        if result.passed:
            ElementTree.SubElement(case, "system-out").text = xml_text(result.reason)
        else:
            reason = xml_text(result.reason)
            rows = [xml_text(f"{row}: {row.reason}" if row.reason else str(row)) for row in result.worst]
            lines = "\n".join([reason, *(["worst rows:"] if rows else []), *rows])
            ElementTree.SubElement(case, "failure", {"message": reason, "type": result.cause}).text = lines
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


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
        lines += [f"- {markdown_text(result.name)}: {markdown_text(worst_of(result))}" for result in worst]
    return ("\n".join(lines) + "\n").encode()


def worst_of(result: GateResult) -> str:
    """``qs-08 0.000; qs-25 0.000``."""
    return "; ".join(map(str, result.worst))


EXPORTERS: Exporters[GateReport] = Exporters("gates exporter", {"json": json_document, "md": markdown, "xml": junit})


def _line(result: GateResult) -> str:
    verdict = "passed" if result.passed else "**missed**"
    value = number(result.value, beside=result.threshold)
    name, reason = markdown_text(result.name), markdown_text(result.reason)
    return markdown_row([verdict, name, value, f"{result.n}/{result.rows}", reason])
