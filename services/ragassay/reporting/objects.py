"""Reports, comparisons and costs as Python users meet them: printed as tables, saved as files, shown in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ragassay.analysis.costs import CostReport, cost_query, cost_report
from ragassay.analysis.gates import GateReport
from ragassay.analysis.models import Comparison as ComparisonDocument
from ragassay.core.errors import AssayError, BadSettings, UnknownName
from ragassay.core.formatting import number
from ragassay.core.models import Result
from ragassay.core.report import Aggregate, FixFirst, ReportWithResults
from ragassay.core.settings import Settings
from ragassay.metrics.failures import attribute
from ragassay.reporting import comparison, costs, gates
from ragassay.reporting.exporters import Exporters
from ragassay.reporting.failing import headline, why, worst_first
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.page import as_html
from ragassay.reporting.report import of_report
from ragassay.reporting.tabular import flat_rows
from ragassay.reporting.text import as_text
from ragassay.storage.folder import FolderStore

if TYPE_CHECKING:
    import pandas

    from ragassay.reporting.document import Document


class Printable:
    """What a document can do in Python: print, show in a notebook, become a file."""

    _exporters: ClassVar[Exporters[Any]]

    def _document(self) -> Document:
        raise NotImplementedError

    def save(self, path: str | Path, *, fields: Sequence[str] = (), format: str | None = None) -> None:  # noqa: A002
        """Write a file. Its extension, or ``format``, picks the format, such as csv, html, json, md or xlsx.

        ``fields``: the columns of csv, parquet and xlsx, in this order. Raises UnknownName, BadSettings, MissingExtra, DiskFull.
        """
        self._exporters.write(self, Path(path), form=format, fields=fields)

    def __str__(self) -> str:
        return as_text(self._document())

    def _repr_html_(self) -> str:
        return as_html(self._document())


class Report(Printable, ReportWithResults):
    """The result of an evaluation.

    Beside the parts of the report document (``run``, ``provenance``, ``systems``): ``rows``, ``metrics``, ``failures``,
    ``fix_first``, ``worst``, ``save``, ``to_pandas``; ``report["faithfulness"]`` are the values of a metric.
    """

    _exporters = EXPORTERS

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
    def failures(self) -> dict[str, dict[str, list[Result]]]:
        """For each system its rows that are not accurate, by the cause, or ``not_attributed``."""
        by_system: dict[str, dict[str, list[Result]]] = {name: {} for name in self.systems}
        for name, causes in by_system.items():
            for row in self.results_of(name):
                if attribution := attribute(row):
                    causes.setdefault(attribution.cause or "not_attributed", []).append(row)
        return by_system

    @property
    def fix_first(self) -> dict[str, FixFirst | None]:
        """For each system the causes of failure, the one that costs most accuracy first, with accuracy without it.

        None for a system of which no answer is known to be inaccurate.
        """
        return {name: one.fix_first for name, one in self.systems.items()}

    def worst(self, n: int = 3, *, metric: str | None = None, system: str | None = None) -> list[dict[str, Any]]:
        """The ``n`` worst of the ``rows``, each with ``why``: by a metric, else by accuracy and what the judge says.

        ``system`` may be left out if there is one. Raises UnknownName.
        """
        name = self._one_system(system)
        if metric is not None and metric not in self.systems[name].metrics:
            raise UnknownName("metric", metric, self.systems[name].metrics)
        ranked = worst_first(self.systems[name], self.results_of(name), metric)
        worst = {result.query_id: why(result) or None for result in islice(ranked, n)}
        rows = {row["query_id"]: row for row in flat_rows(self) if row["system"] == name and row["query_id"] in worst}
        return [{**rows[query_id], "why": reason} for query_id, reason in worst.items()]

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

    def _document(self) -> Document:
        return of_report(self)

    def __repr__(self) -> str:
        headlines = "; ".join(f"{name}: {headline(one)}" for name, one in self.systems.items())
        return f"<Report {self.run.id}: {self.provenance.dataset.rows} queries; {headlines}>"


class Comparison(Printable, ComparisonDocument):
    """Which system is better, and how sure that is: ``verdict``, ``pairs``, ``sides`` ..."""

    _exporters = comparison.EXPORTERS

    def _document(self) -> Document:
        return comparison.of_comparison(self)

    def __repr__(self) -> str:
        return f"<Comparison: {' '.join(self.verdict)}>"


class Gates(Printable, GateReport):
    """The gates of a run: ``passed``, ``results``, ``missed``; each result has a ``reason``."""

    _exporters = gates.EXPORTERS

    def _document(self) -> Document:
        return gates.of_gates(self)

    def __repr__(self) -> str:
        missed = "; ".join(result.name for result in self.missed)
        counts = f"{len(self.results) - len(self.missed)} of {len(self.results)} passed"
        return f"<Gates: run {self.run}, {counts}{missed and f'; missed: {missed}'}>"


class Costs(Printable, CostReport):
    """What accurate answers cost, over runs in the home folder or jobs of a service: ``groups``, ``total`` ..."""

    _exporters = costs.EXPORTERS

    @classmethod
    def of_runs(cls, **options: Any) -> Costs:
        """Cost per accurate answer over the runs here, and what was spent, by groups.

        since, until: days or times ("2026-11-01"). zone: of days ("Europe/Berlin"), default UTC. system, dataset: a name or
        several. by: what divides the groups, "dataset,system" by default: of system, dataset, category, model, day, month
        and judge. Raises NothingToEvaluate without a report of a run.
        """
        return cls(**dict(cost_report(FolderStore(Settings().home).newest(), cost_query(**options))))

    def _document(self) -> Document:
        return costs.of_costs(self)

    def __repr__(self) -> str:
        per_answer = number(self.total.cost_per_accurate_answer.value)
        return f"<Costs: reports {self.reports}, groups {len(self.groups)}, {per_answer} USD per accurate answer>"
