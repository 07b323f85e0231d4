"""How long jobs are kept once they have ended: what each of their keys may still live, and lists without those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragassay.core.errors import Conflict, NotFound
from ragassay.service.job_rows import row_names
from ragassay.service.job_state import JobState

if TYPE_CHECKING:
    from ragassay.service.redis import RedisStore

DAY_S = 86_400
# Under which of a job's names the report is, and what it needs.
REPORT_NAMES = ("meta", "report", "headline", "costs", "partial", "partial_costs", "gates", "labels")
A_ROUND = 1000  # ids that are looked at together


@dataclass(frozen=True)
class Retention:
    """For how many seconds after a job has ended its rows and its report are kept. Rows never outlive the report."""

    results_s: int = 30 * DAY_S
    reports_s: int = 400 * DAY_S

    @classmethod
    def of_days(cls, results: int, reports: int) -> Retention:
        """From the settings, which are days."""
        return cls(min(results, reports) * DAY_S, reports * DAY_S)


@dataclass
class Applied:
    """How many jobs a retention was applied to, and of these, how many lose all or their rows at once."""

    jobs: int = 0
    without_report: int = 0
    without_rows: int = 0


class Trimming:
    """Takes ids out of lists of jobs whose records are gone, some at a time; every process may do so."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._at: dict[str, int] = {}

    def trim(self, listed: str, most: int = A_ROUND) -> int:
        """Look at the next ``most`` ids of the list under a key, the oldest first; returns how many were taken out."""
        redis, at = self._store.redis, self._at.get(listed, 0)
        ids = redis.zrange(listed, at, at + most - 1)
        if gone := _gone(self._store, [job.decode() for job in ids]):
            redis.zrem(listed, *gone)
        self._at[listed] = 0 if len(ids) < most else at + most - len(gone)
        return len(gone)


def apply(store: RedisStore, lists: Iterable[str], retention: Retention, *, dry_run: bool) -> Applied:
    """Let every job of these lists that has ended live as long as if the retention had held when it ended.

    A job of another version of ragassay that can't be read stays as it is. ``dry_run`` only counts.
    """
    applied = Applied()
    for job, state in (each for listed in lists for each in _ended(store, listed)):
        now_s = store.now_ms() / 1000
        ended_s = (state.changed_ms or 0) / 1000 or now_s
        rows_s, report_s = (int(ended_s + kept - now_s) for kept in (retention.results_s, retention.reports_s))
        rows = [store.key(job, name) for name in row_names(state.record)]
        reports = [store.key(job, name) for name in REPORT_NAMES]
        applied.jobs += 1
        applied.without_report += report_s <= 0
        applied.without_rows += rows_s <= 0 < report_s and store.redis.exists(*rows) > 0
        if dry_run:
            continue
        pipe = store.redis.pipeline(transaction=True)
        for keys, seconds_left in ((rows, rows_s), (reports, report_s)):
            for key in keys:
                pipe.expire(key, seconds_left)  # of a time that is over, it deletes
        pipe.execute()
    return applied


def _ended(store: RedisStore, listed: str) -> Iterator[tuple[str, JobState]]:
    """The jobs of a list that have ended, the oldest first; a part of it at a time."""
    at = 0
    while ids := store.redis.zrange(listed, at, at + A_ROUND - 1):
        for job in (each.decode() for each in ids):
            try:
                state = store.state(job)
            except (NotFound, Conflict):
                continue
            if state.ended:
                yield job, state
        at += len(ids)


def _gone(store: RedisStore, jobs: list[str]) -> list[str]:
    pipe = store.redis.pipeline(transaction=False)
    for job in jobs:
        pipe.exists(store.key(job, "meta"))
    return [job for job, there in zip(jobs, pipe.execute(), strict=True) if not there]
