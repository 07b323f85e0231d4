"""Two evaluations side by side in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragassay.compare import comparison
from ragassay.compare.models import Comparison
from ragassay.config import names
from ragassay.data.formats import FORMATS
from ragassay.documents import Report
from ragassay.errors import BadData, BadSettings
from ragassay.exporters.comparison import EXPORTERS, tables
from ragassay.metrics.base import name_of
from ragassay.python.evaluation import evaluate
from ragassay.python.show import ShownTable, as_html, as_text
from ragassay.python.stored import chosen
from ragassay.stats import Correction

_IN_DATA = "default"  # the name of the system whose responses stand in the data


class ComparisonReport(Comparison):
    """Which system is better, and how sure that is: ``ragassay.Comparison``.

    The parts of the comparison document (``verdict``, ``pairs``, ``sides`` ...), ``save``, and a table where printed.
    """

    def save(self, path: str | Path) -> None:
        """Write a file; the extension picks the format: .json or .md. Raises UnknownName, BadSettings, DiskFull."""
        EXPORTERS.write(self, Path(path))

    def __repr__(self) -> str:
        return f"<Comparison of {' and '.join(self.sides)}: {' '.join(self.verdict)}>"

    def __str__(self) -> str:
        return as_text(self._lines(), self._tables())

    def _repr_html_(self) -> str:
        return as_html(self._lines(), self._tables())

    def _lines(self) -> Iterator[str]:
        yield from self.verdict
        yield from (f"warning: {warning}" for warning in self.warnings)

    def _tables(self) -> Iterator[ShownTable]:
        for table in tables(self):
            yield ShownTable(table.title, table.columns, table.rows, table.note)


def compare(
    a: Any,
    b: Any = None,
    *,
    metrics: str | Sequence[Any] | None = None,
    baseline: str | None = None,
    alpha: float = 0.05,
    correction: Correction = "holm",
    examples: int = 3,
    **options: Any,
) -> ComparisonReport:
    """Compare b with a, or the systems of a with the first of them.

    a, b: reports; what the command line calls a run ("last", an id, RUN#SYSTEM, a report.json); or rows as ``evaluate``
    takes them, which are evaluated with ``options`` first. Rows are matched by their ids, else by the query's text.
    metrics: what to compare, default all that both have. baseline: the name of another first system.
    alpha, correction: of p for the number of tests ("holm", "benjamini_hochberg", "bonferroni", "none").
    examples: rows listed for each metric and cause. Raises BadInput where the two have nothing in common.
    """
    asked = names(metrics) if isinstance(metrics, str) else None if metrics is None else list(map(name_of, metrics))
    sides = [_side(given, asked, options) for given in (a, b) if given is not None]
    if options and not any(side.evaluated for side in sides):
        raise BadSettings(f"{', '.join(options)}: all that is compared is evaluated already", hint="leave it out")
    labels: list[str | None] = [side.name for side in sides]
    if len(set(labels) - {None}) < len(sides):
        labels = ["a", "b"]
    document = comparison.compare(
        [(_called(side.report, label), side.system) for side, label in zip(sides, labels, strict=False)],
        baseline=baseline,
        metrics=asked,
        alpha=alpha,
        correction=correction,
        examples=examples,
    )
    return ComparisonReport(**dict(document))


class _Side(NamedTuple):
    """A report, one of its systems or None for all, what the caller calls it, and whether it was made here."""

    report: Report
    system: str | None
    name: str | None
    evaluated: bool = False


def _side(given: Any, metrics: Sequence[str] | None, options: Mapping[str, Any]) -> _Side:
    if isinstance(given, Report):
        return _Side(given, None, given.provenance.configuration.name)
    path = Path(given) if isinstance(given, str | Path) else None
    name = path.stem if path and path.is_file() else None
    if path and not _holds_rows(path):
        try:
            report, system = chosen(str(path))
            return _Side(report, system, name or report.provenance.configuration.name)
        except BadData:
            if path.suffix != ".json":
                raise
    return _Side(evaluate(given, metrics=metrics, **options), None, name or options.get("name"), evaluated=True)


def _holds_rows(path: Path) -> bool:
    """Does a file hold rows, to judge by its extension? One of JSON may be a report."""
    return path.is_file() and any(
        path.suffix.lower() in form.extensions for name, form in FORMATS.items() if name != "json"
    )


def _called(report: Report, name: str | None) -> Report:
    """The report with its only system under that name, where it has none of its own."""
    if name is None or list(report.systems) != [_IN_DATA]:
        return report
    source = report.provenance.model_copy(update={"systems": {name: report.provenance.systems[_IN_DATA]}})
    return report.model_copy(update={"systems": {name: report.systems[_IN_DATA]}, "provenance": source})
