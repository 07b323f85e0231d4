"""Redis as one project sees it, or as all of them together: its connection, scripts, and the keys that there are.

A job's keys are ``ra:{JOB}:...``, whatever project it is of; its record names that. What each project has of its own is
``ra:p:{PROJECT}:...``; the project ``default`` has ``ra:...``.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from ragassay.core.aio import to_its_end
from ragassay.core.jobs import DEFAULT_PROJECT, JobStatus
from ragassay.service.connection import connect
from ragassay.service.job_state import no_job

_SCRIPTS = Path(__file__).parent / "scripts"
_THREADS = 8  # of a process, for calls of its event loop
T = TypeVar("T")


class ProjectRedis:
    """A connection that serves one ``project``; with None, as workers and the scheduler have it, the jobs of all."""

    def __init__(self, url: str, *, patient: bool = True, project: str | None = None) -> None:
        self.url, self.project, self._patient = url, project, patient
        self._own: set[str] = set()

    def of(self, project: str) -> Self:
        """The same store over the same connection for one project: another's jobs are not there (NotFound)."""
        _ = self.redis, self._scripts, self.threads
        scoped = copy.copy(self)
        scoped.project, scoped._own = project, set()
        return scoped

    @cached_property
    def redis(self) -> Any:
        """The connection, made at its first use."""
        return connect(self.url, patient=self._patient)

    def status(self, job: str) -> JobStatus:
        """The job's status alone; raises NotFound."""
        status = self.redis.hget(self.key(job, "meta"), "status")
        if status is None:
            raise no_job(job)
        known: JobStatus = status.decode()
        return known

    def key(self, job: str, name: str) -> str:
        """The Redis key of one of a job's records. There is none for a job of another project: raises NotFound."""
        if self.project is not None and job not in self._own:
            status, project = self.redis.hmget(f"ra:{{{job}}}:meta", "status", "project")
            if status is None or project.decode() != self.project:
                raise no_job(job)
            self._own.add(job)
        return f"ra:{{{job}}}:{name}"

    def knows(self, jobs: Iterable[str]) -> None:
        """These jobs are the project's own: they come from its list, or are just being made."""
        if self.project is not None:
            self._own.update(jobs)

    def of_project(self, name: str) -> str:
        """The Redis key of something that each project has of its own."""
        if self.project in (None, DEFAULT_PROJECT):
            return f"ra:{name}"
        return project_key(str(self.project), name)

    def projects(self) -> list[str]:
        """The projects that ever had a job or a key, ``default`` among them."""
        return sorted({DEFAULT_PROJECT, *(name.decode() for name in self.redis.smembers("ra:projects"))})

    def job_lists(self) -> list[str]:
        """The Redis keys of the lists of jobs of all projects."""
        return [self.of(project).of_project("jobs") for project in self.projects()]

    @cached_property
    def _scripts(self) -> dict[str, Any]:
        shared = (_SCRIPTS / "functions.lua").read_text()
        return {path.stem: self.redis.register_script(shared + path.read_text()) for path in _SCRIPTS.glob("*.lua")}

    def run(self, script: str, keys: Sequence[str], arguments: Sequence[Any], pipe: Any = None) -> Any:
        """Run one of the Lua scripts by its name, or add it to a pipeline."""
        return self._scripts[script](keys=keys, args=arguments, client=pipe)

    @cached_property
    def threads(self) -> ThreadPoolExecutor:
        """They call Redis for the event loop of this process."""
        return ThreadPoolExecutor(_THREADS, "redis")

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call Redis beside the event loop. What was begun ends even if the caller is cancelled, and is then known."""
        return await to_its_end(asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments))

    def now_ms(self) -> float:
        """The time by the clock of Redis, in milliseconds since 1970."""
        seconds, microseconds = self.redis.time()
        return float(seconds * 1000 + microseconds / 1000)

    # --- heartbeats of workers and beats, each counted until its time is over by the clock of Redis ---

    def heartbeat(self, kind: str, name: str, *, for_s: int) -> None:
        """Count ``name`` (``host:pid:processes``) as running for so many seconds by the clock of Redis."""
        now, pipe = self.now_ms() / 1000, self.redis.pipeline(transaction=True)
        pipe.zremrangebyscore(f"ra:alive:{kind}", "-inf", now)
        pipe.zadd(f"ra:alive:{kind}", {name: now + for_s})
        pipe.expire(f"ra:alive:{kind}", for_s)
        pipe.execute()

    def deregister(self, kind: str, name: str) -> None:
        """Stop counting a process that ends."""
        self.redis.zrem(f"ra:alive:{kind}", name)

    def alive(self, kind: str, host: str | None = None) -> int:
        """How many of a kind run, everywhere or on one host."""
        return sum(host in (None, name.rsplit(":", 2)[0]) for name in self._running(kind))

    def processes(self) -> int:
        """How many processes all workers together have for chunks."""
        return sum(int(name.rsplit(":", 1)[1]) for name in self._running("worker"))

    def _running(self, kind: str) -> list[str]:
        names = self.redis.zrangebyscore(f"ra:alive:{kind}", f"({self.now_ms() / 1000}", "+inf")
        return [name.decode() for name in names]


def project_key(project: str, name: str) -> str:
    """A Redis key of something that a project has of its own."""
    return f"ra:p:{{{project}}}:{name}"


def clock_time(milliseconds: float) -> str:
    """A time by the clock of Redis as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
