"""What accurate answers cost, over the reports of jobs: from the records that are kept with them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import zstandard
from pydantic import ValidationError

from ragassay.analysis.costs import CostQuery, CostReport, Gathered, cost_report
from ragassay.service.redis import RedisStore
from ragassay.service.stored_reports import PARTIAL, WHOLE
from ragassay.storage.cost_records import CostRecord

MOST_REPORTS = 2000  # of one answer, the newest
_AT_ONCE = 500
_logger = logging.getLogger("ragassay")


class JobCosts:
    """The costs of the service's jobs."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    def report(self, query: CostQuery, now: datetime | None = None) -> CostReport:
        """The cost report over the newest ``MOST_REPORTS`` reports that are asked for; raises as ``cost_report`` does.

        A paused or cancelled job counts with the rows that were done; while it runs again, not at all.
        """
        gathered, reading = Gathered(query), _Reading(self._store)
        read, before = 0, None
        while listed := self._store.jobs(before=before, limit=_AT_ONCE):
            before = listed[-1][1]
            for job, record, why in reading.of([job for job, _ in listed], query):
                if record is not None:
                    gathered.add(record)
                    read += 1
                elif why == "unreadable":
                    gathered.unreadable.append(job)
                elif why:
                    gathered.left_out[why] += 1
            if read >= MOST_REPORTS:
                gathered.warnings.append(
                    f"only the newest {read:,} reports were read: ask for fewer days (since, until)"
                )
                break
            if reading.reached_the_beginning:
                break
        return cost_report(gathered, now or datetime.now(UTC))


class _Reading:
    """Records of jobs, newest first."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self.reached_the_beginning = False

    def of(self, jobs: Sequence[str], query: CostQuery) -> list[tuple[str, CostRecord | None, str]]:
        """For each job its record, or why there is none."""
        since, until = (moment.timestamp() * 1000 for moment in query.span)
        found: list[tuple[str, CostRecord | None, str]] = []
        for job, ((created, status), (whole, partial)) in zip(jobs, self._ask(jobs), strict=True):
            if created is None or status is None or int(created) >= until:
                continue
            if int(created) < since:
                self.reached_the_beginning = True
                break
            ended = status.decode()
            if ended not in ("finished", "paused", "cancelled"):
                found.append((job, None, "failed" if ended == "failed" else "not finished"))
                continue
            found.append((job, *_record(job, whole if ended == "finished" else partial)))
        return found

    def _ask(self, jobs: Sequence[str]) -> Iterable[tuple[Sequence[bytes | None], Sequence[bytes | None]]]:
        """When each was made with its status, and its records of costs."""
        pipe = self._store.redis.pipeline(transaction=False)
        for job in jobs:
            pipe.hmget(self._store.key(job, "meta"), "created_ms", "status")
            pipe.mget(self._store.key(job, WHOLE[1]), self._store.key(job, PARTIAL[1]))
        answers = iter(pipe.execute())
        return zip(answers, answers, strict=True)


def _record(job: str, kept: bytes | None) -> tuple[CostRecord | None, str]:
    if kept is None:
        return None, "without a report"
    try:
        return CostRecord.model_validate_json(zstandard.decompress(kept)), ""
    except (ValidationError, zstandard.ZstdError) as error:
        _logger.warning("the record of costs of job %s can't be read: %s", job, error)
        return None, "unreadable"
