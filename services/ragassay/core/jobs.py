"""The documents that the service writes about its jobs. A field that is unknown is null."""

from __future__ import annotations

import re
from typing import Literal

from ragassay.core.models import FrozenModel, Result

JOB_ID = re.compile("[0-9a-f]{32}")
PROJECT, DEFAULT_PROJECT = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "default"  # pattern of a project's name
JobStatus = Literal["queued", "running", "paused", "finalizing", "finished", "failed", "cancelled"]
ENDED: tuple[JobStatus, ...] = ("finished", "failed", "cancelled")


class Planned(FrozenModel):
    """The schedule that a job is a run of, and the time that it was planned for; null where somebody asked for the run."""

    schedule: str
    slot: str | None


class Progress(FrozenModel):
    """How far a job is, in rows (one per query and system).

    ``failed`` rows lack a response, or a score, because something broke.
    """

    rows: int
    done: int
    failed: int


class Alert(FrozenModel):
    """A gate that a job missed, or with only a reason: why its gates could not be checked."""

    gate: str | None = None
    metric: str | None = None
    value: float | None = None
    threshold: float | None = None
    reason: str


class Job(FrozenModel):
    """A submitted evaluation. Times are UTC, ISO 8601; ``uncertain_calls`` may have been paid: no reply came.

    ``alerts`` come with the report: one for each gate that was missed. ``waiting``: what a running job waits for, and
    since when, while its provider fails. ``warnings``: what may be wrong with its rows. ``error``: why it failed or
    paused, or what kept rows from being scored. ``retries``: how often its failed rows were tried again. ``planned``: the
    schedule that it is a run of, if any.
    """

    id: str
    name: str | None
    status: JobStatus
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    judge: str
    metrics: tuple[str, ...]
    systems: tuple[str, ...] = ("default",)
    progress: Progress
    uncertain_calls: int = 0
    retries: int = 0
    waiting: str | None = None
    alerts: tuple[Alert, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None
    planned: Planned | None = None


class JobPage(FrozenModel):
    """Jobs, newest first; ``next`` asks for the following page, null on the last one."""

    jobs: tuple[Job, ...]
    next: str | None


class ResultPage(FrozenModel):
    """Results of all systems, in the order that was asked for; ``next`` asks for the following page, null on the last one."""

    results: tuple[Result, ...]
    next: str | None
