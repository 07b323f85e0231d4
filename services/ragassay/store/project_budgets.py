"""What a project may spend in a calendar month (UTC), leased to its jobs in blocks.

A job's calls reserve from what the job has leased, beside its other keys; only when that is used up does it ask for another
block, in the slot of the project: ``ra:p:{PROJECT}:budget`` (the cap in USD) and ``budget:lease:JOB leases months``. Nobody
holds a lock: each side alone is right, and what a job may spend is never more than what the project has down for it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import Field

from ragassay.models import FrozenModel
from ragassay.store.projects import ProjectRedis, project_key, project_named

KEPT_S = 400 * 86_400  # what is known of a job's lease, so that nothing is counted twice
CALLS_END_MS = 900_000  # no call outlives its job for longer: the hard limit of a worker's task
_BUDGETS = "ra:budgets"  # the projects that have one, or had


class ProjectBudget(FrozenModel):
    """A project's budget for a calendar month and what has become of it: ``leased_usd`` is held by its jobs, spent or not."""

    project: str
    month: str = Field(description="YYYY-MM, in UTC")
    usd: float | None = Field(description="the cap; null where there is none")
    spent_usd: float = Field(
        description="by jobs that have ended or are paused, and in earlier blocks of those that run"
    )
    leased_usd: float = Field(description="held by jobs: what they did not spend goes back at their end")


class ProjectBudgets:
    """The budgets of all projects, for whoever has the store."""

    def __init__(self, store: ProjectRedis) -> None:
        self._store = store

    def most_usd(self, project: str) -> float | None:
        """A project's cap; None where it has none."""
        most = self._store.redis.get(_key(project))
        return None if most is None else float(most)

    def cap(self, project: str, usd: float | None) -> None:
        """Set a project's cap, from the next block on; None: it has none. Jobs under way heed a new one after a sweep."""
        redis = self._store.redis
        redis.sadd(_BUDGETS, project)
        if usd is None:
            redis.delete(_key(project))
        else:
            redis.set(_key(project), usd)

    def standing(self, project: str) -> ProjectBudget:
        """The budget as it stands."""
        month, pipe = self._month(), self._store.redis.pipeline(transaction=True)
        pipe.get(_key(project))
        pipe.hget(_key(project, "months"), month)
        pipe.hvals(_key(project, "leases"))
        most, spent, leases = pipe.execute()
        usd = None if most is None else float(most)
        return ProjectBudget(
            project=project, month=month, usd=usd, spent_usd=float(spent or 0), leased_usd=sum(map(float, leases))
        )

    def lease(self, job: str, usd: float) -> bytes | None:
        """Lease a block of which a call of so many USD can be made; None: try the call again.

        ``~`` where the budget is gone but calls of the job in flight may leave something, ``$`` where they can't.
        """
        names = ("project", "lease_number", "spent_usd", "open_usd", "lease_usd", "in_flight")
        project, number, *amounts, in_flight = self._store.redis.hmget(self._store.key(job, "meta"), names)
        spent, open_, upto = (float(amount or 0) for amount in amounts)
        wanted, asked = spent + open_ + usd - max(upto, spent), int(number or 0)
        if amounts[-1] is None or wanted <= 0:
            return None  # others of the job were faster
        answer = self._write(project_named(project), job, asked, spent, upto, wanted)
        if answer == "gone":
            return b"~" if int(in_flight or 0) > 0 else b"$"
        if answer != "stale":
            self._store.run("take_lease", [self._store.key(job, "meta")], [asked, "" if answer == "none" else answer])
        return None

    def give_back(self, job: str) -> None:
        """What a job that does not run has leased and not spent goes back; calls in flight keep what they may take."""
        ended = self._store.run("end_lease", [self._store.key(job, "meta")], [CALLS_END_MS])
        if ended:
            number, spent, upto = ended
            project = self._store.redis.hget(self._store.key(job, "meta"), "project")
            self._write(project_named(project), job, number, float(spent), float(upto), 0.0)

    def reached(self, job: str) -> str | None:
        """Why a job gets nothing more of its project's budget; None where it is under none."""
        project, lease = self._store.redis.hmget(self._store.key(job, "meta"), ("project", "lease_usd"))
        if lease is None:
            return None
        now = self.standing(project_named(project))
        return (
            f"the budget of project {now.project} is reached: of {now.usd or 0:g} USD for {now.month}, "
            f"{now.spent_usd:.4f} are spent and {now.leased_usd:.4f} are leased to its jobs"
        )

    def sweep(self) -> None:
        """Give back for jobs that do not run any more, whoever died before, and put jobs under a budget that is new."""
        redis = self._store.redis
        projects = [name.decode() for name in redis.smembers(_BUDGETS)]
        for project in projects:
            for job in (each.decode() for each in redis.hkeys(_key(project, "leases"))):
                status = redis.hget(self._store.key(job, "meta"), "status")
                if status is None:
                    self._forget(project, job)
                elif status not in (b"queued", b"running", b"finalizing"):
                    self.give_back(job)
        capped = {project for project in projects if self.most_usd(project) is not None}
        for job in (each.decode() for each in redis.smembers("ra:active") if capped):
            meta = self._store.key(job, "meta")
            status, name, lease = redis.hmget(meta, ("status", "project", "lease_usd"))
            if status is not None and lease is None and project_named(name) in capped:
                redis.hsetnx(meta, "lease_usd", 0)

    def _forget(self, project: str, job: str) -> None:
        """A job whose record is gone, by hand or by eviction: what it had leased counts as spent."""
        number, upto = self._store.redis.hmget(_key(project, f"lease:{job}"), ("number", "upto"))
        self._write(project, job, int(number or 0) + 1, float(upto or 0), float(upto or 0), 0.0)

    def _write(self, project: str, job: str, number: int, spent: float, upto: float, wanted: float) -> str:
        keys = [_key(project), *(_key(project, name) for name in (f"lease:{job}", "leases", "months"))]
        amounts = [repr(amount) for amount in (spent, upto, wanted)]
        return str(self._store.run("lease_budget", keys, [job, number, *amounts, self._month(), KEPT_S]).decode())

    def _month(self) -> str:
        return f"{datetime.fromtimestamp(self._store.now_ms() / 1000, UTC):%Y-%m}"


def _key(project: str, name: str = "") -> str:
    return project_key(project, f"budget:{name}" if name else "budget")
