"""What people said of rows, as it is kept: every label that was ever given, the last one of a row and metric counts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ragassay.core.files import LazyRows, LineLog, locked
from ragassay.core.models import Chance, FrozenModel, Result
from ragassay.core.report import ReportWithResults, SystemReport
from ragassay.evaluation.aggregate import corrected_by_labels
from ragassay.storage.folder import FolderRun
from ragassay.storage.protocol import report_with_results
from ragassay.storage.rows import row_of

LABELS_FILE = "labels.jsonl"
LONGEST_NAME, MOST_LABELS = 80, 200_000  # of a job, those that were superseded included
_IN_PROCESS = threading.Lock()  # a lock of a file is held by a process, not by a thread


class HumanLabel(FrozenModel):
    """What somebody said of one answer, from 0 to 1, or None where they could not tell. ``at`` is UTC, ISO 8601."""

    system: Annotated[str, Field(min_length=1, max_length=64)]
    query_id: Annotated[str, Field(min_length=1)]
    metric: Annotated[str, Field(min_length=1, max_length=200)]
    value: Chance | None
    by: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    at: Annotated[str, Field(min_length=1, max_length=40)]


class FolderLabels:
    """The labels of a run in a folder: ``labels.jsonl``, which only grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, labels: Iterable[HumanLabel]) -> None:
        """Keep labels; a kill leaves whole ones. Raises DiskFull, Conflict while another process adds some."""
        with _IN_PROCESS, locked(self._folder / "labels.lock", f"the file of labels of run {self._folder.name}"):
            log = LineLog(self._folder / LABELS_FILE)
            try:
                log.cut_torn_line()
                for label in labels:
                    log.append(label.model_dump(mode="json"))
            finally:
                log.close()

    def kept(self) -> Sequence[HumanLabel]:
        """All of them, oldest first; raises BadData for a line that is no label. What a kill left of a line is no line."""
        file = self._folder / LABELS_FILE
        if not file.exists():
            return ()
        *lines, _ = file.read_bytes().split(b"\n")
        return [row_of(file, number, line, HumanLabel) for number, line in enumerate(lines, 1)]


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
    systems = {name: _corrected(report.systems[name], rows, spec.confidence) for name, rows in results.items()}
    return report.model_copy(
        update={"systems": {**report.systems, **systems}, "results": {**report.results, **results}}
    )


def report_of(run: FolderRun) -> ReportWithResults:
    """The report of a run, corrected by people's labels of its rows; raises as ``FolderRun.report`` does."""
    return with_labels(report_with_results(run), FolderLabels(run.folder).kept())


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
