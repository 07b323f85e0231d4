"""What people are told of a nightly run or a job: ids and numbers, never text of a question, an answer or a document."""

from __future__ import annotations

from typing import Literal

from ragassay.models import FrozenModel

NoticeKind = Literal[
    "gate_missed",
    "regression",
    "coverage_low",
    "budget_reached",
    "run_missed",
    "judge_drift",
    "job_finished",
    "job_failed",
]


class Notice(FrozenModel):
    """One thing that happened. ``id`` is the same for the same occurrence, however often it is noticed.

    ``slot``: the time for which a schedule planned the run, UTC. ``value``, ``threshold`` and ``baseline`` are numbers of
    ``metric``; null where they are unknown.
    """

    id: str
    kind: NoticeKind
    project: str
    at: str
    schedule: str | None = None
    slot: str | None = None
    job: str | None = None
    system: str | None = None
    gate: str | None = None
    metric: str | None = None
    value: float | None = None
    threshold: float | None = None
    baseline: float | None = None
