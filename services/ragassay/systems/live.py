"""Systems under test that answer while they are evaluated: each query asked once, what it took measured here.

How a system is reached is an ``Asks``: over HTTP (``systems/http.py``) or as a Python function (below).
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, closing
from types import AsyncGeneratorType
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from ragassay.core import telemetry
from ragassay.core.errors import BadInput, BadSettings, class_and_reason, reason_from
from ragassay.core.models import Asking, FrozenModel, LiveResponse, Response, Sample, Usage
from ragassay.core.plugins import imported, imported_module
from ragassay.core.protocols import Call, Ledger, Reply
from ragassay.core.validation import shown
from ragassay.systems.pieces import Pieces, response_from
from ragassay.systems.timing import Clock, Schedule

Function = Callable[[str], Any]
_ONE = Usage(calls=1)


class LiveOptions(FrozenModel):
    """How a live system is asked, however it is reached."""

    in_flight: Annotated[int, Field(ge=1, le=256, description="queries at once")] = 4
    rate: Annotated[
        float | None,
        Field(
            gt=0,
            le=10_000,
            description="queries per second, begun at even distances whatever the system takes; latency counts from when "
            "a query was due. Default: the next one begins when one of `in_flight` has ended",
        ),
    ] = None
    timeout_s: Annotated[float, Field(gt=0, le=3600, description="seconds that one query may take")] = 30.0
    warm_up: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="queries that each process asks one after another before it measures: their answers count, their "
            "latencies don't",
        ),
    ] = 0


class Asks(Protocol):
    """Reaches a system."""

    async def warm_up(self) -> None:
        """Load what takes time, before the clock starts."""

    async def ask(self, sample: Sample, clock: Clock) -> Response | None:
        """The system's response, without what the clock measures. Raises BadInput with what is wrong with it."""

    async def close(self) -> None:
        """Close connections."""


