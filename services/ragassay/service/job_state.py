"""A job's state in Redis as typed records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, Json, ValidationError

from ragassay.core.errors import Conflict, NotFound
from ragassay.core.jobs import ENDED, Alert, JobStatus, Planned
from ragassay.core.models import FrozenModel
from ragassay.core.validation import problems
from ragassay.storage.protocol import ChunkId, RunRecord

_OPEN: tuple[JobStatus, ...] = ("queued", "running", "paused", "finalizing")
TRANSITIONS: dict[str, dict[JobStatus, tuple[JobStatus, ...]]] = {
    "claim": {"running": ("queued",)},
    "commit": {"finalizing": ("running", "paused")},
    "retry": {"running": ("finished", "failed"), "finalizing": ("finished", "failed")},
    "transition": {
        "running": ("paused",),
        "paused": ("running",),
        "finished": ("finalizing",),
        "failed": _OPEN,
        "cancelled": _OPEN,
    },
}
"""By the script that changes it: from which statuses a job gets to another."""

SUBMIT_AGAIN = "submit it again; replies that are known are not paid again"
DAY_S = 86_400


@dataclass(frozen=True)
class Claim(ChunkId):
    """The right to work on one chunk of a job, until the lease runs out.

    ``more``: its job needs a message for the next chunk. ``lock``: of its system, if that is asked by one worker at a time.
    """

    job: str
    token: str
    more: bool = False
    lock: Any = field(default=None, compare=False)  # redis.lock.Lock

    @classmethod
    def of(cls, job: str, chunk: bytes, token: str, *, more: bool = False) -> Claim:
        """The claim on a chunk as Redis names it."""
        known = ChunkId.parse(chunk.decode())
        return cls(known.system, known.number, job, token, more)


@dataclass(frozen=True)
class Retention:
    """For how many seconds after a job has ended its rows and its report are kept. Rows never outlive the report."""

    results_s: int = 30 * DAY_S
    reports_s: int = 400 * DAY_S

    @classmethod
    def of_days(cls, results: int, reports: int) -> Retention:
        """From the settings, which are days."""
        return cls(min(results, reports) * DAY_S, reports * DAY_S)


class JobState(FrozenModel):
    """All that is known of a job beside its rows, as its hash in Redis holds it. Times are milliseconds since 1970.

    ``built``: of built-in systems, the models. ``traceparent``: the span in
    which it was submitted. ``body_digest``: of the body that was submitted with an idempotency key. ``undelivered``: webhooks
    that did not get a notification of it in all tries, and why.
    """

    record: Json[RunRecord]
    project: str
    gating: Json[dict[str, Any]]
    status: JobStatus
    chunks: int
    rows: int
    rows_done: int = 0
    rows_failed: int = 0
    uncertain_calls: int = 0
    resumes: int = 0
    created_ms: int | None = None
    started_ms: int | None = None
    changed_ms: int | None = None
    waiting: str | None = None
    waiting_since_ms: int | None = None
    probes: int = 0
    retries: int = 0  # how often its failed rows were tried again after it had ended
    given_up: str | None = None
    alerts: Json[tuple[Alert, ...]] = ()
    error: str | None = None
    planned: Json[Planned] | None = None
    traceparent: str | None = None
    body_digest: str | None = None
    built: dict[str, Json[tuple[str, ...]]] = Field(default_factory=dict)
    undelivered: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, job: str, meta: Mapping[str, bytes]) -> JobState:
        """The state that a job's hash holds; raises Conflict where another version of ragassay wrote it."""
        texts = {name: value.decode() for name, value in meta.items()}
        known: dict[str, Any] = {name: texts[name] for name in cls.model_fields.keys() & texts.keys()}
        for group in ("built", "undelivered"):
            known[group] = {name.partition(":")[2]: texts[name] for name in texts if name.startswith(f"{group}:")}
        try:
            return cls.model_validate(known)
        except ValidationError as error:
            what = problems(error)[0]
            hint = "another version of ragassay wrote it; start that one, or submit the job again"
            raise Conflict(f"the record of job {job} can't be read: {what}", hint=hint) from None

    @property
    def described(self) -> RunRecord:
        """The record with what workers made of its built-in systems."""
        systems = dict(self.record.systems)
        for name, models in self.built.items():
            if (source := systems[name]).built is not None:
                known = source.built.model_copy(update={"models": models})
                systems[name] = source.model_copy(update={"built": known})
        return self.record.model_copy(update={"systems": systems})

    @property
    def origin(self) -> dict[str, str | None]:
        """Whose job it is: the fields of log lines that name its project, and the schedule and time that it is a run of."""
        planned = self.planned.model_dump() if self.planned else {}
        return {"project": self.project, **planned}

    @property
    def ended(self) -> bool:
        """Has the job finished, failed or been cancelled?"""
        return self.status in ENDED


def no_job(job: str) -> NotFound:
    """The error for an unknown job."""
    return NotFound(f"there is no job {job[:40]!r}", hint="list them: GET /v1/jobs, or ragassay job list")


def not_under_way(state: JobState) -> Conflict:
    """The error for what can't be had of a paused job, or of one that has ended, with the way on."""
    job = state.record.id
    if state.status == "paused":
        hint = f"resume it with a higher budget: POST /v1/jobs/{job}/resume?budget_usd=USD (or budget_tokens=N)"
        return Conflict(f"job {job} is paused: {state.error}", hint=hint)
    return Conflict(f"job {job} is {state.status}", hint=SUBMIT_AGAIN)


def gone(what: str, job: str) -> NotFound:
    """The error for a part of a job that Redis had and has no longer."""
    return NotFound(f"{what} of job {job} are gone from Redis", hint="their retention has passed, or keys were evicted")
