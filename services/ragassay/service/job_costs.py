"""The costs of accurate answers over the reports of jobs: from the records that are kept with them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime

import zstandard
from pydantic import ValidationError

from ragassay.analysis.costs import CostQuery, CostReport, Gathered, cost_report
from ragassay.service.redis import PARTIAL, WHOLE, RedisStore
from ragassay.storage.cost_records import CostRecord

MOST_REPORTS = 2000  # of one answer, the newest
_AT_ONCE = 500
_WITH_COSTS = {"finished": 0, "paused": 1, "cancelled": 1}  # of which of the two records
_logger = logging.getLogger("ragassay")


class JobCosts:
    """The costs of the service's jobs."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    def report(self, query: CostQuery, now: datetime | None = None) -> CostReport:
        """The cost report over the newest ``MOST_REPORTS`` reports that are asked for; raises as ``cost_report`` does.

        A paused or cancelled job counts with the rows that were done; while it runs again, not at all.
        """
        gathered, read = Gathered(query), 0
        since, until = (moment.timestamp() * 1000 for moment in query.span)
        for job, created_ms, status, records in self._newest():
            if created_ms < since:
                break
            if created_ms >= until:
                continue
            if status not in _WITH_COSTS:
                gathered.left_out["failed" if status == "failed" else "not finished"] += 1
            elif (kept := records[_WITH_COSTS[status]]) is None:
                gathered.left_out["without a report"] += 1
            elif read >= MOST_REPORTS:
                gathered.warnings.append(
                    f"only the newest {read:,} reports were read: ask for fewer days (since, until)"
                )
                break
            else:
                try:
                    gathered.add(CostRecord.model_validate_json(zstandard.decompress(kept)))
                    read += 1
                except (ValidationError, zstandard.ZstdError) as error:
                    _logger.warning("the record of costs of job %s can't be read: %s", job, error)
                    gathered.unreadable.append(job)
        return cost_report(gathered, now or datetime.now(UTC))

    def _newest(self) -> Iterator[tuple[str, int, str, list[bytes | None]]]:
        """Jobs, newest first: when each was made, its status, and its records of costs, the whole and the partial one."""
        before = None
        while listed := self._store.jobs(before=before, limit=_AT_ONCE):
            before = listed[-1][1]
            pipe = self._store.redis.pipeline(transaction=False)
            for job, _ in listed:
                pipe.hmget(self._store.key(job, "meta"), "created_ms", "status")
                pipe.mget(self._store.key(job, WHOLE[1]), self._store.key(job, PARTIAL[1]))
            answers = iter(pipe.execute())
            for (job, _), (created, status), records in zip(listed, answers, answers, strict=True):
                if created is not None and status is not None:
                    yield job, int(created), status.decode(), records
