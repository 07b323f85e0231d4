"""The runs in a folder, for the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from ragassay.core.errors import AssayError, NotFound
from ragassay.core.models import Result, Sample
from ragassay.core.report import ReportWithResults
from ragassay.dashboard.library import Library
from ragassay.datasets.versions import DatasetStore
from ragassay.evaluation.aggregate import aggregate
from ragassay.evaluation.prepare import provenance
from ragassay.reporting.listing import Headline, RunSummary
from ragassay.storage.folder import FolderRun, FolderStore
from ragassay.storage.journal import rows_with_replies
from ragassay.storage.runs import GATES_FILE, REPORT_FILE, Entry

MAX_SUMMARIES_HELD = 20_000


class FolderLibrary(Library):
    """The runs in a folder. ``only``: these runs, and no others."""

    of_service = False

    def __init__(self, store: FolderStore, only: Sequence[str] = ()) -> None:
        super().__init__()
        self.where, self.datasets = str(store.root / "runs"), DatasetStore.of_folder(store.root)
        self._store, self._only = store, tuple(only)
        self._summaries = lru_cache(MAX_SUMMARIES_HELD)(lambda run, _: _summary(store, run))

    def runs(self, text: str = "") -> Iterable[RunSummary]:
        """Runs, newest first; with ``text`` those that have it."""
        ids = [run for run in reversed(self._store.ids()) if not self._only or run in self._only]
        return filter(lambda run: run.has(text), map(self._summary, ids))

    def newest(self) -> Iterable[Entry]:
        """See ``Library``."""
        return (entry for entry in self._store.newest() if not self._only or entry.id in self._only)

    def open(self, run: str) -> FolderRun:
        """The run; raises NotFound, BadData."""
        folder = self._store.root / "runs" / run
        if folder.name != run or (self._only and run not in self._only) or not (folder / "run.json").is_file():
            raise NotFound(f"there is no run {run!r}")
        return self._store.open(str(folder))

    def version(self, run: str) -> tuple[int, ...]:
        """Until there is a report, its finished chunks count."""
        folder = self._store.root / "runs" / run
        file = folder / REPORT_FILE
        if not file.is_file():
            return (sum(1 for _ in folder.glob("results/*/*.jsonl")),)
        return file.stat().st_size, file.stat().st_mtime_ns

    def read_report(self, run: str) -> ReportWithResults:
        """The report of a run, of an unfinished one of the rows that are done. Raises NotFound if no row is done."""
        opened = self.open(run)
        if opened.report_file.is_file() or not (done := opened.done()):
            return opened.report_with_results()
        record = opened.record
        rows = {name: one for name in record.systems if (one := opened.rows(name, done))}
        report = aggregate(record.id, record.created_at, provenance(record), rows, expected=record.dataset.rows)
        return ReportWithResults.of(report, rows)

    def sample(self, run: str, row: Result) -> Sample | None:
        """What a row was evaluated on; None where that is not kept."""
        opened = self.open(run)
        held: FolderRun = self.held("run", (run, self.version(run)), lambda: opened)
        return held.sample(row.query_id, row.system)

    def _summary(self, run: str) -> RunSummary:
        """A run in one line, read again if its report or gates changed."""
        gates = self._store.root / "runs" / run / GATES_FILE
        return self._summaries(run, (*self.version(run), gates.stat().st_mtime_ns if gates.is_file() else 0))


def _summary(store: FolderStore, run_id: str) -> RunSummary:
    try:
        run = store.open(str(store.root / "runs" / run_id))
        record = run.record
        left = sum(record.rows_in(chunk) for chunk in run.pending())
        about: dict[str, Any] = {"done": record.dataset.rows * len(record.systems) - left}
        about["plugins"] = tuple(name for name in record.plugins if name.endswith(".py") or " " not in name)
        if run.report_file.exists():
            return RunSummary.of(record, "finished", Headline.of_report(run.report()), passed=run.passed, **about)
        answering = [name for name, source in record.systems.items() if source.answers]
        about["answered"] = rows_with_replies(run.folder, answering)
        return RunSummary.of(record, "unfinished", Headline(), passed=None, **about)
    except AssayError as error:
        return RunSummary(id=run_id, status="unreadable", error=str(error))
