"""The pytest plugin: the fixture and marker ``rag_eval``. Until a test asks for the fixture it imports nothing of ragassay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ragassay.analysis.gates import Gate, GateReport
    from ragassay.reporting.objects import Report

_MARKER = (
    "rag_eval(data=None, **options): what rag_eval(...) evaluates in this test where the call doesn't say otherwise"
)
_PROPERTY = "ragassay"


class RagEval:
    """What the fixture ``rag_eval`` is: call it to evaluate, then say what you expect of the report.

    ``reports``: those of this test, the newest last.
    """

    def __init__(self, node: pytest.Item) -> None:
        self._node = node
        self.reports: list[Report] = []

    def __call__(self, data: Any = None, **options: Any) -> Report:
        """``ragassay.evaluate`` with these options over those of the test's markers; kept under .ragassay as any run."""
        from ragassay.reporting.failing import headline
        from ragassay.sdk.evaluate import evaluate

        marked: dict[str, Any] = {}
        for marker in reversed(list(self._node.iter_markers("rag_eval"))):
            marked |= {**({"data": marker.args[0]} if marker.args else {}), **marker.kwargs}
        marked |= options if data is None else {"data": data, **options}
        report: Report = evaluate(**marked)
        self.reports.append(report)
        self._say("; ".join(f"{name}: {headline(one)}" for name, one in report.systems.items()))
        return report

    def expect(
        self,
        *expected: str | Mapping[str, Any],
        report: Report | None = None,
        baseline: Report | None = None,
    ) -> GateReport:
        """Fail the test unless ``report``, by default the newest, meets all of these; returns the results.

        expected: ``"faithfulness >= 0.8"``, or what stands under ``gates:`` of a configuration, such as ``{"metric":
        "mrr", "max_drop": 0.02}``; for drops, ``baseline`` is the report that they are measured from.
        Raises BadSettings for an expectation that can't be read, or without a report.
        """
        from ragassay.analysis import gates
        from ragassay.core.errors import BadSettings

        if report is None and not self.reports:
            raise BadSettings("nothing was evaluated in this test", hint="report = rag_eval(rows) comes first")
        report = report or self.reports[-1]
        results = gates.check(report, _gates(expected, report), baseline)
        self._say(f"{len(results.results) - len(results.missed)} of {len(results.results)} expectations met")
        if results.missed:
            pytest.fail(_failure(results, report), pytrace=False)
        return results

    def _say(self, what: str) -> None:
        """Note it for the summary and for JUnit XML; pytest-xdist brings it from its workers."""
        from ragassay.core.formatting import printable

        self._node.user_properties.append((_PROPERTY, printable(f"run {self.reports[-1].run.id}: {what}")))


def _gates(expected: tuple[str | Mapping[str, Any], ...], report: Report) -> tuple[Gate, ...]:
    """Expectations as gates; they may be about criteria and composites of the run."""
    from pydantic import ValidationError

    from ragassay.config import GatedConfig
    from ragassay.core.errors import BadSettings
    from ragassay.core.validation import problems

    spec, written = report.provenance.configuration, []
    for each in expected:
        parts = re.match(r"(.*?)(?=[<>]=|$)", each) if isinstance(each, str) else None
        written.append(each if parts is None else {parts[1].strip(): str(each)[parts.end() :].strip()})
    try:
        own = {"criteria": spec.criteria, "composites": spec.composites}
        return GatedConfig.model_validate({**own, "gates": written}).gates
    except ValidationError as error:
        first = problems(error, GatedConfig)[0]
        raise BadSettings(f"can't read the expectation: {first}", hint='write it so: "faithfulness >= 0.8"') from None


def _failure(results: GateReport, report: Report) -> str:
    """The expectations that were missed with the rows that missed them, then the worst rows of the report."""
    from ragassay.core.formatting import printable
    from ragassay.reporting.document import Document
    from ragassay.reporting.failing import worst_rows
    from ragassay.reporting.text import as_text

    lines = [f"{len(results.missed)} of {len(results.results)} expectations missed"]
    for result in results.missed:
        lines += [f"  {result.name}", f"    {result.reason}"]
        lines += [f"    worst: {result.worst_rows}"] if result.worst else []
    worst = worst_rows(report)
    lines += [as_text(Document("", blocks=(worst,) if worst else ())), "", f"All of it: ragassay show {report.run.id}"]
    return printable("\n".join(lines))


@pytest.fixture
def rag_eval(request: pytest.FixtureRequest) -> RagEval:
    """Evaluate rows as ``ragassay.evaluate`` does, then ``rag_eval.expect("faithfulness >= 0.8")``."""
    return RagEval(request.node)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use the fixture have the marker, so that ``-m rag_eval`` chooses them."""
    for item in items:
        if "rag_eval" in getattr(item, "fixturenames", ()) and item.get_closest_marker("rag_eval") is None:
            item.add_marker("rag_eval")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each evaluation and expectation, of all workers; nothing where there was none."""
    reports = (report for group in terminalreporter.stats.values() for report in group)
    calls = [report for report in reports if getattr(report, "when", None) == "call"]
    lines = [
        f"{report.nodeid}  {said}" for report in calls for name, said in report.user_properties if name == _PROPERTY
    ]
    if lines:
        terminalreporter.section("ragassay")
        for line in lines:
            terminalreporter.line(line)
