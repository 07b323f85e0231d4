"""What the pages read: runs, their reports and their rows, wherever these are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock, Thread
from typing import Any, ClassVar

from ragassay.analysis import comparison
from ragassay.analysis.gates import GateReport
from ragassay.analysis.models import Comparison
from ragassay.core.models import Result, Sample
from ragassay.core.report import ReportWithResults, run_and_system
from ragassay.datasets.versions import DatasetStore
from ragassay.evaluation.labelling import HumanLabel, add_labels, labels_of, with_labels
from ragassay.reporting.listing import RunSummary
from ragassay.storage.row_index import RowIndex
from ragassay.storage.runs import Entry, Run

MAX_HELD = {"report": 8, "labelled": 8, "rows": 8, "latest": 4, "labelling": 4, "comparison": 8, "run": 2}
"""By kind; an open run has all samples."""
MAX_ROWS_AT_ONCE = 10_000  # of a comparison that a request waits for: half a second
MAX_APART = 2  # comparisons of more at a time


class Library(ABC):
    """Runs that can be looked at, and ``where`` they are kept, with the ``datasets`` beside them.

    What was read of a run is held while the run does not change. ``of_service``: jobs, with a page each before they have
    a report.
    """

    of_service: ClassVar[bool]
    where: str
    datasets: DatasetStore

    def __init__(self) -> None:
        self._held: dict[str, OrderedDict[Any, Any]] = {kind: OrderedDict() for kind in MAX_HELD}
        self._holding = Lock()
        self._apart: dict[Hashable, Future[Any]] = {}

    def problems(self) -> Sequence[str]:
        """What needs attention in the service that keeps the runs; nothing for a folder."""
        return ()

    @abstractmethod
    def runs(self, text: str = "") -> Iterable[RunSummary]:
        """Runs, newest first; with ``text`` those that have it."""

    @abstractmethod
    def newest(self) -> Iterable[Entry]:
        """The runs that trends and costs are over, newest first."""

    @abstractmethod
    def open(self, run: str) -> Run:
        """The run; raises NotFound, BadData."""

    @abstractmethod
    def version(self, run: str) -> Hashable:
        """A value that changes when the run's report does; raises as ``report`` does."""

    @abstractmethod
    def sample(self, run: str, row: Result) -> Sample | None:
        """What a row was evaluated on; None where that is not kept."""

    def report(self, run: str, *, labels: bool = True) -> ReportWithResults:
        """A run's report, with what people's ``labels`` of its rows make of it; raises NotFound, BadData, Conflict."""
        opened = self.open(run)
        version = run, self.version(run)
        report: ReportWithResults = self.held("report", version, lambda: self.read_report(run))
        if not (given := labels_of(opened) if labels else ()):
            return report
        labelled: ReportWithResults = self.held(
            "labelled", (version, len(given)), lambda: with_labels(report, given, self.rows(run))
        )
        return labelled

    def read_report(self, run: str) -> ReportWithResults:
        """The report of a run with its rows."""
        return self.open(run).report_with_results()

    def rows(self, run: str) -> RowIndex:
        """The rows that a run's report is of, chosen and read by number; the same object while they do not change.

        Raises as ``report`` does.
        """
        opened = self.open(run)
        rows: RowIndex = self.held("rows", (run, self.version(run)), lambda: RowIndex(opened))
        return rows

    def compare(
        self,
        references: Sequence[str],
        baseline: str | None,
        metrics: Sequence[str] | None,
        *,
        apart: bool = False,
    ) -> Comparison | None:
        """Systems side by side: runs, or RUN#SYSTEM; raises as ``comparison.compare`` does, and as ``report``.

        It reads all rows of the runs, so the newest ones are held. With ``apart`` a thread of its own compares many rows, and
        this returns None until it has.
        """
        parts = [run_and_system(reference) for reference in references]
        runs = {run: self.open(run) for run, _ in parts}
        versions = tuple((self.version(run), len(labels_of(opened))) for run, opened in runs.items())
        key = tuple(references), versions, baseline, tuple(metrics or ())

        def compared() -> Comparison:
            sides = [(self.report(run), system) for run, system in parts]
            return comparison.compare(sides, baseline=baseline, metrics=metrics)

        make = partial(self.held, "comparison", key, compared)
        is_long = apart and sum(opened.record.dataset.rows for opened in runs.values()) > MAX_ROWS_AT_ONCE
        made: Comparison | None = self._made_apart(key, make) if is_long else make()
        return made

    def _made_apart(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The held comparison of that key, which ``make`` makes in a thread of its own, or what it raises, once.

        None until it has, or while too many others are at work.
        """
        if (made := self.held("comparison", key, None)) is not None:
            return made
        with self._holding:
            ended = [other for other, one in self._apart.items() if one.done()]
            if key not in self._apart and len(self._apart) - len(ended) < MAX_APART:
                for left in ended[: -MAX_HELD["comparison"]]:  # whose page was closed
                    del self._apart[left]
                self._apart[key] = future = Future[Any]()
                Thread(target=_settle, args=(future, make), daemon=True).start()
            if key in self._apart and self._apart[key].done():
                return self._apart.pop(key).result()
        return None

    def gates(self, run: str) -> GateReport | None:
        """How the run did at its gates; None if they were not checked."""
        document = self.open(run).gates()
        return GateReport.model_validate_json(document) if document else None

    def labels(self, run: str) -> Sequence[HumanLabel]:
        """The labels of its rows by people, oldest first; raises NotFound."""
        return labels_of(self.open(run))

    def add_labels(self, run: str, labels: Sequence[HumanLabel]) -> None:
        """Keep labels beside those that are there; raises NotFound, DiskFull, Conflict."""
        add_labels(self.open(run), labels)

    def held(self, kind: str, key: Hashable, read: Callable[[], Any] | None) -> Any:
        """What was read under a key: the same object, while it is one of the few that are held; without ``read`` only then."""
        held = self._held[kind]
        if (found := held.get(key)) is None and read:
            found = read()
            with self._holding:
                found = held.setdefault(key, found)
                while len(held) > MAX_HELD[kind]:
                    held.popitem(last=False)
        return found


def _settle(future: Future[Any], make: Callable[[], Any]) -> None:
    try:
        future.set_result(make())
    except BaseException as error:  # for the request that asks next
        future.set_exception(error)
