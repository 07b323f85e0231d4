"""Two evaluations side by side in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ragassay.analysis import comparing
from ragassay.analysis.comparing import Unevaluated, is_data
from ragassay.analysis.models import Comparison, Pair
from ragassay.analysis.sides import Side
from ragassay.core.errors import BadSettings
from ragassay.core.report import Report
from ragassay.core.settings import Settings
from ragassay.core.specification import JobSpec
from ragassay.metrics.base import name_of
from ragassay.metrics.names import split_names
from ragassay.reporting.comparison import EXPORTERS, Regression, regressions, regressions_title, tables
from ragassay.reporting.tables import Table
from ragassay.sdk.evaluation import completed, configured, finished, inputs, runtime_with
from ragassay.sdk.show import as_html, as_text
from ragassay.sdk.stored import chosen, is_stored_dataset


class ComparisonReport(Comparison):
    """Which system is better, and how sure that is: ``ragassay.Comparison``.

    The parts of the comparison document (``verdict``, ``pairs``, ``sides`` ...), ``save``, and a table where printed.
    """

    def save(self, path: str | Path, *, fields: Sequence[str] = (), format: str | None = None) -> None:  # noqa: A002
        """Write a file; its extension, or ``format``, says what it becomes: csv, html, json, md, parquet, pdf, xlsx or xml.

        ``fields``: the columns of csv, parquet and xlsx, in this order. Raises UnknownName, BadSettings, MissingExtra, DiskFull.
        """
        EXPORTERS.write(self, Path(path), form=format, fields=fields)

    def __repr__(self) -> str:
        return f"<Comparison of {' and '.join(self.sides)}: {' '.join(self.verdict)}>"

    def __str__(self) -> str:
        return as_text(self._lines(), self._tables())

    def _repr_html_(self) -> str:
        return as_html(self._lines(), self._tables())

    def _lines(self) -> Iterator[str]:
        yield from self.verdict
        yield from (f"warning: {warning}" for warning in self.warnings)

    def _tables(self) -> Iterator[Table]:
        yield from tables(self)
        for pair in self.pairs:
            if worse := regressions(pair):
                columns = ("query id", "query", "scores", pair.a, pair.b, "why")
                yield Table(regressions_title(pair), columns, tuple(_cells(row, pair) for row in worse))


def _cells(row: Regression, pair: Pair) -> tuple[str, ...]:
    answers = dict(row.answers)
    return (
        row.label,
        row.query,
        ", ".join(row.scores),
        answers.get(pair.a, ""),
        answers.get(pair.b, ""),
        row.why or "",
    )


def compare(
    a: Any,
    b: Any = None,
    *,
    metrics: str | Sequence[Any] | None = None,
    baseline: str | None = None,
    alpha: float = 0.05,
    correction: str = "holm",
    examples: int = 3,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> ComparisonReport:
    """Compare b with a, or the systems of a with the first of them.

    a, b: reports; what the command line calls a run ("last", an id, RUN#SYSTEM, a report.json); or rows as ``evaluate``
    takes them, datasets included, evaluated with ``options`` first. Rows are matched by ids, else by the query's text.
    metrics: what to compare, default all that both have. baseline: the name of another first system.
    alpha, correction: of p for the number of tests ("holm", "bh", "bonferroni", "none").
    examples: rows listed for each metric and cause. progress: called with the rows evaluated and those to evaluate.
    Raises BadInput where the two have nothing in common.
    """
    asked = (
        split_names(metrics) if isinstance(metrics, str) else None if metrics is None else list(map(name_of, metrics))
    )
    two = b is not None
    sides = _named([_side(given, asked, options, beside=two) for given in (a, b) if given is not None])
    if options and not any(isinstance(side, Unevaluated) for side in sides):
        raise BadSettings(f"{', '.join(options)}: all that is compared is evaluated already", hint="leave it out")
    if options.get("systems") is not None and sum(isinstance(side, Unevaluated) for side in sides) > 1:
        hint = "to compare systems on the same data: compare(data, systems={...})"
        raise BadSettings("each of the two brings its own responses", where="systems", hint=hint)
    settings, new = Settings(), [side for side in sides if isinstance(side, Unevaluated)]
    runtime, total, before = runtime_with(settings, *(side.inputs for side in new)), sum(side.rows for side in new), 0

    def evaluate(side: Unevaluated, spec: JobSpec) -> Report:
        nonlocal before
        shown = None if progress is None else lambda done, _: progress(before + done, total)
        report = finished(partial(completed, runtime, settings, spec, side.inputs, shown))
        before += side.rows
        return report

    document, _ = comparing.compare(
        sides,
        evaluate,
        baseline=baseline,
        metrics=asked,
        alpha=alpha,
        correction=correction,
        examples=examples,
    )
    return ComparisonReport(**dict(document))


def _side(given: Any, metrics: Sequence[str] | None, options: Mapping[str, Any], *, beside: bool) -> Side | Unevaluated:
    """A report that there is, or data, read and to be evaluated; ``beside`` another side, with the responses in it."""
    if isinstance(given, Report):
        return Side(given, None, given.provenance.configuration.name)
    file = Path(given) if isinstance(given, str | Path) else None
    stored = isinstance(given, str) and is_stored_dataset(given)
    name = given if stored else file.stem if file and file.is_file() else None
    if file and not stored and not is_data(file):
        report, system = chosen(str(given))
        return Side(report, system, name or report.provenance.configuration.name)
    asked = {} if metrics is None else {"metrics": list(metrics)}
    configuration, in_memory = configured(given, {**options, **asked})
    if beside and options.get("systems") is None:  # those of a file are about its own data
        configuration = configuration.model_copy(update={"systems": {}})
    return Unevaluated(inputs(configuration, in_memory), configuration.to_job_spec(), None, name or configuration.name)


def _named(sides: Sequence[Side | Unevaluated]) -> list[Side | Unevaluated]:
    """The sides under their names; ``a`` and ``b`` where they have none, or the same."""
    called = {side.name for side in sides} - {None}
    if len(called) == len(sides):
        return list(sides)
    return [
        replace(side, name=name) if isinstance(side, Unevaluated) else side._replace(name=name)
        for side, name in zip(sides, "ab", strict=False)
    ]
