"""What people said of rows, as it is kept: every label that was ever given, the last one of a row and metric counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from ragassay.core.errors import TooLarge
from ragassay.core.files import LazyRows
from ragassay.core.models import Chance, FrozenModel, Result
from ragassay.core.report import ReportWithResults, SystemReport
from ragassay.evaluation.aggregate import corrected_by_labels
from ragassay.storage.runs import LABELS_FILE, Run, row_of

LONGEST_NAME, MAX_LABELS = 80, 200_000  # of a run, those that were superseded included


class HumanLabel(FrozenModel):
    """What somebody said of one answer, from 0 to 1, or None where they could not tell. ``at`` is UTC, ISO 8601."""

    system: Annotated[str, Field(min_length=1, max_length=64)]
    query_id: Annotated[str, Field(min_length=1)]
    metric: Annotated[str, Field(min_length=1, max_length=200)]
    value: Chance | None
    by: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    at: Annotated[str, Field(min_length=1, max_length=40)]


def add_labels(run: Run, labels: Sequence[HumanLabel]) -> None:
    """Keep labels of a run's rows beside those that are there. Raises DiskFull, Conflict, and TooLarge beyond what is kept."""
    if (run.blobs.get(LABELS_FILE) or b"").count(b"\n") + len(labels) > MAX_LABELS:
        raise TooLarge(f"of a run {MAX_LABELS:,} labels are kept", hint="label another run")
    run.blobs.append(LABELS_FILE, (label.model_dump(mode="json") for label in labels))


def labels_of(run: Run) -> list[HumanLabel]:
    """The labels of a run, oldest first; raises BadData for a line that is no label. What a kill left of a line is no line."""
    *lines, _ = (run.blobs.get(LABELS_FILE) or b"").split(b"\n")
    where = f"{run.blobs.where}/{LABELS_FILE}"
    return [row_of(where, number, line, HumanLabel) for number, line in enumerate(lines, 1)]


def with_labels(report: ReportWithResults, labels: Iterable[HumanLabel]) -> ReportWithResults:
    """The report with labels that were given after it was made: on its rows, and in the corrected mean of each metric.

    The last label of a row and metric counts. The report stays as it is if a reference judge corrects the means, or its
    rows are not kept any more.
    """
    spec, values = report.provenance.configuration, dict[str, dict[str, dict[str, float]]]()
    for (system, query, metric), value in {(one.system, one.query_id, one.metric): one.value for one in labels}.items():
        if value is not None and len(report.results.get(system, ())) >= report.systems[system].queries:
            values.setdefault(system, {}).setdefault(query, {})[metric] = value
    if not values or spec.references:
        return report
    results = {name: _LabelledResults(report.results[name], of_rows) for name, of_rows in values.items()}
    systems = {
        name: _corrected(report.systems[name], rows, spec.statistics.confidence) for name, rows in results.items()
    }
    return report.model_copy(
        update={"systems": {**report.systems, **systems}, "results": {**report.results, **results}}
    )


def report_of(run: Run) -> ReportWithResults:
    """The report of a run, corrected by people's labels of its rows; raises as ``Run.report`` does."""
    return with_labels(run.report_with_results(), labels_of(run))


def _corrected(report: SystemReport, rows: _LabelledResults, level: float) -> SystemReport:
    pairs: dict[str, list[tuple[float | None, float | None]]] = {
        metric: [] for metric in rows.metrics & report.metrics.keys()
    }
    for row in rows:
        for metric, of_metric in pairs.items():
            of_metric.append((row.label(metric), row.scores[metric].value))
    metrics = {
        name: report.metrics[name].model_copy(update={"corrected": corrected_by_labels(of_metric, level=level)})
        for name, of_metric in pairs.items()
    }
    return report.model_copy(update={"metrics": {**report.metrics, **metrics}})


class _LabelledResults(LazyRows[Result]):
    """Rows with labels of people on those that have some, by query."""

    def __init__(self, rows: Sequence[Result], labels: Mapping[str, Mapping[str, float]]) -> None:
        self._rows, self._labels = rows, labels

    @property
    def metrics(self) -> set[str]:
        """The metrics of the labels."""
        return {metric for of_row in self._labels.values() for metric in of_row}

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, place: int) -> Result:
        """The row at a place, from 0."""
        row = self._rows[place]
        labels = self._labels.get(row.query_id)
        return row.with_labels(labels) if labels else row
