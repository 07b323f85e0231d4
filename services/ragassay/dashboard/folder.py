"""The runs in a folder, for the pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ragassay.dashboard.library import RowsPage
from ragassay.documents import Report
from ragassay.errors import NotFound
from ragassay.exporters.listing import RunSummary, summary
from ragassay.models import Result, Sample
from ragassay.store.folder import FolderRun, FolderStore
from ragassay.store.labels import Label
from ragassay.store.selection import Selection

MOST_REPORTS_HELD = 8


class FolderLibrary:
    """The runs in a folder. ``only``: these runs, and no others."""

    def __init__(self, store: FolderStore, only: Sequence[str] = ()) -> None:
        self._store, self._only = store, tuple(only)
        self._held = lru_cache(MOST_REPORTS_HELD)(lambda run, _: self._open(run).report())

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._store.root / "runs")

    def runs(self, text: str = "") -> Iterable[RunSummary]:
        """Runs, newest first; with ``text`` those that have it."""
        ids = [run for run in reversed(self._store.ids()) if not self._only or run in self._only]
        return filter(lambda run: run.has(text), (summary(self._store, run) for run in ids))

    def report(self, run: str) -> Report:
        """A run's report, read once while it does not change; raises NotFound, BadData."""
        file = self._open(run).report_file
        written = (file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else None
        report: Report = self._held(run, written)
        return report

    def page(self, run: str, selection: Selection, start: int, most: int) -> RowsPage:
        """So many of a run's rows; raises NotFound, and UnknownName for a system or figure that is not there."""
        report = self.report(run)
        systems = {name: one.results for name, one in report.systems.items()}
        if selection.system is None and selection.takes_all:
            return _cut(list(systems.values()), start, most)
        selected = list(selection.of(systems, report.provenance.metrics))
        return RowsPage(selected[start : start + most], start, len(selected))

    def sample(self, run: str, row: Result) -> Sample | None:
        """What a row was evaluated on; None where that is not kept."""
        return self._open(run).sample(row.query_id, row.system)

    def labels(self, run: str) -> Sequence[Label]:
        """What people said of its rows, oldest first; raises NotFound, BadData."""
        return self._open(run).labels.kept()

    def add_labels(self, run: str, labels: Sequence[Label]) -> None:
        """Keep labels beside those that are there; raises NotFound, DiskFull, Conflict."""
        self._open(run).labels.add(labels)

    def _open(self, run: str) -> FolderRun:
        if run not in self._store.ids() or (self._only and run not in self._only):
            raise NotFound(f"there is no run {run!r}")
        return self._store.open(str(self._store.root / "runs" / run))


def _cut(systems: Sequence[Sequence[Result]], start: int, most: int) -> RowsPage:
    """Rows from ``start`` on of several systems one after another, none before them read."""
    rows: list[Result] = []
    before = 0
    for results in systems:
        first, last = max(start - before, 0), min(start + most - before, len(results))
        rows += [results[place] for place in range(first, last)]
        before += len(results)
    return RowsPage(rows, start, before)
