"""The report as Python users meet it: rows, means, failures, files and a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragassay.core.errors import AssayError, BadSettings, UnknownName
from ragassay.core.report import Aggregate, FixFirst, ReportWithResults
from ragassay.metrics.failures import Failures, failures
from ragassay.reporting import EXPORTERS
from ragassay.reporting.failing import headline, why, worst_first
from ragassay.reporting.report import in_short
from ragassay.reporting.rows import flat_rows
from ragassay.sdk.show import as_html, as_text

if TYPE_CHECKING:
    import pandas


class EvaluationReport(ReportWithResults):
    """What an evaluation found: ``ragassay.Report``.

    Beside the parts of the report document (``run``, ``provenance``, ``systems``): ``rows``, ``metrics``, ``failures``,
    ``fix_first``, ``worst``, ``save``, ``to_pandas``; ``report["faithfulness"]`` are the values of a metric. It prints as a table.
    """

    @classmethod
    def open(cls, reference: str | Path) -> EvaluationReport:
        """A saved one: a run's id, its beginning or folder, ``last``, a report.json, or the id of a service's job."""
        from ragassay.sdk.stored import open_report

        document = open_report(str(reference))
        return cls.of(document, document.results)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict for each query and system: texts, scores, reasons, tokens, USD, ms, and the user's own fields."""
        return list(flat_rows(self))

    @property
    def metrics(self) -> dict[str, Any]:
        """{metric: its mean, interval, n, missing ...}; with several systems {system: {metric: ...}}."""
        by_system: dict[str, dict[str, Aggregate]] = {name: one.metrics for name, one in self.systems.items()}
        return next(iter(by_system.values())) if len(by_system) == 1 else by_system

    @property
    def failures(self) -> dict[str, Failures]:
        """For each system how many answers are not accurate, for which causes, with examples."""
        return {name: failures(self.results_of(name)) for name in self.systems}

    @property
    def fix_first(self) -> dict[str, FixFirst | None]:
        """For each system the causes of failure, the one that costs most accuracy first, with accuracy without it.

        None for a system of which no answer is known to be inaccurate.
        """
        return {name: one.fix_first for name, one in self.systems.items()}

    def worst(self, n: int = 3, *, metric: str | None = None, system: str | None = None) -> list[dict[str, Any]]:
        """The ``n`` worst of the ``rows``, each with ``why``: by a metric, else by accuracy and what the judge says.

        ``system`` may be left out where there is one. Raises UnknownName.
        """
        name = self._one_system(system)
        if metric is not None and metric not in self.systems[name].metrics:
            raise UnknownName("metric", metric, self.systems[name].metrics)
        ranked = worst_first(self.systems[name], self.results_of(name), metric)
        worst = {result.query_id: why(result) or None for result in islice(ranked, n)}
        rows = {row["query_id"]: row for row in flat_rows(self) if row["system"] == name and row["query_id"] in worst}
        return [{**rows[query_id], "why": reason} for query_id, reason in worst.items()]

    def save(self, path: str | Path, *, fields: Sequence[str] = (), format: str | None = None) -> None:  # noqa: A002
        """Write a file; its extension, or ``format``, says what it becomes: csv, html, json, md, parquet, pdf, xlsx or xml.

        ``fields``: the keys of ``rows`` that it has, in this order. Raises UnknownName, BadSettings, MissingExtra, DiskFull.
        """
        EXPORTERS.write(self, Path(path), form=format, fields=fields)

    def to_pandas(self) -> pandas.DataFrame:
        """The ``rows`` as a data frame."""
        try:
            import pandas
        except ImportError:
            raise AssayError("to_pandas needs pandas", hint="pip install pandas") from None
        return pandas.DataFrame(self.rows)

    def __getitem__(self, metric: str) -> list[float | None]:
        """The values of a metric, one for each of the ``rows``; None is missing."""
        known = self.provenance.metrics
        if metric not in known:
            raise UnknownName("metric", metric, known)
        return [row.scores[metric].value for system in self.systems for row in self.results_of(system)]

    def _one_system(self, name: str | None) -> str:
        if name is None:
            if len(self.systems) > 1:
                raise BadSettings("the report has several systems", hint=f"name one: {', '.join(self.systems)}")
            return next(iter(self.systems))
        if name not in self.systems:
            raise UnknownName("system", name, self.systems)
        return name

    def __repr__(self) -> str:
        found = "; ".join(f"{name}: {headline(one)}" for name, one in self.systems.items())
        return f"<Report {self.run.id}: {self.provenance.dataset.rows} queries; {found}>"

    def __str__(self) -> str:
        return as_text(in_short(self))

    def _repr_html_(self) -> str:
        return as_html(in_short(self))
