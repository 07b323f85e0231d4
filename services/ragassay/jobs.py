"""The use cases of the service: submit, pump, finalize, cancel, tick. The doors are a few lines over these."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import orjson

from ragassay import benchmark, reports
from ragassay.archive import MOST_LOOKED_AT, Archive, Gating, JobDocument
from ragassay.documents import ENDED, Job, JobPage, JobStatus, Report, ResultPage, Source
from ragassay.doorbell import Doorbell
from ragassay.engine import Tools, evaluate, given_up
from ragassay.errors import AssayError, BadInput, BudgetReached, Conflict, NotFound, NothingToEvaluate
from ragassay.metrics import parse
from ragassay.models import CHUNK_SIZE, Budget, JobSpec, Result, Sample
from ragassay.seams import Ledger
from ragassay.stopping import Watch, order, sorted_back
from ragassay.store.redis import Claim, RedisStore
from ragassay.store.redis_ledger import RedisLedger
from ragassay.strategies.recorded import Recorded

logger = logging.getLogger("ragassay")
BELLS = 4  # messages of one job that may wait or work at once: many enough for all workers, few enough to be fair
MOST_ROWS_A_PAGE = 200
WATCHES = 16  # stop rules that a worker keeps in mind between chunks
ToolsFor = Callable[[JobSpec, Ledger], Tools]


class Jobs:
    """Jobs in Redis. ``tools_for`` plugs an evaluation in; only workers call it, so that the API stays light."""

    def __init__(self, store: RedisStore, doorbell: Doorbell, tools_for: ToolsFor) -> None:
        self.store, self._doorbell, self._tools_for = store, doorbell, tools_for
        self.archive = Archive(store)
        self._runner: asyncio.Runner | None = None
        self._evaluation: asyncio.Task[list[Result]] | None = None
        self._broken_off: str | None = None
        self._stopping = False
        self._watches: OrderedDict[str, Watch] = OrderedDict()

    # --- for everybody ----------------------------------------------------------------------------------------

    def submit(
        self,
        spec: JobSpec,
        dataset: Source,
        samples: Sequence[Sample],
        gating: Gating = Gating(),  # noqa: B008 - frozen
        *,
        idempotency_key: str | None = None,
    ) -> tuple[Job, bool]:
        """Save and queue an evaluation of the samples' responses; returns the job and whether it is new.

        Every name is resolved now. Raises NothingToEvaluate, UnknownName, BadSettings; NotFound and Conflict for a
        baseline without a report; BadInput when the idempotency key belongs to another body, Conflict while its job is
        being made.
        """
        asked = "".join(part.model_dump_json() for part in (spec, dataset, gating))
        digest = hashlib.sha256(asked.encode()).hexdigest()
        if idempotency_key and (known := self.store.remember(idempotency_key, digest)):
            return self.get(known), False
        try:
            job = self._create(spec, dataset, samples, gating, (idempotency_key, digest) if idempotency_key else None)
        except AssayError:
            if idempotency_key:
                self.store.forget(idempotency_key)
            raise
        self._ring(job)
        return self.get(job), True

    def _create(
        self,
        spec: JobSpec,
        dataset: Source,
        samples: Sequence[Sample],
        gating: Gating,
        idempotency: tuple[str, str] | None,
    ) -> str:
        self.archive.check_gating(gating)
        answered = [sample for sample in samples if sample.response]
        if not answered:
            raise NothingToEvaluate(
                "no sample has a response", hint="give each sample an answer, contexts or retrieved ids"
            )
        metrics = benchmark.choose(spec, {"default": samples})
        if not metrics:
            raise NothingToEvaluate("no default metric has the input it needs", hint="see /v1/metrics")
        benchmark.plan(spec, metrics)
        if spec.stop_when is not None:
            Watch(spec, metrics, ["default"], self.archive.baseline(spec))
        samples = [samples[place] for place in order(spec, len(samples))]
        now = datetime.now(UTC)
        document = JobDocument(
            spec=spec,
            metrics=tuple(metric.name for metric in metrics),
            dataset=dataset,
            systems={"default": dataset.model_copy(update={"name": "default", "rows": len(answered)})},
            created_at=now.isoformat(timespec="milliseconds"),
            gating=gating,
        )
        job = uuid.uuid4().hex
        chunks = {
            f"default:{n}": samples[n * CHUNK_SIZE : (n + 1) * CHUNK_SIZE]
            for n in range(-(-len(samples) // CHUNK_SIZE))
        }
        created_ms = int(now.timestamp() * 1000)
        self.store.create(
            job,
            document.model_dump_json().encode(),
            chunks,
            created_ms=created_ms,
            idempotency=idempotency,
            one_by_one=spec.stop_when is not None,
            budget=spec.budget,
        )
        return job

    def get(self, job: str) -> Job:
        """The job as it stands; raises NotFound."""
        return self.archive.job(job)

    def page(self, *, cursor: str | None, limit: int, status: JobStatus | None = None) -> JobPage:
        """Jobs, newest first. With ``status`` a page looks at so many jobs at the most, so it may hold fewer."""
        most = limit if status is None else max(limit, MOST_LOOKED_AT)
        found = self.store.jobs(before=cursor, limit=most + 1)
        shown: list[Job] = []
        last = None
        for last in found[:most]:
            try:
                job = self.get(last)
            except NotFound:  # the list outlives a job's record
                continue
            if status in (None, job.status):
                shown.append(job)
            if len(shown) == limit:
                break
        return JobPage(jobs=tuple(shown), next=None if not found or last == found[-1] else last)

    def report(self, job: str) -> bytes:
        """The report as JSON; raises NotFound, or Conflict while the job has none."""
        return self.store.report(job)

    def results(self, job: str, *, cursor: str | None, limit: int) -> ResultPage:
        """The results that are there, in the dataset's order; raises NotFound when their time is over."""
        first = _offset(cursor)
        meta = self.store.meta(job)
        rows, spec = int(meta["rows"]), JobDocument.model_validate_json(meta["document"]).spec
        page = range(first, min(first + limit, rows))
        evaluated = {place: n for n, place in enumerate(order(spec, rows)) if place in page}
        there: dict[int, Result] = {}
        for number in sorted({n // CHUNK_SIZE for n in evaluated.values()}):
            there |= dict(enumerate(self.store.results(job, [f"default:{number}"]), number * CHUNK_SIZE))
        found = [there[evaluated[place]] for place in page if evaluated[place] in there]
        if not found and first < rows and meta["status"] == b"finished" and spec.stop_when is None:
            raise NotFound(f"the results of job {job} were kept for 30 days and are gone", hint="the report holds them")
        return ResultPage(results=tuple(found), next=str(first + limit) if first + limit < rows else None)

    def cancel(self, job: str) -> Job:
        """Stop a job: no new call is made for it. A job that has ended can't be cancelled (Conflict)."""
        before = self.store.turn(job, "cancelled", "queued", "running", "paused", "finalizing")
        if before in ("finished", "failed"):
            raise Conflict(f"job {job} is {before} already")
        self.store.close(job, self._chunks(job))
        return self.get(job)

    def resume(self, job: str, budget: Budget) -> Job:
        """Go on with a job that its budget has paused, under a new one; any other job stays as it is (Conflict)."""
        before = self.store.resume(job, budget)
        if before != "paused":
            raise Conflict(f"job {job} is {before}, not paused")
        self._ring(job)
        return self.get(job)

    # --- for workers ------------------------------------------------------------------------------------------

    def pump(self, job: str, bell: int, nonce: str) -> None:
        """Work on one chunk of a job, then ring again. Delivered at least once, so it claims before it works."""
        claim = None if self._stopping else self.store.claim(job)
        if claim is None:
            if self.store.is_current(job, bell, nonce):
                self.store.hush(job, bell)
            return
        resumes = self.store.resumes(job)
        try:
            outcome = self._work(claim)
        except BudgetReached as reached:
            self.store.give_back(claim, died=False)
            self.store.pause(job, reached.message, resumes)
            self.store.hush(job, bell)
            return
        except (BadInput, NothingToEvaluate) as error:
            self.store.fail(job, str(error))
            self.store.close(job, self._chunks(job))
            return
        except Exception:
            self.store.give_back(claim, died=True)
            raise
        if outcome == "last":
            self._doorbell.finalize(job)
        elif self.store.is_current(job, bell, nonce):
            self.store.hush(job, bell)
            if not self._stopping:
                self._ring(job)

    def break_off(self, *, stopping: bool) -> None:
        """Stop the evaluation that is under way, if any, and give its chunk back. For a signal handler or a thread.

        ``stopping``: the process ends, so no further chunk is taken and nothing is held against the chunk. Otherwise
        it took too long, which counts like a death: a chunk that never ends is given up in the end.
        """
        self._stopping = self._stopping or stopping
        evaluation = self._evaluation
        if evaluation is not None:
            self._broken_off = "stopping" if stopping else "too long"
            evaluation.get_loop().call_soon_threadsafe(evaluation.cancel)

    def close(self) -> None:
        """Close the event loop and the connections that live in it."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _work(self, claim: Claim) -> str:
        """Evaluate a claimed chunk and commit it; ``stale`` when the claim was lost meanwhile."""
        document = self._document(claim.job)
        samples = self.store.samples(claim.job, claim.chunk)
        system, _, number = claim.chunk.rpartition(":")
        if number == "0":
            logger.info("evaluation of %d queries starts: %s, system %s", document.dataset.rows, claim.job, system)
        ledger = RedisLedger(self.store, claim, cache=document.spec.cache)
        tools = self._tools_for(document.spec, ledger)
        plan = benchmark.plan(document.spec, [parse(name) for name in document.metrics])
        strategy = Recorded(system, {s.query_id: s.response for s in samples if s.response})
        try:
            results = self._run(claim, evaluate(samples, strategy, plan, tools))
        except asyncio.CancelledError:
            if self._broken_off:
                self.store.give_back(claim, died=self._broken_off == "too long")
            return "stale"
        outcome = self.store.commit(claim, results)
        if outcome == "kept" and document.spec.stop_when is not None and self._watch(claim.job, document).why:
            self.store.turn(claim.job, "finalizing", "running")
            return "last"
        return outcome

    def _watch(self, job: str, document: JobDocument) -> Watch:
        """The job's stop rule with all that was committed. A chunk is read once in a process: that stays linear."""
        watch = self._watches.pop(job, None)
        if watch is None:
            spec = document.spec
            watch = Watch(spec, [parse(name) for name in document.metrics], ["default"], self.archive.baseline(spec))
        self._watches[job] = watch
        if len(self._watches) > WATCHES:
            self._watches.popitem(last=False)
        while results := list(self.store.results(job, [f"default:{watch.chunks}"])):
            if watch.update({"default": results}):
                break
        return watch

    def _run(self, claim: Claim, evaluation: Coroutine[Any, Any, list[Result]]) -> list[Result]:
        """Run an evaluation on this process's one event loop, with the lease kept; cancelled when the lease is lost."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        task = loop.create_task(evaluation)
        self._broken_off, self._evaluation = None, task
        if self._stopping:  # it was asked for before there was anything to break off
            self.break_off(stopping=True)
        try:
            with self._kept(claim, lambda: loop.call_soon_threadsafe(task.cancel)):
                return loop.run_until_complete(task)
        finally:
            self._evaluation = None

    @contextmanager
    def _kept(self, claim: Claim, lost: Callable[[], object]) -> Any:
        """Renew the lease four times in its length, in a thread: scoring keeps the event loop busy."""
        stop = threading.Event()

        def renew() -> None:
            while not stop.wait(self.store.lease_ms / 4000):
                if not self.store.renew(claim):
                    lost()
                    return

        thread = threading.Thread(target=renew, daemon=True, name="lease")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def finalize(self, job: str) -> None:
        """Recount everything and keep the report. Idempotent: the last step is what makes the job finished."""
        meta = self.store.meta(job)
        if meta["status"] != b"finalizing":
            return
        document = JobDocument.model_validate_json(meta["document"])
        report = self._report(job, document)
        self.store.save_report(job, orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_APPEND_NEWLINE))
        self.archive.hold(job, document.gating, report)
        self.store.turn(job, "finished", "finalizing")
        reports.log_end(report)
        self.store.close(job, self._chunks(job))

    def _report(self, job: str, document: JobDocument) -> Report:
        tools = self._tools_for(document.spec, RedisLedger(self.store, Claim(job, "none", ""), cache=False))
        manifest = benchmark.manifest(
            job, document.created_at, document.spec, document.metrics, document.dataset, document.systems, tools
        )
        chunks, stopped = self._chunks(job), None
        if document.spec.stop_when is not None:
            watch = self._watch(job, document)
            if watch.why and watch.chunks < len(chunks):
                left = [sample for chunk in chunks[watch.chunks :] for sample in self.store.samples(job, chunk)]
                chunks = chunks[: watch.chunks]
                stopped = benchmark.stopped_early(watch, manifest, {"default": left})
        results = sorted_back(document.spec, document.dataset.rows, list(self.store.results(job, chunks)))
        return reports.build(
            job,
            document.created_at,
            benchmark.provenance(manifest),
            dict.fromkeys(document.systems, results),
            expected=document.dataset.rows,
            stopped=stopped,
        )

    # --- for the sweeper --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take back what dead workers held, give up chunks that kill them, and ring doorbells that were lost."""
        for job in self.store.active():
            try:
                ended = self.store.meta(job)["status"].decode() in ENDED
            except NotFound:  # its keys were evicted or deleted by hand; the other jobs go on
                self.store.close(job, ())
                continue
            if ended:  # whoever ended it died before the last step
                self.store.close(job, self._chunks(job))
                continue
            for claim in self.store.sweep(job):
                if self.store.commit(claim, self._hopeless(claim)) == "last":
                    self._doorbell.finalize(job)
            self._ring(job)

    def _hopeless(self, claim: Claim) -> list[Result]:
        samples, system = self.store.samples(claim.job, claim.chunk), claim.chunk.rpartition(":")[0]
        return given_up(
            samples, system, self._document(claim.job).metrics, "the worker died on this chunk again and again"
        )

    def _ring(self, job: str) -> None:
        finalizing = self.store.meta(job)["status"] == b"finalizing"
        for bell, nonce in self.store.due_bells(job, bells=BELLS, patience_ms=self.store.lease_ms):
            if finalizing:
                self._doorbell.finalize(job)
            else:
                self._doorbell.ring(job, bell, nonce)

    def _document(self, job: str) -> JobDocument:
        return JobDocument.model_validate_json(self.store.meta(job)["document"])

    def _chunks(self, job: str) -> list[str]:
        return [f"default:{n}" for n in range(int(self.store.meta(job)["chunks"]))]


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 9:
        raise BadInput(f"cursor {cursor[:40]!r} is not one that a page gave")
    return int(cursor)
