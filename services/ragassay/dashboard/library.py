"""What the pages read: runs, their reports and their rows, wherever these are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragassay.analysis.costs import CostQuery, CostReport
from ragassay.analysis.gates import GateReport
from ragassay.analysis.models import Comparison
from ragassay.analysis.trends import Trend
from ragassay.core.models import Result, Sample
from ragassay.core.protocols import Purpose, Reply
from ragassay.core.report import ReportWithResults
from ragassay.datasets.versions import DatasetStore
from ragassay.evaluation.human_labels import HumanLabel
from ragassay.reporting.listing import RunSummary
from ragassay.storage.row_index import RowIndex
from ragassay.storage.selection import Selection


@dataclass(frozen=True)
class RowsPage:
    """Some of the rows that were selected: those from ``start``, of ``total`` in all."""

    rows: Sequence[Result]
    start: int
    total: int


class Library(Protocol):
    """Runs that can be looked at."""

    @property
    def where(self) -> str:
        """Where they are kept, in words."""

    @property
    def datasets(self) -> DatasetStore:
        """The datasets that are kept beside them; equal to itself, whenever it is asked for."""

    @property
    def of_service(self) -> bool:
        """Are they jobs of a service, with a page each before they have a report?"""

    def runs(self, text: str = "") -> Iterable[RunSummary]:
        """Runs, newest first; with ``text`` those that have it."""

    def report(self, run: str, *, labels: bool = True) -> ReportWithResults:
        """A run's report, with what people's ``labels`` of its rows make of it; raises NotFound, BadData."""

    def rows(self, run: str) -> RowIndex:
        """The rows that a run's report is of, chosen and read by their places; the same object while they do not change.

        Raises NotFound, BadData.
        """

    def page(self, run: str, selection: Selection, start: int, most: int) -> RowsPage:
        """So many of a run's rows; raises NotFound, and UnknownName for a system or figure that is not there."""

    def sample(self, run: str, row: Result) -> Sample | None:
        """What a row was evaluated on; None where that is not kept."""

    def compare(self, references: Sequence[str], baseline: str | None, metrics: Sequence[str] | None) -> Comparison:
        """Systems side by side: runs, or RUN#SYSTEM; raises as ``compare.comparison.compare`` does, and NotFound."""

    def costs(self, query: CostQuery) -> CostReport:
        """What accurate answers cost; raises NothingToEvaluate where no report is asked for."""

    def trend(self, metric: str, *, system: str | None, dataset: str | None, judge: str | None, last: int) -> Trend:
        """A metric over the newest runs on one dataset with one judge; raises NothingToEvaluate, UnknownName."""

    def passed(self, run: str) -> bool | None:
        """Has the run passed its gates? None where they were not checked."""

    def gates(self, run: str) -> GateReport | None:
        """How the run did at its gates; None if they were not checked."""

    def labels(self, run: str) -> Sequence[HumanLabel]:
        """What people said of its rows, oldest first; raises NotFound."""

    def add_labels(self, run: str, labels: Sequence[HumanLabel]) -> None:
        """Keep labels beside those that are there; raises NotFound, DiskFull, Conflict."""

    def calls(self, run: str, row: Result) -> Sequence[tuple[Purpose, Reply]]:
        """The replies of models that a row rests on, with what each was for, as far as they are kept."""
