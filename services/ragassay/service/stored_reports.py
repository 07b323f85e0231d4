"""Reports of jobs, what their gates and people say of them: kept longer than the rows they were made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zstandard

from ragassay.core.errors import Conflict, TooLarge
from ragassay.evaluation.human_labels import MOST_LABELS, HumanLabel
from ragassay.service.projects import ProjectRedis
from ragassay.service.retention import Retention

WHOLE, PARTIAL = ("report", "costs"), ("partial", "partial_costs")


class StoredReports(ProjectRedis):
    """Each report once: a finalize that was overtaken must not change what was read.

    What follows from a report is kept only if the job's failed rows were tried again ``retries`` times when it was made.
    """

    retention: Retention

    def save_report(self, job: str, report: bytes, costs: bytes, *, partial: bool = False, retries: int = 0) -> None:
        """Keep the finished report and its record of costs; the first ones stay.

        ``partial``: of the rows that a paused or cancelled job has done so far; the next one takes its place.
        """
        names = PARTIAL if partial else WHOLE
        packed = dict(zip(names, map(zstandard.compress, (report, costs)), strict=True))

        def save(pipe: Any) -> None:
            for name, content in packed.items():
                pipe.set(self.key(job, name), content, ex=self.retention.reports_s, nx=not partial)

        self._at_retry(job, retries, save)

    def _at_retry(self, job: str, retries: int, write: Callable[[Any], object]) -> list[Any]:
        def checked(pipe: Any) -> None:
            known = int(pipe.hget(self.key(job, "meta"), "retries") or 0)
            pipe.multi()
            if known == retries:
                write(pipe)

        answers: list[Any] = self.redis.transaction(checked, self.key(job, "meta"))
        return answers

    def report(self, job: str) -> bytes:
        """The report's JSON, else that of the rows done when the job was paused or cancelled, or before failed ones were
        tried again. Raises NotFound for an unknown job, Conflict while there is no report.
        """
        blob: bytes | None = self.redis.get(self.key(job, "report"))
        if blob is None:
            retried = self.redis.hget(self.key(job, "meta"), "retries") is not None
            if retried or self.status(job) in ("paused", "cancelled"):
                blob = self.redis.get(self.key(job, "partial"))
        if blob is None:
            status = self.status(job)
            raise Conflict(f"job {job} is {status} and has no report", hint="follow it: GET /v1/jobs/" + job)
        return zstandard.decompress(blob)

    def save_gates(self, job: str, document: bytes, alerts: bytes, *, retries: int = 0) -> bool:
        """Keep what the gates say, and the alerts in the job's record; False where that was kept already."""

        def save(pipe: Any) -> None:
            pipe.set(self.key(job, "gates"), document, ex=self.retention.reports_s, nx=True)
            pipe.hsetnx(self.key(job, "meta"), "alerts", alerts)

        answers = self._at_retry(job, retries, save)
        return bool(answers and answers[0])

    def keep_notifications(self, job: str, notifications: bytes, *, retries: int = 0) -> None:
        """Keep the notifications of a job's report until they are sent; the first stay."""
        self._at_retry(job, retries, lambda pipe: pipe.hsetnx(self.key(job, "meta"), "notifications", notifications))

    def headline(self, job: str) -> bytes | None:
        """The sentences on a finished job's systems, as JSON; None where nobody has asked for them."""
        kept: bytes | None = self.redis.get(self.key(job, "headline"))
        return kept

    def keep_headline(self, job: str, headline: bytes, *, retries: int = 0) -> None:
        """Keep those sentences as long as a report may live."""
        name, kept_s = self.key(job, "headline"), self.retention.reports_s
        self._at_retry(job, retries, lambda pipe: pipe.set(name, headline, ex=kept_s))

    def gates(self, job: str) -> bytes | None:
        """What the gates of a job say, as JSON; empty where they could not be checked."""
        document: bytes | None = self.redis.get(self.key(job, "gates"))
        return document

    def add_labels(self, job: str, labels: Sequence[HumanLabel]) -> None:
        """Keep labels for as long as the finished report.

        Raises NotFound, Conflict while there is no such report, and TooLarge beyond what is kept of a job.
        """
        left_s = self.redis.ttl(self.key(job, "report"))
        if left_s <= 0:
            raise Conflict(f"job {job} is {self.status(job)}", hint="rows can be labelled once it is completed")
        if self.redis.llen(self.key(job, "labels")) + len(labels) > MOST_LABELS:
            raise TooLarge(f"of a job {MOST_LABELS:,} labels are kept", hint="label another run")
        pipe = self.redis.pipeline(transaction=True)
        pipe.rpush(self.key(job, "labels"), *(label.model_dump_json() for label in labels))
        pipe.expire(self.key(job, "labels"), left_s)
        pipe.execute()

    def labels(self, job: str) -> Sequence[HumanLabel]:
        """What people said of the job's rows, oldest first; raises NotFound."""
        return [HumanLabel.model_validate_json(line) for line in self.redis.lrange(self.key(job, "labels"), 0, -1)]
