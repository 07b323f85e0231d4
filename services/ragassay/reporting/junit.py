"""Reports and gates as JUnit XML: a test case for each row, or for each gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ragassay.analysis.gates import GateReport, GateResult
from ragassay.core.formatting import cut, number, xml_text
from ragassay.core.models import Result
from ragassay.core.report import ReportWithResults, SystemReport
from ragassay.metrics.failures import failure
from ragassay.reporting.csv import as_text
from ragassay.reporting.failing import first_fix, headline, why
from ragassay.reporting.figures import estimate
from ragassay.reporting.tabular import provenance

_BROKEN = ("response_failed", "not_scored")
_LONGEST_NAME = 120
Case = tuple[str, bytes]
"""The outcome of a test case, and the case as it is written."""


def export(report: ReportWithResults) -> Iterator[bytes]:
    """A suite for each system with its figures, and a case for each row: a failure where it is not accurate.

    An error is a row without an answer, or whose scoring broke; skipped is one whose accuracy is unknown for want of an
    input.
    """
    sources = {name: as_text(value) for name, value in provenance(report).rows}

    def suites() -> Iterator[bytes]:
        for name, system in report.systems.items():
            fix = {"fix_first": sentence} if (sentence := first_fix(system)) else {}
            figures = {metric: estimate(mean, metric) for metric, mean in system.metrics.items()}
            cases = (_of_row(row, system) for row in report.results_of(name))
            yield from _suite(name, cases, {"headline": headline(system), **fix, **figures, **sources})

    return _document("ragassay", suites())


def gated(report: GateReport) -> Iterator[bytes]:
    """A suite with a case for each gate, whose class is the system: a failure, with its worst rows, if it was missed."""
    about = {"run": report.run, **({"baseline": report.baseline} if report.baseline else {}), "dataset": report.dataset}
    return _document("ragassay gates", _suite("ragassay gates", map(_of_gate, report.results), about))


def _of_gate(result: GateResult) -> Case:
    if result.passed:
        return _case(result.system, result.name, "system-out", text=result.reason)
    rows = [f"{row}: {row.reason}" if row.reason else str(row) for row in result.worst]
    text = "\n".join([result.reason, *(["worst rows:", *rows] if rows else [])])
    return _case(result.system, result.name, "failure", result.reason, result.cause, text)


def _of_row(row: Result, system: SystemReport) -> Case:
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
    return _case(
        row.system, cut(f"{row.query_id}: {row.query}", _LONGEST_NAME), outcome, message, kind or "", text, seconds
    )


def _case(
    owner: str,
    name: str,
    outcome: str,
    message: str = "",
    kind: str = "",
    text: str = "",
    seconds: float | None = None,
) -> Case:
    """``outcome``: failure, error, skipped, or system-out of one that passed; empty where there is nothing to say."""
    took = {} if seconds is None else {"time": f"{seconds:.3f}"}
    one = Element("testcase", {"classname": xml_text(owner), "name": xml_text(name), **took})
    if outcome:
        about = {"message": xml_text(message), "type": xml_text(kind)}
        found = SubElement(one, outcome, {key: value for key, value in about.items() if value})
        found.text = xml_text(text) or None
    ElementTree.indent(one, level=1)
    return outcome, b"  " + ElementTree.tostring(one) + b"\n"


def _document(name: str, suites: Iterable[bytes]) -> Iterator[bytes]:
    yield f"<?xml version='1.0' encoding='utf-8'?>\n<testsuites name=\"{name}\">\n".encode()
    yield from suites
    yield b"</testsuites>\n"


def _suite(name: str, cases: Iterable[Case], properties: Mapping[str, str]) -> Iterator[bytes]:
    """The suite in parts. It begins with counts, so its cases are written first, and only what is written is kept."""
    counts, written = Counter[str](), list[bytes]()
    for outcome, case in cases:
        counts[outcome] += 1
        written.append(case)
    about = {"name": xml_text(name), "tests": str(len(written))}
    about |= {f"{outcome}s": str(counts[outcome]) for outcome in ("failure", "error")}
    suite = Element("testsuite", about | {"skipped": str(counts["skipped"])})
    listed = SubElement(suite, "properties")
    for key, value in properties.items():
        SubElement(listed, "property", name=xml_text(key), value=xml_text(value))
    ElementTree.indent(suite)
    end = b"</testsuite>"
    yield ElementTree.tostring(suite).removesuffix(end)
    yield from written
    yield end + b"\n"
