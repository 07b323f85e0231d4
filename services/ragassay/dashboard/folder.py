"""The runs in a folder, for the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from ragassay.analysis import comparison
from ragassay.analysis.costs import CostQuery, CostReport, cost_report_of_runs
from ragassay.analysis.gates import GateReport
from ragassay.analysis.models import Comparison
from ragassay.analysis.trends import Trend, trend
from ragassay.core.errors import NotFound
from ragassay.core.models import Result, Sample
from ragassay.core.protocols import Purpose, Reply
from ragassay.core.report import ReportWithResults, run_and_system
from ragassay.dashboard.library import RowsPage
from ragassay.evaluation.aggregate import aggregate
from ragassay.evaluation.human_labels import HumanLabel, add_labels, labels_of, with_labels
from ragassay.evaluation.prepare import provenance
from ragassay.reporting.listing import RunSummary, summary
from ragassay.storage.datasets import FolderDatasets
from ragassay.storage.folder import FolderRun, FolderStore
from ragassay.storage.journal import calls_about
from ragassay.storage.row_index import RowIndex
from ragassay.storage.runs import GATES_FILE, LABELS_FILE, REPORT_FILE
from ragassay.storage.selection import Selection

MOST_REPORTS_HELD = 8
MOST_RUNS_OPEN = 2  # each with the places of all its samples
MOST_SUMMARIES_HELD = 20_000


class FolderLibrary:
    """The runs in a folder. ``only``: these runs, and no others."""

    def __init__(self, store: FolderStore, only: Sequence[str] = ()) -> None:
        self._store, self._only = store, tuple(only)
        self.datasets = FolderDatasets(store.root)
        self._summaries = lru_cache(MOST_SUMMARIES_HELD)(lambda run, _: summary(store, run))
        self._reports = lru_cache(MOST_REPORTS_HELD)(lambda run, _: self._read_report(run))
        self._labelled = lru_cache(MOST_REPORTS_HELD)(
            lambda run, version, _: with_labels(self._reports(run, version), self.labels(run))
        )
        self._opened = lru_cache(MOST_RUNS_OPEN)(lambda run, _: self._open(run))
        self._rows = lru_cache(MOST_REPORTS_HELD)(lambda run, _: self._read_rows(run))

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._store.root / "runs")

    @property
    def of_service(self) -> bool:
        """See ``Library``."""
        return False

    def runs(self, text: str = "") -> Iterable[RunSummary]:
        """Runs, newest first; with ``text`` those that have it."""
        ids = [run for run in reversed(self._store.ids()) if not self._only or run in self._only]
        return filter(lambda run: run.has(text), map(self._summary, ids))

    def report(self, run: str, *, labels: bool = True) -> ReportWithResults:
        """A run's report, read once while it does not change; that of an unfinished run is of the rows that are done.

        Raises NotFound if no row is done, BadData.
        """
        version, file = self._version(run), self._folder(run) / LABELS_FILE
        labelled = labels and file.is_file()
        report: ReportWithResults = (
            self._labelled(run, version, file.stat().st_size) if labelled else self._reports(run, version)
        )
        return report

    def rows(self, run: str) -> RowIndex:
        """The rows that a run's report is of; raises NotFound, BadData."""
        rows: RowIndex = self._rows(run, self._version(run))
        return rows

    def page(self, run: str, selection: Selection, start: int, most: int) -> RowsPage:
        """So many of a run's rows; raises NotFound, and UnknownName for a system or figure that is not there."""
        rows = self.rows(run)
        places = rows.selected(selection)
        return RowsPage(rows.at(places[start : start + most]), start, len(places))

    def sample(self, run: str, row: Result) -> Sample | None:
        """What a row was evaluated on; None where that is not kept."""
        sample: Sample | None = self._opened(run, self._version(run)).sample(row.query_id, row.system)
        return sample

    def compare(self, references: Sequence[str], baseline: str | None, metrics: Sequence[str] | None) -> Comparison:
        """Systems side by side: runs, or RUN#SYSTEM; raises as ``comparison.compare`` does, and NotFound."""
        parts = [run_and_system(reference) for reference in references]
        chosen = [(self.report(run), system) for run, system in parts]
        return comparison.compare(chosen, baseline=baseline, metrics=metrics)

    def costs(self, query: CostQuery) -> CostReport:
        """What accurate answers cost; raises NothingToEvaluate where no report is asked for."""
        return cost_report_of_runs(self._store.newest(), query)

    def trend(self, metric: str, *, system: str | None, dataset: str | None, judge: str | None, last: int) -> Trend:
        """A metric over the newest runs on one dataset with one judge; raises NothingToEvaluate, UnknownName."""
        return trend(self._store.newest(), metric, system=system, dataset=dataset, judge=judge, last=last)

    def passed(self, run: str) -> bool | None:
        """Has the run passed its gates? None where they were not checked."""
        return self._open(run).passed

    def gates(self, run: str) -> GateReport | None:
        """How the run did at its gates; None if they were not checked."""
        document = self._open(run).gates()
        return GateReport.model_validate_json(document) if document else None

    def labels(self, run: str) -> Sequence[HumanLabel]:
        """What people said of its rows, oldest first; raises NotFound, BadData."""
        return labels_of(self._open(run))

    def add_labels(self, run: str, labels: Sequence[HumanLabel]) -> None:
        """Keep labels beside those that are there; raises NotFound, DiskFull, Conflict."""
        add_labels(self._open(run), labels)

    def calls(self, run: str, row: Result) -> Sequence[tuple[Purpose, Reply]]:
        """The replies of models that a row rests on, with what each was for."""
        return calls_about(self._open(run).folder / "calls.jsonl", row.system, row.query_id)

    def _open(self, run: str) -> FolderRun:
        return self._store.open(str(self._folder(run)))

    def _folder(self, run: str) -> Path:
        folder = self._store.root / "runs" / run
        if folder.name != run or (self._only and run not in self._only) or not (folder / "run.json").is_file():
            raise NotFound(f"there is no run {run!r}")
        return folder

    def _version(self, run: str) -> tuple[int, ...]:
        """A value that changes when the run's report does or, until there is one, its finished chunks. Raises NotFound."""
        folder = self._folder(run)
        file = folder / REPORT_FILE
        if not file.is_file():
            return (sum(1 for _ in folder.glob("results/*/*.jsonl")),)
        return file.stat().st_size, file.stat().st_mtime_ns

    def _summary(self, run: str) -> RunSummary:
        gates = self._folder(run) / GATES_FILE
        return self._summaries(run, (*self._version(run), gates.stat().st_mtime_ns if gates.is_file() else 0))

    def _read_report(self, run: str) -> ReportWithResults:
        opened = self._open(run)
        record = opened.record
        if opened.report_file.exists() or len(opened.pending()) == len(record.chunks()):
            return opened.report_with_results()
        rows = {name: one for name in record.systems if (one := opened.rows(name))}
        report = aggregate(record.id, record.created_at, provenance(record), rows, expected=record.dataset.rows)
        return ReportWithResults.of(report, rows)

    def _read_rows(self, run: str) -> RowIndex:
        opened = self._open(run)
        return RowIndex(opened)
