"""Reports and gates as JUnit XML: a test case for each row, or for each gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ragassay.analysis.gates import GateReport
from ragassay.core.formatting import cut, number, xml_text
from ragassay.core.models import Result
from ragassay.core.report import ReportWithResults, SystemReport
from ragassay.metrics.failures import failure
from ragassay.reporting.csv import as_text
from ragassay.reporting.failing import first_fix, headline, why
from ragassay.reporting.figures import aggregate
from ragassay.reporting.grids import provenance
from ragassay.reporting.rows import row_grid

_BROKEN = ("response_failed", "not_scored")
_LONGEST_NAME = 120


@dataclass(frozen=True)
class _Case:
    """A test case. ``outcome``: failure, error, skipped, or system-out of one that passed; none, where it says nothing."""

    owner: str
    name: str
    outcome: str = ""
    message: str = ""
    kind: str = ""
    text: str = ""
    seconds: float | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """A suite for each system with its figures, and a case for each row: a failure where it is not accurate.

    An error is a row without an answer, or whose scoring broke; skipped is one whose accuracy is unknown for want of an
    input. ``fields`` of a row are properties of its case.
    """
    chosen = _chosen(report, fields) if fields else repeat({})
    sources = {name: as_text(value) for name, value in provenance(report).rows}

    def suites() -> Iterator[bytes]:
        for name, system in report.systems.items():
            fix = {"fix_first": sentence} if (sentence := first_fix(system)) else {}
            figures = {metric: aggregate(mean) for metric, mean in system.metrics.items()}
            rows = report.results_of(name)
            cases = (_row(row, system, properties) for row, properties in zip(rows, chosen, strict=False))
            yield from _suite(name, cases, {"headline": headline(system), **fix, **figures, **sources})

    return _document("ragassay", suites())


def gated(report: GateReport) -> Iterator[bytes]:
    """A suite with a case for each gate, whose class is the system: a failure, with its worst rows, if it was missed."""
    cases = []
    for result in report.results:
        rows = [f"{row}: {row.reason}" if row.reason else str(row) for row in result.worst]
        text = "\n".join([result.reason, *(["worst rows:", *rows] if rows else [])])
        if result.passed:
            cases.append(_Case(result.system, result.name, "system-out", text=result.reason))
        else:
            cases.append(_Case(result.system, result.name, "failure", result.reason, result.cause, text))
    about = {"run": report.run, **({"baseline": report.baseline} if report.baseline else {}), "dataset": report.dataset}
    return _document("ragassay gates", _suite("ragassay gates", cases, about))


def _chosen(report: ReportWithResults, fields: Sequence[str]) -> Iterator[dict[str, str]]:
    """The fields of each row, of one system after the other."""
    grid = row_grid(report, fields)
    for row in grid.rows:
        yield dict(zip(grid.columns, map(as_text, row), strict=True))


def _row(row: Result, system: SystemReport, properties: Mapping[str, str]) -> _Case:
    kind, accurate = failure(row), row.scores.get("accurate")
    outcome = message = text = ""
    if kind is not None:
        outcome = "error" if kind in _BROKEN else "failure"
        message = cut(row.error or why(row, judge=False), 300)
        texts = {
            "query": row.query,
            "answer": row.answer or "",
            "expected": " | ".join(row.ground_truth_answer),
            "why": why(row),
            "scores": ", ".join(f"{name} {number(row.scores[name].value)}" for name in system.metrics),
        }
        text = "\n".join(f"{label}: {text}" for label, text in texts.items() if text)
    elif accurate is not None and accurate.value is None:
        outcome, message = "skipped", accurate.reason or ""
    seconds = None if row.latency_ms is None else row.latency_ms / 1000
    name = cut(f"{row.query_id}: {row.query}", _LONGEST_NAME)
    return _Case(row.system, name, outcome, message, kind or "", text, seconds, properties)


def _document(name: str, suites: Iterable[bytes]) -> Iterator[bytes]:
    yield f"<?xml version='1.0' encoding='utf-8'?>\n<testsuites name=\"{name}\">\n".encode()
    yield from suites
    yield b"</testsuites>\n"


def _suite(name: str, cases: Iterable[_Case], properties: Mapping[str, str]) -> Iterator[bytes]:
    """The suite in parts. It begins with counts, so its cases are written first, and only what is written is kept."""
    counts, written = Counter[str](), list[bytes]()
    for case in cases:
        counts[case.outcome] += 1
        written.append(_written(case))
    suite = Element(
        "testsuite",
        name=xml_text(name),
        tests=str(len(written)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
    )
    _properties(suite, properties)
    ElementTree.indent(suite)
    end = b"</testsuite>"
    yield ElementTree.tostring(suite).removesuffix(end)
    yield from written
    yield end + b"\n"


def _written(case: _Case) -> bytes:
    took = {} if case.seconds is None else {"time": f"{case.seconds:.3f}"}
    one = Element("testcase", {"classname": xml_text(case.owner), "name": xml_text(case.name), **took})
    if case.properties:
        _properties(one, case.properties)
    if case.outcome:
        about = {"message": xml_text(case.message), "type": xml_text(case.kind)}
        outcome = SubElement(one, case.outcome, {key: value for key, value in about.items() if value})
        outcome.text = xml_text(case.text) or None
    ElementTree.indent(one, level=1)
    return b"  " + ElementTree.tostring(one) + b"\n"


def _properties(parent: Element, values: Mapping[str, str]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in values.items():
        SubElement(properties, "property", name=xml_text(name), value=xml_text(value))
