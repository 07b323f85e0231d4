"""Asks a live system once for each query of a run: in time, several at once, and never twice for one answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from ragassay import observability
from ragassay.core.errors import BadInput, reason_from
from ragassay.core.models import LiveResponse, RequestTiming, Sample, Usage
from ragassay.core.protocols import Call, Journal, Reply
from ragassay.systems.base import LiveOptions, LoadController, RequestTimer, SystemClient

_ONE = Usage(calls=1)


class LiveSystem:
    """Asks a system once for each query of a run: what has answered is in the journal, so a resumed run does not ask again.

    Latency is from the query's beginning, under a ``rate`` from when it was due, to the end of its answer; attempts that
    failed are in it. A query that fails is a response with an error. ``run`` tells apart the calls of two runs; where
    these go on at the same time, ``asks`` and ``load`` are those of both.
    """

    def __init__(
        self,
        name: str,
        options: LiveOptions,
        asks: SystemClient,
        journal: Journal,
        *,
        run: str,
        load: LoadController | None = None,
    ) -> None:
        self._name, self.options, self._asks, self._journal, self._run = name, options, asks, journal, run
        self._load, self._asked = load or LoadController(options), False

    @property
    def name(self) -> str:
        """The system's name in reports."""
        return self._name

    async def query_all(self, samples: Iterable[Sample]) -> None:
        """Ask about all of these without a break, each when it is due; ``respond`` then has the answers.

        ``samples`` are taken one by one, when the next one is to be asked. Those that failed before are not asked again.
        """
        await self._asks.warm_up()
        tasks: set[asyncio.Task[None]] = set()
        with self._load.asking():
            try:
                for sample in samples:
                    if (self._run, sample.query_id) in self._load.failed:
                        continue
                    if self.options.rate is None and len(tasks) >= self.options.concurrency:
                        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for ended in [task for task in tasks if task.done()]:
                        tasks.remove(ended)
                        ended.result()
                    begun = asyncio.Event()
                    tasks.add(asyncio.create_task(self._ask_ahead(sample, begun)))
                    await begun.wait()
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_ahead(self, sample: Sample, begun: asyncio.Event) -> None:
        try:
            response = await self._kept(sample, begun)
        finally:
            begun.set()
        if response is not None and response.error is not None:
            self._load.failed[self._run, sample.query_id] = response

    async def respond(self, sample: Sample) -> LiveResponse | None:
        """The system's response, or its error."""
        if failed := self._load.failed.get((self._run, sample.query_id)):
            return failed
        return await self._kept(sample, asyncio.Event())

    async def close(self) -> None:
        """Close connections that no other run uses."""
        if self._asked:
            self._asked = False
            self._load.users -= 1
        if not self._load.users:
            await self._asks.close()

    def _call(self, sample: Sample) -> Call:
        if not self._asked:
            self._asked = True
            self._load.begin()
        return Call.about(sample.query_id, "answer", [self._run, self._name, sample.query_id])

    async def _kept(self, sample: Sample, begun: asyncio.Event) -> LiveResponse | None:
        """The response that the journal has, else what the system answers now; a failure is not kept there."""
        async with self._journal.attempt(self._call(sample), _ONE) as attempt:
            if attempt.reply is not None:
                return LiveResponse.model_validate_json(attempt.reply.text) if attempt.reply.text else None
            attempt.free()  # a query that fails costs nothing here
            response = await self._in_turn(sample, begun)
            if response is None or response.error is None:
                attempt.settle(Reply(text=response.model_dump_json(exclude_defaults=True) if response else ""))
            return response

    async def _in_turn(self, sample: Sample, begun: asyncio.Event) -> LiveResponse | None:
        """The response to a query that is asked when it is due; ``begun`` is set then."""
        await self._asks.warm_up()
        with self._load.asking():
            async with self._load.warming() as warmed_before:
                if warmed_before is not None:
                    response = await self._ask(sample, time.perf_counter())
                    return response and _of_warm_up(response, first=not warmed_before)
            due = await self._load.turn()
            begun.set()
            full = self._load.slots.locked()
            async with self._load.slots:
                now = time.perf_counter()
                response = await self._ask(sample, now if due is None else due)
                if response is None:
                    return None
                queue_ms = 0.0 if due is None or not full else (now - due) * 1000
                timing = {"queue_ms": queue_ms, "wall_ms": self._load.wall_ms()}
                return response.model_copy(update={"timing": response.timing.model_copy(update=timing)})

    async def _ask(self, sample: Sample, began: float) -> LiveResponse | None:
        with observability.span("ask system", "client", {"ragassay.system": self._name}) as span:
            response = await self._asked_once(sample, began)
            failed = response is not None and response.error is not None
            if failed:
                observability.fail(span, "failed")
        observability.count("system_requests", "failed" if failed else "answered")
        return response

    async def _asked_once(self, sample: Sample, began: float) -> LiveResponse | None:
        clock = RequestTimer(began, time.perf_counter() + self.options.timeout_s)
        try:
            async with asyncio.timeout(self.options.timeout_s):
                answered = await self._asks.ask(sample, clock)
            if answered is None:
                return None
            response = LiveResponse(**{**answered.__dict__, **clock.measured(answered)})
            response.model_dump_json()  # what can't be written down would end the run
        except TimeoutError:
            response = LiveResponse(error=self._late(clock))
        except BadInput as error:
            response = LiveResponse(error=error.message)
        except ValueError as error:
            response = LiveResponse(error=f"the reply can't be kept: {reason_from(error)}")
        timing = RequestTiming(attempts=clock.attempts)
        return response.model_copy(update={"timing": timing})

    def _late(self, clock: RequestTimer) -> str:
        within, first_ms = f"{self.options.timeout_s:g} s", clock.first_token_ms
        if first_ms is None:
            return f"no answer within {within}"
        return f"the answer had not ended after {within}; its first part came after {first_ms:.0f} ms"


def _of_warm_up(response: LiveResponse, *, first: bool) -> LiveResponse:
    """The response without its latencies, which count apart."""
    measured = ("latency_ms", "first_token_ms", "retrieval_latency_ms", "generation_latency_ms")
    timing = response.timing.model_copy(update={"warm_up": True})
    first_call_ms = response.latency_ms if first else None
    return response.model_copy(update={**dict.fromkeys(measured), "first_call_ms": first_call_ms, "timing": timing})
