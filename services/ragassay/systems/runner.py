"""Asks a live system once for each query of a run: in time, and several at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from ragassay import observability
from ragassay.core.errors import BadInput, reason_from
from ragassay.core.models import RequestTiming, Response, Result, Sample, Usage
from ragassay.core.protocols import Call, Journal, Reply
from ragassay.core.report import Load
from ragassay.systems.base import LiveOptions, RequestTimer, SystemClient

_MEASURED = ("latency_ms", "first_token_ms", "retrieval_latency_ms", "generation_latency_ms")


class LoadController:
    """Reaches one system, in however many runs it is asked: so many queries at once, and each when it is due.

    ``users`` are the runs that have begun to ask: connections are closed when the last of them has ended.
    """

    def __init__(self, options: LiveOptions, client: SystemClient) -> None:
        self.options, self.client, self.users = options, client, 0
        self.slots = asyncio.Semaphore(options.concurrency)
        self._warming = asyncio.Lock()
        self._warmed = self._asking = 0
        self._next_due = self._last = 0.0

    def begin(self) -> None:
        """One run more asks."""
        if not self.users:  # perhaps in another event loop than before
            self.slots, self._warming = asyncio.Semaphore(self.options.concurrency), asyncio.Lock()
        self.users += 1

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While something is asked: a section in which wall time counts, and at whose beginning the next query is due."""
        if not self._asking:
            self._restart()
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    async def wait_until_due(self) -> float | None:
        """Wait until the next query is due, and say when; None where no rate is asked for. Never later for a slow system."""
        if self.options.rate is None:
            return None
        due, self._next_due = self._next_due, self._next_due + 1 / self.options.rate
        await asyncio.sleep(due - time.perf_counter())
        return due

    def wall_ms(self) -> float:
        """The wall time since it was taken for last, while something was asked."""
        now = time.perf_counter()
        share, self._last = now - self._last, now
        return share * 1000

    @asynccontextmanager
    async def warming(self) -> AsyncIterator[bool]:
        """Does this query warm the system up? Then it is alone."""
        async with self._warming:
            if self._warmed < self.options.warm_up:
                try:
                    yield True
                finally:
                    self._warmed += 1
                    self._restart()
                return
        yield False

    def _restart(self) -> None:
        self._last = time.perf_counter()
        self._next_due = max(self._next_due, self._last)


class LiveSystem:
    """Asks a system for its responses.

    Latency is from the query's beginning, under a ``rate`` from when it was due, to the end of its answer; attempts that
    failed are in it. A query that fails is a response with an error. ``load``: that of all runs that ask the system at the
    same time.
    """

    def __init__(self, name: str, load: LoadController) -> None:
        self._name, self._load, self._began = name, load, False

    @property
    def name(self) -> str:
        """The system's name in reports."""
        return self._name

    async def query_all(self, samples: Iterable[Sample], keep: Callable[[Sample, Response | None], object]) -> None:
        """Ask about all of these without a break, each when it is due; ``keep`` is called with each response as it comes.

        ``samples`` are taken one by one, when the next one is to be asked.
        """
        self._begin()
        await self._load.client.warm_up()
        tasks: set[asyncio.Task[None]] = set()
        with self._load.asking():
            try:
                for sample in samples:
                    options = self._load.options
                    if options.rate is None and len(tasks) >= options.concurrency:
                        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for ended in [task for task in tasks if task.done()]:
                        tasks.remove(ended)
                        ended.result()
                    begun = asyncio.Event()
                    tasks.add(asyncio.create_task(self._ask_ahead(sample, begun, keep)))
                    await begun.wait()
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_ahead(
        self, sample: Sample, begun: asyncio.Event, keep: Callable[[Sample, Response | None], object]
    ) -> None:
        try:
            keep(sample, await self._ask_when_due(sample, begun))
        finally:
            begun.set()

    async def respond(self, sample: Sample) -> Response | None:
        """The system's response, or its error."""
        self._begin()
        return await self._ask_when_due(sample, asyncio.Event())

    async def close(self) -> None:
        """Close connections that no other run uses."""
        if self._began:
            self._began = False
            self._load.users -= 1
        if not self._load.users:
            await self._load.client.close()

    def _begin(self) -> None:
        if not self._began:
            self._began = True
            self._load.begin()

    async def _ask_when_due(self, sample: Sample, begun: asyncio.Event) -> Response | None:
        """The response to a query that is asked when it is due; ``begun`` is set then."""
        await self._load.client.warm_up()
        with self._load.asking():
            async with self._load.warming() as is_warm_up:
                if is_warm_up:
                    response = await self._ask(sample, time.perf_counter())
                    if response is None:
                        return None
                    apart: dict[str, Any] = dict.fromkeys(_MEASURED)  # these latencies count apart
                    return _timed(response.model_copy(update=apart), warm_up=True)
            due = await self._load.wait_until_due()
            begun.set()
            full = self._load.slots.locked()
            async with self._load.slots:
                now = time.perf_counter()
                response = await self._ask(sample, now if due is None else due)
                if response is None:
                    return None
                queue_ms = 0.0 if due is None or not full else (now - due) * 1000
                return _timed(response, queue_ms=queue_ms, wall_ms=self._load.wall_ms())

    async def _ask(self, sample: Sample, began: float) -> Response | None:
        with observability.span("ask system", "client", {"ragassay.system": self._name}) as span:
            response = await self._request(sample, began)
            failed = response is not None and response.error is not None
            if failed:
                observability.fail(span, "failed")
        observability.count("system_requests", "failed" if failed else "answered")
        return response

    async def _request(self, sample: Sample, began: float) -> Response | None:
        clock = RequestTimer(began, time.perf_counter() + self._load.options.timeout_s)
        try:
            async with asyncio.timeout(self._load.options.timeout_s):
                answered = await self._load.client.ask(sample, clock)
            if answered is None:
                return None
            response = Response(**{**answered.__dict__, **clock.measured(answered)})
            response.model_dump_json()  # what can't be written down would end the run
        except TimeoutError:
            response = Response(error=self._late(clock))
        except BadInput as error:
            response = Response(error=error.message)
        except ValueError as error:
            response = Response(error=f"the reply can't be kept: {reason_from(error)}")
        return response.model_copy(update={"timing": RequestTiming(attempts=clock.attempts)})

    def _late(self, clock: RequestTimer) -> str:
        within, first_ms = f"{self._load.options.timeout_s:g} s", clock.first_token_ms
        if first_ms is None:
            return f"no answer within {within}"
        return f"the answer had not ended after {within}; its first part came after {first_ms:.0f} ms"