class LiveSystem:
    """Asks a system once for each query of a run: what has answered is in the ledger, so a resumed run does not ask again.

    Latency is from the query's beginning, under a ``rate`` from when it was due, to the end of its answer; attempts that
    failed are in it. A query that fails is a response with an error. ``run`` tells apart the calls of two runs; where
    these go on at the same time, ``asks`` and ``schedule`` are those of both.
    """

    def __init__(
        self, name: str, options: LiveOptions, asks: Asks, ledger: Ledger, *, run: str, schedule: Schedule | None = None
    ) -> None:
        self._name, self.options, self._asks, self._ledger, self._run = name, options, asks, ledger, run
        self._schedule, self._asked = schedule or Schedule(options), False

    @property
    def name(self) -> str:
        """The system's name in reports."""
        return self._name

    async def ask_all(self, samples: Iterable[Sample]) -> None:
        """Ask about all of these without a break, each when it is due; ``respond`` then has the answers.

        ``samples`` are taken one by one, when the next one is to be asked. Those that failed before are not asked again.
        """
        await self._asks.warm_up()
        tasks: set[asyncio.Task[None]] = set()
        with self._schedule.asking():
            try:
                for sample in samples:
                    if (self._run, sample.query_id) in self._schedule.failed:
                        continue
                    if self.options.rate is None and len(tasks) >= self.options.in_flight:
                        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for ended in [task for task in tasks if task.done()]:
                        tasks.remove(ended)
                        ended.result()
                    call = self._call(sample)
                    if await self._ledger.reserve(call, _ONE) is None:
                        begun = asyncio.Event()
                        tasks.add(asyncio.create_task(self._ask_ahead(call, sample, begun)))
                        await begun.wait()
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_ahead(self, call: Call, sample: Sample, begun: asyncio.Event) -> None:
        try:
            response = await self._kept(call, self._in_turn(sample, begun))
        finally:
            begun.set()
        if response is not None and response.error is not None:
            self._schedule.failed[self._run, sample.query_id] = response

    async def respond(self, sample: Sample) -> LiveResponse | None:
        """The system's response, or its error."""
        if failed := self._schedule.failed.get((self._run, sample.query_id)):
            return failed
        call = self._call(sample)
        settled = await self._ledger.reserve(call, _ONE)
        if settled is not None:
            return LiveResponse.model_validate_json(settled.text) if settled.text else None
        return await self._kept(call, self._in_turn(sample, asyncio.Event()))

    async def close(self) -> None:
        """Close connections that no other run uses."""
        if self._asked:
            self._asked = False
            self._schedule.users -= 1
        if not self._schedule.users:
            await self._asks.close()

    def _call(self, sample: Sample) -> Call:
        if not self._asked:
            self._asked = True
            self._schedule.begin()
        return Call.about(sample.query_id, "answer", [self._run, self._name, sample.query_id])

    async def _kept(self, call: Call, asked: Awaitable[LiveResponse | None]) -> LiveResponse | None:
        """What was answered, once it is in the ledger; a failure is not kept there."""
        text: str | None = None
        try:
            response = await asked
            if response is None or response.error is None:
                text = response.model_dump_json(exclude_defaults=True) if response else ""
        finally:
            if text is None:
                await self._ledger.release(call, Usage())
        if text is not None:
            await self._ledger.settle(call, Reply(text=text))
        return response

    async def _in_turn(self, sample: Sample, begun: asyncio.Event) -> LiveResponse | None:
        """The response to a query that is asked when it is due; ``begun`` is set then."""
        await self._asks.warm_up()
        with self._schedule.asking():
            async with self._schedule.warming() as warmed_before:
                if warmed_before is not None:
                    response = await self._ask(sample, time.perf_counter())
                    return response and _of_warm_up(response, first=not warmed_before)
            due = await self._schedule.turn()
            begun.set()
            full = self._schedule.in_flight.locked()
            async with self._schedule.in_flight:
                now = time.perf_counter()
                response = await self._ask(sample, now if due is None else due)
                if response is None:
                    return None
                waited_ms = 0.0 if due is None or not full else (now - due) * 1000
                asking = {"waited_ms": waited_ms, "share_ms": self._schedule.share_ms()}
                return response.model_copy(update={"asking": response.asking.model_copy(update=asking)})

    async def _ask(self, sample: Sample, began: float) -> LiveResponse | None:
        with telemetry.span("ask system", "client", {"ragassay.system": self._name}) as span:
            response = await self._asked_once(sample, began)
            failed = response is not None and response.error is not None
            if failed:
                telemetry.fail(span, "failed")
        telemetry.count("system_requests", "failed" if failed else "answered")
        return response

    async def _asked_once(self, sample: Sample, began: float) -> LiveResponse | None:
        clock = Clock(began, time.perf_counter() + self.options.timeout_s)
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
        asking = Asking(attempts=clock.attempts, unmatched=clock.unmatched, reply_keys=clock.reply_keys)
        return response.model_copy(update={"asking": asking})

    def _late(self, clock: Clock) -> str:
        within, first_ms = f"{self.options.timeout_s:g} s", clock.first_token_ms
        if first_ms is None:
            return f"no answer within {within}"
        return f"the answer had not ended after {within}; its first part came after {first_ms:.0f} ms"


def _of_warm_up(response: LiveResponse, *, first: bool) -> LiveResponse:
    """The response without its latencies, which count apart."""
    measured = ("latency_ms", "first_token_ms", "retrieval_latency_ms", "generation_latency_ms")
    asking = response.asking.model_copy(update={"warm_up": True})
    first_call_ms = response.latency_ms if first else None
    return response.model_copy(update={**dict.fromkeys(measured), "first_call_ms": first_call_ms, "asking": asking})


