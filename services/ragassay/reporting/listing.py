"""A run in a list of runs: its dataset, how far it is, how good the answers are, and whether anything went wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ragassay.core.formatting import of_metric, percent
from ragassay.core.models import FrozenModel
from ragassay.core.report import Report
from ragassay.evaluation.aggregate import beyond
from ragassay.reporting.document import Bar, Figure
from ragassay.reporting.failing import headline, headline_metric
from ragassay.storage.protocol import RunRecord


class SystemFigure(FrozenModel):
    """The metric of a system that its headline is of, with its interval."""

    metric: str
    value: float | None
    low: float | None
    high: float | None

    @property
    def shown(self) -> Figure:
        """As a table of runs has it."""
        if self.value is None:
            return Figure("not scored")
        is_share = self.metric == "accurate"
        value = percent(round(self.value, 2)) if is_share else of_metric(self.metric, self.value)
        if self.low is None or self.high is None:
            return Figure(value)
        ends = (self.low, self.high)
        low, high = (percent(round(end, 2)) if is_share else of_metric(self.metric, end, 2) for end in ends)
        fits = self.low >= 0 and self.high <= 1
        bar = Bar(100 * self.value, 100 * self.low, 100 * self.high, "0 to 1") if fits else None
        return Figure(value, f"[{low}, {high}]", bar=bar)


class Headline(FrozenModel):
    """A report in a list: a sentence and a figure of each system, and why the run as a whole is incomplete, if it is."""

    headline: dict[str, str] = {}  # noqa: RUF012 - a default of a model
    figures: dict[str, SystemFigure] = {}  # noqa: RUF012 - a default of a model
    problem: str | None = None

    @classmethod
    def of_report(cls, report: Report) -> Headline:
        """The headline of a report."""
        figures = {}
        for name, system in report.systems.items():
            mean = system.metrics[metric := headline_metric(system)]
            ends = {"low": mean.interval.low, "high": mean.interval.high}
            figures[name] = SystemFigure(metric=metric, value=mean.value, **ends)
        sentences = {name: headline(one) for name, one in report.systems.items()}
        return Headline(headline=sentences, figures=figures, problem=problem_of(report))


def problem_of(report: Report) -> str | None:
    """Why a report is incomplete: too many rows lack a score because something failed. None if it is complete."""
    problem = beyond(report, report.provenance.configuration.max_failed_share)
    if problem is None:
        return None
    reasons: Counter[str] = Counter()
    for system in report.systems.values():
        worst = max(system.metrics.values(), key=lambda mean: (mean.failed, mean.failed - mean.unscored))
        reasons.update(worst.missing if worst.failed else {})
    return f"{problem} ({reasons.most_common(1)[0][0]})" if reasons else problem


class RunSummary(Headline):
    """A run in a line: when, on what, how far, and the headline of its report.

    ``status``: finished, unfinished, incomplete (scores are missing), gates missed, unreadable; in a service, that of an
    unfinished job. ``answered``: rows of an unfinished run that have a reply, done or not, so that a resume pays less for
    them. ``plugins``: those that a resume has to import.
    """

    id: str
    status: str
    error: str | None = None
    created_at: str = ""
    name: str | None = None
    dataset: str = ""
    dataset_digest: str = ""
    systems: tuple[str, ...] = ()
    judge: str = ""
    queries: int = 0
    rows: int = 0
    done: int = 0
    answered: int = 0
    plugins: tuple[str, ...] = ()

    @classmethod
    def of(cls, record: RunRecord, status: str, top: Headline, *, passed: bool | None, **more: Any) -> RunSummary:
        """The summary of a run with the headline of its report, if it has one; ``passed`` its gates; ``more``: other fields.

        Whether it is incomplete or missed its gates goes before its status.
        """
        return cls(
            **dict(top),
            status="incomplete" if top.problem else "gates missed" if passed is False else status,
            id=record.id,
            created_at=record.created_at,
            name=record.spec.name,
            dataset=record.dataset.name,
            dataset_digest=record.dataset.digest,
            systems=tuple(record.systems),
            judge=record.spec.judged_by,
            queries=record.dataset.rows,
            rows=record.dataset.rows * len(record.systems),
            **more,
        )

    @property
    def progress(self) -> str:
        """How many rows are done, and how many have replies but are not done."""
        more = f", replies for {self.answered:,} rows are kept" if self.answered > self.done else ""
        return f"{self.done:,} of {self.rows:,} rows done{more}"

    def has(self, text: str) -> bool:
        """Is the text in its id, name, dataset, judge, status or a system's name, in any case?"""
        places = (self.id, self.name or "", self.dataset, self.judge, self.status, *self.systems)
        return any(text.casefold() in place.casefold() for place in places)
