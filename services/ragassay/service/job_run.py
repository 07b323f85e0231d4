"""A job's run in Redis: what a run in a folder is, too, over other blobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ragassay import observability
from ragassay.core.blobs import RedisBlobs
from ragassay.core.errors import Conflict, NotFound
from ragassay.core.models import Rating, Result, Sample
from ragassay.core.report import Report, Source
from ragassay.service.job_state import Claim, gone
from ragassay.service.redis import PARTIAL_FILE, RedisStore
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord
from ragassay.storage.runs import REPORT_FILE, Run, is_pending_again, report_in


class JobRun(Run):
    """One job's run. ``partial``: its report is of the rows that are done, and another takes its place."""

    def __init__(self, store: RedisStore, job: str, *, partial: bool = False) -> None:
        self._store, self._job, self._partial = store, job, partial

    @cached_property
    def blobs(self) -> RedisBlobs:  # type: ignore[override]
        """Its blobs. Raises NotFound for a job of another project."""
        return self._store.blobs(self._job)

    @cached_property
    def record(self) -> RunRecord:  # type: ignore[override]
        """What the job evaluates."""
        return self._store.state(self._job).record

    def samples(self, chunk: ChunkId) -> list[Sample]:
        """The rows of a chunk with their recorded responses."""
        return self._store.samples(self._job, chunk)

    def commit(self, chunk: ChunkId, results: Sequence[Result]) -> Outcome:
        """Keep a chunk's results; ``chunk`` must be a claim, and ``stale`` says that it was lost."""
        with observability.span("commit") as span:
            outcome = self._kept(chunk, results) if isinstance(chunk, Claim) else "stale"
            span.set_attributes({"ragassay.outcome": outcome, "ragassay.rows": len(results)})
        return outcome

    def _kept(self, claim: Claim, results: Sequence[Result]) -> Outcome:
        return self._store.commit(claim, self.record, results)

    def without_columns(self) -> dict[ChunkId, float]:
        """None: a commit writes them."""
        return {}

    def gone(self, name: str) -> NotFound:
        """The error for rows that are not kept any more."""
        return gone(name, self._job)

    def save_report(self, report: Report) -> None:
        """Keep a partial report. A whole one is kept by the change of status that finishes the job.

        Raises NotFound for a whole one whose rows are not all kept.
        """
        if self._partial:
            self.blobs.put(PARTIAL_FILE, report.model_dump_json().encode())
        elif report.run.status != "finished":
            kept = set(self.done())
            lost = [chunk for chunk in self.record.chunks() if chunk not in kept]
            raise gone(f"the results of chunk {lost[0]}", self._job)

    def report_document(self) -> bytes:
        """The report's JSON, else that of the rows done when the job was paused or cancelled, or before failed ones were
        tried again. Raises NotFound for an unknown job, Conflict while there is no report.
        """
        document = self.blobs.get(REPORT_FILE)
        if document is None:
            state = self._store.state(self._job)
            if state.retries or state.status in ("paused", "cancelled"):
                document = self.blobs.get(PARTIAL_FILE)
            if document is None:
                hint = f"follow it: GET /v1/jobs/{self._job}"
                raise Conflict(f"job {self._job} is {state.status} and has no report", hint=hint)
        return document

    def report(self, only: str | None = None, *, spending: bool = False) -> Report:
        """The report, or ``only`` one metric of it; raises as ``report_document`` does."""
        return report_in(self.report_document(), only, spending=spending)


class RetriedRun(JobRun):
    """The run of a job as a chunk of it needs it whose failed rows are tried again, for the ``number``th time.

    The other rows keep their results, and all do until those of this time are committed.
    """

    def __init__(self, store: RedisStore, claim: Claim, number: int) -> None:
        super().__init__(store, claim.job)
        self._claim, self.number = claim, number

    @cached_property
    def _before(self) -> list[Result]:
        return self.results(self._claim)

    def samples(self, chunk: ChunkId) -> list[Sample]:
        """The rows of the chunk that are tried again."""
        rows = zip(super().samples(chunk), self._before, strict=True)
        return [sample for sample, before in rows if is_pending_again(before, self._source)]

    @property
    def unread(self) -> Iterator[str]:
        """The queries whose replies were paid, and no verdict: the same replies would be none again."""
        for row in self._before:
            if row.verdict is None and (row.waste.calls or row.waste.cache_hits):
                yield row.query_id

    @property
    def _source(self) -> Source:
        return self.record.systems[self._claim.system]

    def _kept(self, claim: Claim, results: Sequence[Result]) -> Outcome:
        new = iter(results)
        rows = [_with_spent(row, next(new)) if is_pending_again(row, self._source) else row for row in self._before]
        return self._store.commit(claim, self.record, rows, results)


def run_of(store: RedisStore, claim: Claim) -> JobRun:
    """The run of a claimed chunk: of one that is tried again, with its failed rows alone."""
    number = store.tries(claim)
    return RetriedRun(store, claim, number) if number else JobRun(store, claim.job)


def _with_spent(before: Result, now: Result) -> Result:
    """The row as it is now, with what was spent on it before."""
    earlier = {(one.rater, one.sample): one for one in before.ratings}
    ratings = []
    for one in now.ratings:
        known = earlier.get((one.rater, one.sample), Rating())
        ratings.append(one.model_copy(update={"usage": known.usage + one.usage, "waste": known.waste + one.waste}))
    spent = {"evaluation": before.evaluation + now.evaluation, "waste": before.waste + now.waste}
    return now.model_copy(update={**spent, "ratings": tuple(ratings)})