def _timed(response: Response, **timing: Any) -> Response:
    known = response.timing or RequestTiming()
    return response.model_copy(update={"timing": known.model_copy(update=timing)})


class JournaledSystem:
    """A live system whose responses a journal keeps, so that no query is asked twice."""

    def __init__(self, system: LiveSystem, journal: Journal) -> None:
        self._system, self._journal = system, journal

    @property
    def name(self) -> str:
        """The system's name in reports."""
        return self._system.name

    async def respond(self, sample: Sample) -> Response | None:
        """The response that the journal has, else what the system answers now. A retry asks again for one with an error."""
        call = Call.about(sample.query_id, "answer", [self.name, sample.query_id])
        async with self._journal.attempt(call, Usage(calls=1)) as attempt:
            if attempt.reply is not None:
                return Response.model_validate_json(attempt.reply.text) if attempt.reply.text else None
            attempt.free()  # a query that is broken off costs nothing here
            response = await self._system.respond(sample)
            text = response.model_dump_json(exclude_defaults=True) if response else ""
            attempt.settle(Reply(text=text, unreadable=response is not None and response.error is not None))
            return response


class LoadStats:
    """How a live system was asked, over its rows, each added once: what a report has in addition to the latencies."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(("finished", "warm_up", "waited", "attempts", "retried"), 0)
        self._wall_ms = self._longest_ms = 0.0

    def add(self, row: Result) -> None:
        """The next row's; one that was recorded counts nothing."""
        if (timing := row.timing) is None:
            return
        self._wall_ms += timing.wall_ms
        self._longest_ms = max(self._longest_ms, timing.queue_ms)
        counted = {
            "finished": row.error is None and not timing.warm_up,
            "warm_up": timing.warm_up,
            "waited": timing.queue_ms > 0,
            "attempts": timing.attempts,
            "retried": timing.attempts > 1,
        }
        for name, count in counted.items():
            self._counts[name] += count

    def load(self, configuration: Mapping[str, Any]) -> Load | None:
        """What was counted of a system so configured; None where nothing was asked."""
        if not self._counts["attempts"]:
            return None
        options = {key: configuration[key] for key in ("concurrency", "rate")}
        return Load(**options, **self._counts, wall_s=self._wall_ms / 1000, longest_wait_ms=self._longest_ms)


def cautions(system: str, load: Load) -> Iterator[str]:
    """What limits the figures of a system that was so loaded, in a sentence each."""
    if load.waited:
        yield (
            f"{system}: {load.waited:,} queries were due while {load.concurrency} were under way, the most at once, and waited "
            f"up to {load.longest_wait_ms:,.0f} ms, which is in their latency; a larger concurrency would ask them in time"
        )
