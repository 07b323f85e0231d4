"""What becomes of jobs, as server-sent events: one look at all jobs that are followed, however many readers there are."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from anyio import to_thread
from fastapi.sse import format_sse_event
from redis.exceptions import RedisError

from ragassay.errors import AssayError
from ragassay.job_documents import ENDED, EventName, Job
from ragassay.jobs import Jobs
from ragassay.store import liveness

LOOK_EVERY_S, HEARTBEAT_EVERY_S = 0.5, 15.0
_ID = re.compile(r"([a-z]+!?)\.([0-9]{1,18}|-)\.([0-9a-f]{1,8})\.([0-9]{1,9})")
_log = logging.getLogger("ragassay.api")


@dataclass(frozen=True)
class Known:
    """What a reader knows of a job. Its text is the id of an event, so who reconnects is told what has changed since."""

    status: str = ""
    done: int | None = None
    waiting: str = "0"
    alerts: int = 0

    def __str__(self) -> str:
        return f"{self.status}.{'-' if self.done is None else self.done}.{self.waiting}.{self.alerts}"

    @classmethod
    def parse(cls, text: str | None) -> Known:
        """What the reader of the event with this id knows; nothing where it is no id of ours."""
        parts = _ID.fullmatch(text or "")
        if parts is None:
            return cls()
        return cls(parts[1], None if parts[2] == "-" else int(parts[2]), parts[3], int(parts[4]))

    @property
    def ended(self) -> bool:
        """Does the reader know that the job has ended?"""
        return self.status.endswith("!")


def changes(known: Known, job: Job) -> Iterator[tuple[EventName, Known]]:
    """What a reader is to be told, and what it knows then: one event for each thing that changed."""
    waiting = sha256(job.waiting.encode()).hexdigest()[:8] if job.waiting else "0"
    if known.status.removesuffix("!") != job.status:
        known = replace(known, status=job.status)
        yield "status", known
    if known.waiting != waiting:
        known = replace(known, waiting=waiting)
        yield "waiting", known
    if known.done != job.progress.done:
        known = replace(known, done=job.progress.done)
        yield "progress", known
    if known.alerts != len(job.alerts):
        known = replace(known, alerts=len(job.alerts))
        yield "alert", known
    if job.status in ENDED and not known.ended:
        yield "finished", replace(known, status=f"{job.status}!")


class Watch:
    """Looks at all jobs that have readers, in one round trip to Redis, and tells those whose job has changed."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._readers: Counter[str] = Counter()
        self._pulses: dict[str, object] = {}
        self._now: dict[str, Job | None] = {}  # None: its record is gone
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def events(self, now: Job, known: Known) -> AsyncIterator[bytes]:
        """The events of a job, as they are sent, from what its reader knows to the job's end."""
        told: Job | None = now
        self._readers[now.id] += 1
        self._now.setdefault(now.id, now)
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        try:
            while told is not None:
                for event, after in changes(known, told):
                    known = after
                    yield format_sse_event(data_str=told.model_dump_json(), event=event, id=str(known))
                if known.ended:
                    return
                while self._now[now.id] is told:
                    try:
                        async with asyncio.timeout(HEARTBEAT_EVERY_S), self._changed:
                            await self._changed.wait()
                    except TimeoutError:
                        yield format_sse_event(comment="still there")
                told = self._now[now.id]
        finally:
            self._readers[now.id] -= 1
            if not self._readers[now.id]:
                del self._readers[now.id], self._now[now.id]
                self._pulses.pop(now.id, None)

    async def _look(self) -> None:
        try:
            while self._readers:
                try:
                    pulses, changed = await to_thread.run_sync(self._look_once, list(self._readers))
                except RedisError as error:
                    _log.warning("jobs can't be followed now: %s", error)
                else:
                    followed = self._readers.keys()
                    self._pulses |= {job: pulse for job, pulse in pulses.items() if job in followed}
                    self._now |= {job: now for job, now in changed.items() if job in followed}
                    async with self._changed:
                        self._changed.notify_all()
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            self._task = None

    def _look_once(self, jobs: list[str]) -> tuple[dict[str, object], dict[str, Job | None]]:
        pulses = dict(zip(jobs, liveness.pulses(self._jobs.store, jobs), strict=True))
        changed = [job for job in jobs if job not in self._pulses or self._pulses[job] != pulses[job]]
        return pulses, {job: self._get(job) for job in changed}

    def _get(self, job: str) -> Job | None:
        try:
            return self._jobs.get(job)
        except AssayError:
            return None
