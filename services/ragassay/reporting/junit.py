"""Reports, comparisons and gates as JUnit XML: a test case for each row, for each difference, or for each gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from ragassay.analysis.describe import describe
from ragassay.analysis.difference import Difference
from ragassay.analysis.gates import GateReport
from ragassay.analysis.models import Comparison, Pair
from ragassay.core.formatting import cut, number, xml_text
from ragassay.core.models import Result
from ragassay.core.report import ReportWithResults, SystemReport
from ragassay.metrics.failures import failure
from ragassay.reporting.csv import as_text
from ragassay.reporting.failing import first_fix, headline, why
from ragassay.reporting.figures import aggregate
from ragassay.reporting.grids import Grid, provenance
from ragassay.reporting.rows import row_grid

_BROKEN = ("response_failed", "not_scored")
_LONGEST_NAME = 120


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """A suite for each system with its figures, and a case for each row: a failure where it is not accurate.

    An error is a row without an answer, or whose scoring broke; skipped is one whose accuracy is unknown for want of an
    input. ``fields`` of a row are properties of its case.
    """
    grid = row_grid(report, fields)
    chosen = (grid, iter(grid.rows)) if fields else None
    return _document("ragassay", (_suite(report, name, chosen) for name in report.systems))


def compared(comparison: Comparison) -> Iterator[bytes]:
    """A suite for each pair of systems, and a case for each metric: a failure where the other system is worse."""
    return _document("ragassay comparison", (_pair(comparison, pair) for pair in comparison.pairs))


def gated(report: GateReport) -> Iterator[bytes]:
    """A suite with a case for each gate, whose class is the system: a failure, with its worst rows, if it was missed."""
    counts = Counter("passed" if result.passed else "failure" for result in report.results)
    return _document("ragassay gates", [_gates(report, counts)], counts)


def _document(name: str, suites: Iterable[Iterator[str]], counts: Counter[str] | None = None) -> Iterator[bytes]:
    yield b"<?xml version='1.0' encoding='utf-8'?>\n"
    yield f"<testsuites name={quoteattr(name)}{_counted(counts) if counts else ''}>\n".encode()
    for suite in suites:
        for part in suite:
            yield part.encode()
    yield b"</testsuites>\n"


def _suite(
    report: ReportWithResults, name: str, fields: tuple[Grid, Iterator[Sequence[object]]] | None
) -> Iterator[str]:
    system, rows = report.systems[name], report.results_of(name)
    counts = Counter(map(_outcome, rows))
    yield _opened(name, counts)
    figures = {metric: aggregate(mean) for metric, mean in system.metrics.items()}
    sources = {name: as_text(value) for name, value in provenance(report).rows}
    fix = {"fix_first": sentence} if (sentence := first_fix(system)) else {}
    yield _properties({"headline": headline(system), **fix, **figures, **sources}, "    ")
    for row in rows:
        properties = ""
        if fields:
            grid, cells = fields
            properties = _properties(dict(zip(grid.columns, map(as_text, next(cells)), strict=True)), "      ")
        yield _case(row, system, properties)
    yield "  </testsuite>\n"


def _opened(name: str, counts: Counter[str]) -> str:
    return f'  <testsuite name={_quoted(name)}{_counted(counts)} skipped="{counts["skipped"]}">\n'


def _counted(counts: Counter[str]) -> str:
    return f' tests="{counts.total()}" failures="{counts["failure"]}" errors="{counts["error"]}"'


def _outcome(row: Result) -> str:
    kind = failure(row)
    if kind is not None:
        return "error" if kind in _BROKEN else "failure"
    accurate = row.scores.get("accurate")
    return "skipped" if accurate is not None and accurate.value is None else "passed"


def _case(row: Result, system: SystemReport, properties: str) -> str:
    took = "" if row.latency_ms is None else f" time={quoteattr(f'{row.latency_ms / 1000:.3f}')}"
    case = f"    <testcase classname={_quoted(row.system)} name={_quoted(cut(f'{row.query_id}: {row.query}', _LONGEST_NAME))}"
    told, kind = _outcome(row), failure(row) or ""
    inside = properties
    if told in ("failure", "error"):
        scores = [f"{name} {number(row.scores[name].value)}" for name in system.metrics]
        texts = {
            "query": row.query,
            "answer": row.answer or "",
            "expected": " | ".join(row.ground_truth_answer),
            "why": why(row),
            "scores": ", ".join(scores),
        }
        message = cut(row.error or why(row, judge=False), 300)
        lines = "\n".join(f"{label}: {text}" for label, text in texts.items() if text)
        inside += f"      <{told} message={_quoted(message)} type={_quoted(kind)}>{_escaped(lines)}</{told}>\n"
    elif told == "skipped":
        inside += f"      <skipped message={_quoted(row.scores['accurate'].reason or '')}/>\n"
    return f"{case}{took}>\n{inside}    </testcase>\n" if inside else f"{case}{took}/>\n"


def _pair(comparison: Comparison, pair: Pair) -> Iterator[str]:
    yield _opened(f"{pair.b} against {pair.a}", Counter(map(_told, pair.metrics.values())))
    sides = {f"run of {name}": side.run for name, side in comparison.sides.items()}
    shared = {"verdict": " ".join(pair.verdict), "alpha": f"{comparison.alpha:g}", "correction": comparison.correction}
    yield _properties({**shared, "ragassay": comparison.ragassay, **sides}, "    ")
    for name, delta in pair.metrics.items():
        case, text = f"    <testcase classname={_quoted(pair.b)} name={_quoted(name)}", describe(delta)
        if (told := _told(delta)) == "skipped":
            yield f"{case}>\n      <skipped message={_quoted(delta.reason or text)}/>\n    </testcase>\n"
        elif told == "failure":
            yield f'{case}>\n      <failure message={_quoted(text)} type="worse"/>\n    </testcase>\n'
        else:
            yield f"{case}>\n      <system-out>{_escaped(text)}</system-out>\n    </testcase>\n"
    yield "  </testsuite>\n"


def _gates(report: GateReport, counts: Counter[str]) -> Iterator[str]:
    yield _opened("ragassay gates", counts)
    baseline = {"baseline": report.baseline} if report.baseline else {}
    yield _properties({"run": report.run, **baseline, "dataset": report.dataset}, "    ")
    for result in report.results:
        yield f"    <testcase classname={_quoted(result.system)} name={_quoted(result.name)}>\n"
        if result.passed:
            yield f"      <system-out>{_escaped(result.reason)}</system-out>\n"
        else:
            rows = [f"{row}: {row.reason}" if row.reason else str(row) for row in result.worst]
            text = _escaped("\n".join([result.reason, *(["worst rows:", *rows] if rows else [])]))
            yield f"      <failure message={_quoted(result.reason)} type={_quoted(result.cause)}>{text}</failure>\n"
        yield "    </testcase>\n"
    yield "  </testsuite>\n"


def _told(delta: Difference) -> str:
    if delta.delta is None:
        return "skipped"
    return "failure" if delta.outcome == "worse" else "passed"


def _properties(values: Mapping[str, str], indent: str) -> str:
    lines = [f"{indent}  <property name={_quoted(name)} value={_quoted(value)}/>\n" for name, value in values.items()]
    return f"{indent}<properties>\n{''.join(lines)}{indent}</properties>\n"


def _quoted(text: str) -> str:
    return quoteattr(xml_text(text))


def _escaped(text: str) -> str:
    return escape(xml_text(text))