class FunctionConfig(LiveOptions):
    """A system that is a Python function."""

    kind: Annotated[Literal["python"], Field(description="a system that is a Python function")]
    function: Annotated[
        str,
        Field(
            pattern=r"^[^:]+:\w+$",
            description="`module:function` or `file.py:function`; sync or async. It takes the query and returns the answer, "
            "or an object with `answer`, `contexts`, `retrieved_doc_ids` and what else a response has; or it yields parts",
        ),
    ]

    @classmethod
    def of(cls, function: Function) -> FunctionConfig:
        """What a report says of a function that is given as such."""
        name = re.sub(r"\W", "", getattr(function, "__name__", type(function).__name__)) or "function"
        return cls(kind="python", function=f"{getattr(function, '__module__', None) or 'function'}:{name}")

    @property
    def module(self) -> str:
        """The module's name, or the file."""
        return self.function.rpartition(":")[0]


class FunctionAsks:
    """Calls a function with the query's text; one that is not async, in a thread of its own.

    A generator streams its answer: it yields parts of it, and objects with what else a response has.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def ask(self, sample: Sample, clock: Clock) -> Response | None:
        """What the function returned, as a response; raises BadInput with what it raised."""
        try:
            if inspect.iscoroutinefunction(self._function) or inspect.isasyncgenfunction(self._function):
                returned = self._function(sample.query)
            else:
                returned = await _in_thread(lambda: _drained(self._function(sample.query), clock))
            if inspect.isasyncgen(returned):
                return await _streamed(returned, clock)
            returned = await returned if inspect.isawaitable(returned) else returned
        except BadInput:
            raise
        except Exception as error:  # the user's code: any error is the row's reason
            raise BadInput(f"the system raised {class_and_reason(error)}") from error
        if returned is None or isinstance(returned, Response):
            return returned
        if isinstance(returned, str):
            return Response(answer=returned)
        if isinstance(returned, dict):
            return response_from({str(key): value for key, value in returned.items()})
        raise BadInput(f"the system returned {shown(returned)}; text or an object with 'answer' is needed")

    async def close(self) -> None:
        """Nothing to close."""


async def _streamed(parts: AsyncGeneratorType[Any, Any], clock: Clock) -> Response:
    pieces = Pieces(clock)
    async with aclosing(parts):
        async for part in parts:
            if clock.left_s < 0:  # one that never waits is never interrupted
                raise BadInput("the answer did not end within its time")
            pieces.add(_piece(part))
    return pieces.response()


def _drained(returned: Any, clock: Clock) -> Any:
    """What a function returned; the response where that is a generator, which is left alone once its time is over."""
    if not inspect.isgenerator(returned):
        return returned
    pieces = Pieces(clock)
    with closing(returned):
        for part in returned:
            if clock.left_s < 0:
                break
            pieces.add(_piece(part))
    return pieces.response()


def _piece(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"answer": part}
    if isinstance(part, dict):
        return {str(key): value for key, value in part.items()}
    raise BadInput(f"the system yielded {shown(part)}; parts of the answer as text, or objects, are needed")


def function_of(config: FunctionConfig, where: str) -> Function:
    """The function that the configuration names, of a module that was imported before: a run's record runs no code.

    Raises BadSettings where it was not, or has no such function.
    """
    if config.module not in imported():
        what = f"code of {config.module} would be run, which a run's record alone may not ask for"
        raise BadSettings(what, where=where, hint=f"where you trust it, repeat it: --import {config.module}")
    name = config.function.rpartition(":")[2]
    function: Function | None = getattr(imported_module(config.module), name, None)
    if not callable(function):
        raise BadSettings(f"{config.module} has no function {name!r}", where=where)
    return function


def _in_thread(work: Callable[[], Any]) -> Awaitable[Any]:
    """Run it in a thread that does not keep the process alive: a system may hang for ever."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def done(returned: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(returned)
        else:
            future.set_exception(error)

    def run() -> None:
        returned, error = None, None
        try:
            returned = work()
        except Exception as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(done, returned, error)

    threading.Thread(target=run, daemon=True, name="system under test").start()
    return future
