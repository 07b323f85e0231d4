"""The work on one chunk, or on the report, under a lease with a heartbeat: evaluated, broken off where it has to be."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from redis.exceptions import RedisError

from ragassay import observability
from ragassay.core.aio import ignore
from ragassay.core.errors import Unavailable
from ragassay.core.protocols import Journal
from ragassay.evaluation import outage
from ragassay.evaluation.evaluate import log_start, work
from ragassay.evaluation.outage import given_up_text
from ragassay.evaluation.runtime import Runtime
from ragassay.llm.journal import CallScope, Circuit, refusing_journal
from ragassay.service.job_run import JobRun, RetriedRun, run_of
from ragassay.service.job_state import Claim, JobState
from ragassay.service.redis import RedisStore, renewed
from ragassay.service.redis_journal import RedisJournal, Retry
from ragassay.service.registered import Registered
from ragassay.storage.protocol import Outcome
from ragassay.systems.builtin import BuiltIn
from ragassay.systems.runner import JournaledSystem

logger = logging.getLogger("ragassay.jobs")


class Chunks:
    """Evaluates chunks, one at a time, on this process's one event loop. Calls of one job are paid once, whoever makes them."""

    def __init__(self, store: RedisStore, runtime: Runtime, registered: Registered) -> None:
        self._store, self._runtime, self._registered = store, runtime, registered
        self._runner: asyncio.Runner | None = None
        self._evaluation: asyncio.Task[Outcome] | None = None
        self._broken_off: str | None = None
        self.stopping = False

    def evaluate(self, claim: Claim, state: JobState) -> Outcome:
        """Evaluate a claimed chunk and commit it; ``stale`` when the claim was lost, or given back to wait."""
        about: observability.Attributes = {
            "ragassay.job": claim.job,
            "ragassay.chunk": claim.number,
            "ragassay.system": claim.system,
        }
        span = observability.span("chunk", "consumer", about, parent=state.traceparent)
        with observability.about(chunk=str(claim), system=claim.system), span:
            return self._evaluate_or_wait(claim, state)

    def _evaluate_or_wait(self, claim: Claim, state: JobState) -> Outcome:
        """Evaluate under the job's state of its provider: as usual, on trial after an outage, or with it given up."""
        spec = state.record.spec
        if claim.number == 0 and self._store.starts(claim):
            log_start(state.record, [claim.system])
        run, project_store = run_of(self._store, claim), self._store.of(state.project)
        run.record = state.record
        calls = _calls(project_store, claim, run, cache=spec.performance.cache)

        def evaluate(journal: Journal) -> Outcome:
            return self._run_leased(claim, self._answer_and_score(project_store, run, claim, journal))

        def without_provider(why: str) -> Outcome:
            text = given_up_text(why, spec.performance.provider_outage_timeout_s)
            return evaluate(refusing_journal(calls, text))

        try:
            if state.given_up is not None:
                return without_provider(state.given_up)
            end_wait = partial(self._store.in_thread, self._store.end_wait, claim.job)
            circuit = Circuit(state.waiting or "", answered=end_wait)
            probing = CallScope(calls, circuit=circuit)
            try:
                return evaluate(calls if state.waiting is None else probing)
            except Unavailable as down:
                first = state.waiting is None or circuit.closed
                why = str(down) if first else state.waiting or ""
                wait_s = outage.wait_s(0 if first else state.probes, down.retry_after)
                if self._store.wait_for_provider(
                    claim, why, wait_s=wait_s, outage_timeout_s=spec.performance.provider_outage_timeout_s
                ):
                    if first:
                        waits = {"event": "job_waiting"}
                        logger.warning("job %s waits for its provider: %s", claim.job, why, extra=waits)
                    return "stale"
                return without_provider(why)
        except asyncio.CancelledError:
            if self._broken_off:
                self._store.release(claim, died="it took too long" if self._broken_off == "too long" else "")
            return "stale"

    def break_off(self, *, stopping: bool) -> None:
        """Stop the evaluation that is under way, if any, and give its chunk back. For a signal handler or a thread.

        ``stopping``: the process ends, so no further chunk is taken and nothing is held against the chunk. Otherwise
        it took too long, which counts like a death: a chunk that dies again and again without a new reply is given up.
        """
        self.stopping = self.stopping or stopping
        evaluation = self._evaluation
        if evaluation is not None:
            self._broken_off = "stopping" if stopping else "too long"
            evaluation.get_loop().call_soon_threadsafe(evaluation.cancel)

    def close(self) -> None:
        """Close the event loop and the connections that live in it."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    async def _answer_and_score(
        self, project_store: RedisStore, run: JobRun, claim: Claim, journal: Journal
    ) -> Outcome:
        source = run.record.systems[claim.system]
        config = self._runtime.scoring_of(run.record)
        if not source.answers:
            return await work(run, claim, config, journal)
        own = self._registered.own(claim.system, source)
        system = self._runtime.systems({claim.system: own}, config, journal)[claim.system]
        if isinstance(system, BuiltIn):
            self._store.keep_built(claim.job, claim.system, system.models)
            return await work(run, claim, config, journal, system)
        # It is none of the judge's provider: it is asked whether that one fails or not.
        answers = CallScope(_calls(project_store, claim, run, cache=False), claim.system)
        try:
            return await work(run, claim, config, journal, JournaledSystem(system, answers))
        finally:
            await system.close()

    def _run_leased(self, claim: Claim, evaluation: Coroutine[None, None, Outcome]) -> Outcome:
        """Run an evaluation on this process's one event loop, with the lease kept; cancelled when the lease is lost."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        task = loop.create_task(evaluation)
        self._broken_off, self._evaluation = None, task
        if self.stopping:  # it was asked for before there was anything to break off
            self.break_off(stopping=True)
        try:
            renew, lost = partial(self._store.renew, claim), partial(loop.call_soon_threadsafe, task.cancel)
            with _renewed(self._store, renew, lost):
                return loop.run_until_complete(task)
        finally:
            self._evaluation = None


def _calls(project_store: RedisStore, claim: Claim, run: JobRun, *, cache: bool) -> Journal:
    """The calls of a chunk."""
    retry = Retry(run.number, frozenset(run.unread)) if isinstance(run, RetriedRun) else None
    return RedisJournal(project_store, claim, cache=cache, retry=retry)


@contextmanager
def report_claimed(store: RedisStore, job: str) -> Iterator[bool]:
    """Hold the lock of a job's report for the block; False if another worker makes the report, or it is not wanted."""
    lock = store.report_lock(job)
    if not lock.acquire():
        yield False
        return

    try:
        with _renewed(store, partial(renewed, lock), ignore):
            yield store.status(job) == "finalizing"
    finally:
        with suppress(RedisError):  # the lease ends by itself
            lock.release()


@contextmanager
def _renewed(store: RedisStore, renew: Callable[[], bool], lost: Callable[[], object]) -> Iterator[None]:
    """Renew a lease each second in a thread, and call ``lost`` once the work is not wanted any more."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(min(store.lease_ms / 4000, 1.0)):
            if not renew():
                lost()
                return

    thread = threading.Thread(target=go_on, daemon=True, name="lease")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
