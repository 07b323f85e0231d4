"""A job's run in Redis as the run driver sees it: the same protocol that a folder keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ragassay import observability
from ragassay.core.models import Rating, Result, Sample
from ragassay.core.report import Report, ReportWithResults, Source
from ragassay.evaluation.human_labels import with_labels
from ragassay.service.job_state import Claim, gone
from ragassay.service.redis import RedisStore
from ragassay.storage.cost_records import record_of
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord, report_with_results
from ragassay.storage.rows import is_pending_again, results_of


class JobRun:
    """One job's run, as the run driver sees it. ``retries``: how often its failed rows were tried again when it was read."""

    def __init__(self, store: RedisStore, job: str, *, partial: bool = False, retries: int = 0) -> None:
        self._store, self._job, self._partial, self._retries = store, job, partial, retries

    @cached_property
    def record(self) -> RunRecord:
        """What the job evaluates."""
        return self._store.state(self._job).record

    def pending(self) -> list[ChunkId]:
        """The chunks that wait to be claimed."""
        waiting = self._store.pending(self._job)
        return [chunk for chunk in self.record.chunks() if chunk in waiting]

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
        return self._store.commit(claim, results)

    def rows(self, system: str) -> Sequence[Result]:
        """The committed results of a system that are kept, in the dataset's order; many are read a chunk at a time."""
        chunks = self._store.with_results(self._job, self.record.chunks_of(system))
        return results_of(self.record, chunks, self._results)

    def _results(self, chunk: ChunkId) -> list[Result]:
        results = self._store.results(self._job, chunk)
        if results is None:
            raise gone(f"the results of chunk {chunk}", self._job)
        return results

    def save_report(self, report: Report) -> None:
        """Keep the report, unless one is kept already; a partial one takes the place of the one before.

        Raises NotFound for a whole one whose rows are not all kept.
        """
        if not self._partial and report.run.status != "finished":
            kept = set(self._store.with_results(self._job, self.record.chunks()))
            lost = [chunk for chunk in self.record.chunks() if chunk not in kept]
            raise gone(f"the results of chunk {lost[0]}", self._job)
        costs = record_of(report).model_dump_json(exclude_defaults=True).encode()
        document = report.model_dump_json().encode()
        self._store.save_report(self._job, document, costs, partial=self._partial, retries=self._retries)

    def report(self) -> Report:
        """The report; raises NotFound, or Conflict while there is none."""
        return Report.model_validate_json(self._store.report(self._job))

    def report_with_labels(self) -> ReportWithResults:
        """The report with the rows that are kept, corrected by people's labels of them; raises as ``report`` does."""
        return with_labels(report_with_results(self), self._store.labels(self._job))


class RetriedRun(JobRun):
    """The run of a job as a chunk of it needs it whose failed rows are tried again, for the ``number``th time.

    The other rows keep their results, and all do until those of this time are committed.
    """

    def __init__(self, store: RedisStore, claim: Claim, number: int) -> None:
        super().__init__(store, claim.job)
        self._claim, self.number = claim, number

    @cached_property
    def _before(self) -> list[Result]:
        return self._results(self._claim)

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
        return self._store.commit(claim, rows, results)


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
