"""What a project may spend in a calendar month (UTC): an account that the calls of all its jobs reserve on.

``ra:p:{PROJECT}:budget`` is the cap in USD, ``ra:p:{PROJECT}:budget:<YYYY-MM>`` the account: a hash of what is spent, what is
reserved by calls in flight, and how much of the first is an estimate of requests with an unknown outcome. ``reserve.lua``
and ``settle.lua`` change it together with the account of the job.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import Field

from ragassay.core.jobs import DEFAULT_PROJECT
from ragassay.core.models import FrozenModel
from ragassay.service.projects import ProjectRedis, project_key

KEPT_S = 400 * 86_400


class ProjectBudget(FrozenModel):
    """A project's budget for a calendar month and its use; ``unknown_usd`` is the part of ``spent_usd`` without a bill."""

    project: str
    month: str = Field(description="YYYY-MM, in UTC")
    usd: float | None = Field(description="the cap; null where there is none")
    spent_usd: float = Field(description="by calls that have ended")
    reserved_usd: float = Field(description="the most that calls in flight may take")
    unknown_usd: float = Field(description="the part of spent_usd that is an estimate: no reply came")


class ProjectBudgets:
    """The budgets of all projects."""

    def __init__(self, store: ProjectRedis) -> None:
        self._store = store

    def cap(self, project: str, usd: float | None) -> None:
        """Set a project's cap, from its next call on; None: it has none."""
        if usd is None:
            self._store.redis.delete(cap_key(project))
        else:
            self._store.redis.set(cap_key(project), usd)

    def standing(self, project: str) -> ProjectBudget:
        """The budget of this month."""
        pipe = self._store.redis.pipeline(transaction=True)
        pipe.get(cap_key(project))
        pipe.hmget(account_key(project), "spent_usd", "open_usd", "unknown_usd")
        cap, amounts = pipe.execute()
        spent, reserved, unknown = (max(0.0, float(amount or 0)) for amount in amounts)
        return ProjectBudget(
            project=project,
            month=this_month(),
            usd=None if cap is None else float(cap),
            spent_usd=spent,
            reserved_usd=reserved,
            unknown_usd=unknown,
        )

    def reached(self, project: str, usd: float) -> str | None:
        """Why a call of so many USD does not fit; None where it does."""
        now = self.standing(project)
        if now.usd is None or now.spent_usd + now.reserved_usd + usd <= now.usd:
            return None
        return (
            f"the budget of project {now.project} is reached: of {now.usd:g} USD for {now.month}, "
            f"{now.spent_usd:.4f} are spent{estimated_part(now.unknown_usd)} and {now.reserved_usd:.4f} are reserved"
        )


def estimated_part(usd: float) -> str:
    """What is said of the part of an amount that has no bill; empty where all of it has one."""
    return f" ({usd:.4f} of them estimates of calls with an unknown outcome)" if usd > 0 else ""


def this_month() -> str:
    """The month now, YYYY-MM, in UTC."""
    return f"{datetime.now(UTC):%Y-%m}"


def cap_key(project: str) -> str:
    """The Redis key of a project's cap."""
    return project_key(project, "budget")


def account_key(project: str | None) -> str:
    """The Redis key of a project's account of this month."""
    return project_key(project or DEFAULT_PROJECT, f"budget:{this_month()}")
