"""Systems under test that answer while they are evaluated: each query asked once, what it took measured here.

How a system is reached is an ``Asks``: over HTTP (``strategies/http.py``) or as a Python function (below).
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, ValidationError

from ragassay.errors import BadInput, BadSettings, reason_from
from ragassay.models import FrozenModel, Response, Sample, Usage
from ragassay.protocols import Call, Ledger, Reply
from ragassay.registry import imported, imported_module
from ragassay.validation import problems, shown

Function = Callable[[str], Any]


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


class Asks(Protocol):
    """Reaches a system."""

    async def warm_up(self) -> None:
        """Load what takes time, before the clock starts."""

    async def ask(self, sample: Sample) -> Response | None:
        """The system's response, without latency. Raises BadInput with what is wrong with it."""

    async def close(self) -> None:
        """Close connections."""


class QueryPace:
    """When the queries of one system begin, in however many runs it is asked: so many at once, and each when it is due.

    ``users`` are the runs that have begun to ask: connections are closed when the last of them has ended.
    """

    def __init__(self, options: LiveOptions) -> None:
        self.in_flight = asyncio.Semaphore(options.in_flight)
        self.users = 0
        self._rate = options.rate
        self._next_due = 0.0

    async def turn(self) -> float | None:
        """Wait until the next query is due; None where no rate is asked for."""
        if self._rate is None:
            return None
        now = time.perf_counter()
        due = max(self._next_due, now)  # later than now while earlier queries wait for their turn
        self._next_due = due + 1 / self._rate
        await asyncio.sleep(due - now)
        return due


class LiveSystem:
    """Asks a system once for each query of a run: what has answered is in the ledger, so a resumed run does not ask again.

    Latency is from the query's beginning, under a ``rate`` from when it was due, to the end of its answer. A query that
    fails is a response with an error. ``run`` tells apart the calls of two runs; where these go on at the same time,
    ``asks`` and ``pace`` are those of both.
    """

    def __init__(
        self, name: str, options: LiveOptions, asks: Asks, ledger: Ledger, *, run: str, pace: QueryPace | None = None
    ) -> None:
        self._name, self.options, self._asks, self._ledger, self._run = name, options, asks, ledger, run
        self._pace, self._asked = pace or QueryPace(options), False

    @property
    def name(self) -> str:
        """The system's name in reports."""
        return self._name

    async def respond(self, sample: Sample) -> Response | None:
        """The system's response, or its error."""
        if not self._asked:
            self._asked = True
            self._pace.users += 1
        call = Call.about(sample.query_id, "answer", [self._run, self._name, sample.query_id])
        settled = await self._ledger.reserve(call, Usage(calls=1))
        if settled is not None:
            return Response.model_validate_json(settled.text) if settled.text else None
        answered = False
        try:
            response = await self._timed(sample)
            answered = response is None or response.error is None
        finally:
            if not answered:
                await self._ledger.release(call, Usage())
        if answered:
            text = response.model_dump_json(exclude_defaults=True) if response else ""
            await self._ledger.settle(call, Reply(text=text))
        return response

    async def close(self) -> None:
        """Close connections that no other run uses."""
        if self._asked:
            self._asked = False
            self._pace.users -= 1
        if not self._pace.users:
            await self._asks.close()

    async def _timed(self, sample: Sample) -> Response | None:
        await self._asks.warm_up()
        due = await self._pace.turn()
        async with self._pace.in_flight:
            began = time.perf_counter() if due is None else due
            try:
                async with asyncio.timeout(self.options.timeout_s):
                    response = await self._asks.ask(sample)
            except TimeoutError:
                return Response(error=f"no answer within {self.options.timeout_s:g} s")
            except BadInput as error:
                return Response(error=error.message)
            took_ms = (time.perf_counter() - began) * 1000
        return response and response.model_copy(update={"latency_ms": took_ms})


def response_from(values: dict[str, Any]) -> Response:
    """The response with these fields; raises BadInput with the first that can't be used."""
    try:
        return Response.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"the reply can't be used: {problems(error, Response)[0]}") from None


class FunctionConfig(LiveOptions):
    """A system that is a Python function."""

    kind: Annotated[Literal["python"], Field(description="a system that is a Python function")]
    function: Annotated[
        str,
        Field(
            pattern=r"^[^:]+:\w+$",
            description="`module:function` or `file.py:function`; sync or async. It takes the query and returns the answer, "
            "or an object with `answer`, `contexts`, `retrieved_doc_ids` and what else a response has",
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
    """Calls a function with the query's text; one that is not async, in a thread of its own."""

    def __init__(self, function: Function) -> None:
        self._function = function

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def ask(self, sample: Sample) -> Response | None:
        """What the function returned, as a response; raises BadInput with what it raised."""
        try:
            if inspect.iscoroutinefunction(self._function):
                returned = await self._function(sample.query)
            else:
                returned = await _in_thread(lambda: self._function(sample.query))
                returned = await returned if inspect.isawaitable(returned) else returned
        except Exception as error:  # the user's code: any error is the row's reason
            raise BadInput(f"the system raised {type(error).__name__}: {reason_from(error)}") from error
        if returned is None or isinstance(returned, Response):
            return returned
        if isinstance(returned, str):
            return Response(answer=returned)
        if isinstance(returned, dict):
            return response_from({str(key): value for key, value in returned.items()})
        raise BadInput(f"the system returned {shown(returned)}; text or an object with 'answer' is needed")

    async def close(self) -> None:
        """Nothing to close."""


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
