"""What a report says of costs, small enough to hold hundreds of."""

from __future__ import annotations

from typing import Literal

from ragassay.core.models import FrozenModel, Usage
from ragassay.core.report import Report
from ragassay.core.statistics import Spending


class SystemCosts(FrozenModel):
    """One system of a report: sums that add up; ``questions``: how many the rows of known cost and accuracy are of."""

    questions: int
    spending: tuple[Spending, ...]

    @property
    def questions_per_row(self) -> float:
        """At most 1: less if questions were answered several times."""
        rows = sum(one.known.n for one in self.spending)
        return self.questions / rows if rows else 0.0


class CostRecord(FrozenModel):
    """What a report says of costs. ``accurate``: the rule by which answers counted as accurate."""

    run: str
    created_at: str
    status: Literal["finished", "incomplete"]
    dataset: str
    dataset_digest: str
    judge: str
    accurate: str
    interrupted: Usage
    systems: dict[str, SystemCosts]


def record_of(report: Report) -> CostRecord:
    """The record of a report."""
    source = report.provenance
    return CostRecord(
        run=report.run.id,
        created_at=report.run.created_at,
        status=report.run.status,
        dataset=source.dataset.name,
        dataset_digest=source.dataset.digest,
        judge=source.configuration.judged_by,
        accurate=source.configuration.accurate,
        interrupted=report.interrupted,
        systems={
            name: SystemCosts(questions=one.cost_per_accurate_answer.questions, spending=one.spending)
            for name, one in report.systems.items()
        },
    )
