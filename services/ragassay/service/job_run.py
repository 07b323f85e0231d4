"""A job's run in Redis as the run driver sees it: the same protocol that a folder keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ragassay.core import telemetry
from ragassay.core.files import MOST_IN_MEMORY, LazyRows
from ragassay.core.models import Judgement, Result, Sample
from ragassay.core.report import Report, json_parts, without_rows
from ragassay.evaluation.human_labels import with_labels
from ragassay.service.job_state import Claim, gone
from ragassay.service.redis import RedisStore
from ragassay.storage.cost_records import record_of
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord


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

    def commit(self, chunk: ChunkId, results: Sequence[Result], *, given_up: bool = False) -> Outcome:  # noqa: ARG002 - a job that ended stays so
        """Keep a chunk's results; ``chunk`` must be a claim, and ``stale`` says that it was lost."""
        with telemetry.span("commit") as span:
            outcome = self._kept(chunk, results) if isinstance(chunk, Claim) else "stale"
            span.set_attributes({"ragassay.outcome": outcome, "ragassay.rows": len(results)})
        return outcome

    def _kept(self, claim: Claim, results: Sequence[Result]) -> Outcome:
        return self._store.commit(claim, results)

    def results(self, chunk: ChunkId) -> list[Result] | None:
        """The committed results of a chunk; None when it has none. Raises NotFound where they were and are gone."""
        results = self._store.results(self._job, chunk)
        if results is None and not self._partial and self._store.is_done(self._job, chunk):
            raise gone(f"the results of chunk {chunk}", self._job)
        return results

    def evaluated(self, chunks: Sequence[ChunkId]) -> Sequence[Result]:
        """The committed results of these chunks of one system, in the dataset's order; many are read as they are asked for."""
        if sum(map(self.record.rows_in, chunks)) <= MOST_IN_MEMORY:
            return [row for chunk in chunks for row in self.results(chunk) or ()]
        there = self._store.with_results(self._job, chunks)
        known = set(there)
        for chunk in chunks:
            if chunk not in known:
                self.results(chunk)  # raises where it should be there
        return JobResults(self._store, self.record, there)

    def save_report(self, report: Report) -> None:
        """Keep the report, unless one is kept already; a partial one takes the place of the one before."""
        figures = without_rows(report).model_dump_json().encode()
        costs = record_of(report).model_dump_json(exclude_defaults=True).encode()
        self._store.save_report(
            self._job, json_parts(report), figures, costs, partial=self._partial, retries=self._retries
        )

    def report(self) -> Report:
        """The report; raises NotFound, or Conflict while there is none.

        That of a long job has its figures in memory and its results in Redis, for as long as all of these are there.
        """
        return self._of_figures() or Report.model_validate_json(self._store.report(self._job))

    def report_with_labels(self) -> Report:
        """The report, and what people's labels of the job's rows make of it; raises as ``report`` does."""
        return with_labels(self.report(), self._store.labels(self._job))

    def _of_figures(self) -> Report | None:
        if self.record.dataset.rows <= MOST_IN_MEMORY or not (document := self._store.figures(self._job)):
            return None
        figures, systems = Report.model_validate_json(document), {}
        for name, one in figures.systems.items():
            chunks = [chunk for chunk in self.record.chunks() if chunk.system == name]
            results = JobResults(self._store, self.record, self._store.with_results(self._job, chunks))
            if len(results) < one.queries:
                return None
            systems[name] = one.model_copy(update={"results": results})
        return figures.model_copy(update={"systems": systems})


class JobResults(LazyRows[Result]):
    """The results of a job's chunks of one system, which have results; those of one chunk are in memory."""

    def __init__(self, store: RedisStore, record: RunRecord, chunks: Sequence[ChunkId]) -> None:
        self._store, self._record, self._chunks = store, record, chunks
        self._rows = sum(map(record.rows_in, chunks))
        self._held: tuple[int, list[Result]] = (-1, [])

    def __len__(self) -> int:
        return self._rows

    def row(self, place: int) -> Result:
        """The result at a place, from 0; raises NotFound where it is gone."""
        number, n = divmod(place, self._record.chunk_size)
        held = self._held  # another thread may read another chunk
        if held[0] != number:
            chunk = self._chunks[number]
            results = self._store.results(self._record.id, chunk)
            if results is None:
                raise gone(f"the results of chunk {chunk}", self._record.id)
            held = self._held = number, results
        return held[1][n]


class RetriedRun(JobRun):
    """The run of a job as a chunk of it needs it whose failed rows are tried again, for the ``number``th time.

    The other rows keep their results, and all do until those of this time are committed.
    """

    def __init__(self, store: RedisStore, claim: Claim, number: int) -> None:
        super().__init__(store, claim.job)
        self._claim, self.number = claim, number

    @cached_property
    def _before(self) -> list[Result]:
        results = self._store.results(self._job, self._claim)
        if results is None:
            raise gone(f"the results of chunk {self._claim}", self._job)
        return results

    def samples(self, chunk: ChunkId) -> list[Sample]:
        """The rows of the chunk that are tried again."""
        rows = zip(super().samples(chunk), self._before, strict=True)
        return [sample for sample, before in rows if self._is_tried(before)]

    @property
    def unread(self) -> Iterator[str]:
        """The queries whose replies were paid, and no verdict: the same replies would be none again."""
        for row in self._before:
            if row.verdict is None and (row.waste.calls or row.waste.cache_hits):
                yield row.query_id

    def _is_tried(self, row: Result) -> bool:
        source = self.record.systems[row.system]
        return row.failed and (row.error is None or bool(source.called or source.built))

    def _kept(self, claim: Claim, results: Sequence[Result]) -> Outcome:
        new = iter(results)
        rows = [_with_spent(row, next(new)) if self._is_tried(row) else row for row in self._before]
        return self._store.commit(claim, rows, results)


def run_of(store: RedisStore, claim: Claim) -> JobRun:
    """The run of a claimed chunk: of one that is tried again, with its failed rows alone."""
    number = store.tries(claim)
    return RetriedRun(store, claim, number) if number else JobRun(store, claim.job)


def _with_spent(before: Result, now: Result) -> Result:
    """The row as it is now, with what was spent on it before."""
    members = {}
    for name, one in now.members.items():
        known = before.members.get(name, Judgement())
        members[name] = one.model_copy(update={"usage": known.usage + one.usage, "waste": known.waste + one.waste})
    spent = {"evaluation": before.evaluation + now.evaluation, "waste": before.waste + now.waste}
    return now.model_copy(update={**spent, "members": members})
