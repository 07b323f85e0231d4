"""What every system under test shares: how it is asked, what it is asked by, what is measured, and its response in parts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, ValidationError

from ragassay.core.errors import BadInput
from ragassay.core.models import FrozenModel, LiveResponse, Response, Sample
from ragassay.core.validation import problems, shown

LISTS = frozenset(("contexts", "retrieved_doc_ids", "retrieved_scores"))
ReplyField = Literal[
    "answer", "contexts", "retrieved_doc_ids", "retrieved_scores", "model", "input_tokens", "output_tokens",
    "cost_usd", "retrieval_latency_ms", "generation_latency_ms", "route", "error",
]  # fmt: skip
USUAL_REPLY: dict[ReplyField, str] = {
    "answer": "$.answer",
    "contexts": "$.contexts[*]",
    "retrieved_doc_ids": "$.retrieved_doc_ids[*]",
}
MOST_CHARACTERS = 10_000_000  # of an answer


class LiveOptions(FrozenModel):
    """How a live system is asked, however it is reached."""

    concurrency: Annotated[int, Field(ge=1, le=256, description="queries at once")] = 4
    rate: Annotated[
        float | None,
        Field(
            gt=0,
            le=10_000,
            description="queries per second, begun at even distances whatever the system takes; latency counts from when "
            "a query was due. Default: the next one begins when one of `concurrency` has ended",
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


class SystemClient(Protocol):
    """Reaches a system."""

    async def warm_up(self) -> None:
        """Load what takes time, before the clock starts."""

    async def ask(self, sample: Sample, clock: RequestTimer) -> Response | None:
        """The system's response, without what the clock measures. Raises BadInput with what is wrong with it."""

    async def close(self) -> None:
        """Close connections."""


class RequestTimer:
    """What happened when while one query was asked, in ms since it began, or was due. A way of asking notes it here."""

    def __init__(self, began: float, ends: float) -> None:
        self._began, self._ends = began, ends
        self.attempts = 1
        self.retrieved_ms: float | None = None
        self.first_token_ms: float | None = None
        self._ended_ms: float | None = None
        self._arrived: float | None = None

    @property
    def now_ms(self) -> float:
        """Ms from when the query began to now, or to when the bytes arrived that are looked at now."""
        return ((self._arrived or time.perf_counter()) - self._began) * 1000

    def arrived(self) -> None:
        """Bytes are here, which are looked at later."""
        self._arrived = time.perf_counter()

    @property
    def left_s(self) -> float:
        """Seconds until its time is over."""
        return self._ends - time.perf_counter()

    def retrieved(self) -> None:
        """What the answer is made from is here, and no part of the answer yet."""
        if self.retrieved_ms is None and self.first_token_ms is None:
            self.retrieved_ms = self.now_ms

    def answering(self) -> None:
        """A part of the answer is here."""
        if self.first_token_ms is None:
            self.first_token_ms = self.now_ms

    def ended(self) -> None:
        """The reply is whole."""
        if self._ended_ms is None:
            self._ended_ms = self.now_ms

    def measured(self, response: Response) -> dict[str, float]:
        """What was measured, now that the response is here: total latency, and the parts that are known."""
        took_ms = self.now_ms if self._ended_ms is None else self._ended_ms
        times = {"latency_ms": took_ms}
        if self.first_token_ms is not None:
            times["first_token_ms"] = self.first_token_ms
        if self.retrieved_ms is not None and response.retrieval_latency_ms is None:
            times["retrieval_latency_ms"] = self.retrieved_ms
            if response.generation_latency_ms is None:
                times["generation_latency_ms"] = took_ms - self.retrieved_ms
        return times


class LoadController:
    """When the queries of one system begin, in however many runs it is asked: so many at once, and each when it is due.

    ``users`` are the runs that have begun to ask: connections are closed when the last of them has ended. ``failed`` are
    responses with an error by run and query: a row that is worked on again, since its judge failed, takes it again.
    """

    def __init__(self, options: LiveOptions) -> None:
        self.options, self.users = options, 0
        self.slots = asyncio.Semaphore(options.concurrency)
        self.failed: dict[tuple[str, str], LiveResponse] = {}
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

    async def turn(self) -> float | None:
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
    async def warming(self) -> AsyncIterator[int | None]:
        """How many queries have warmed the system up before this one, which is alone; None where it is warm."""
        async with self._warming:
            if self._warmed < self.options.warm_up:
                try:
                    yield self._warmed
                finally:
                    self._warmed += 1
                    self._restart()
                return
        yield None

    def _restart(self) -> None:
        self._last = time.perf_counter()
        self._next_due = max(self._next_due, self._last)


class StreamedResponse:
    """Puts a response together: parts of the answer and of lists are joined, of anything else the last one counts."""

    def __init__(self, clock: RequestTimer) -> None:
        self._clock, self._length = clock, 0
        self._parts: list[str] = []
        self._values: dict[str, Any] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """What has just come, by field; raises BadInput."""
        for name, value in values.items():
            if value is None:
                continue
            if name == "answer":
                self._add_part(value)
            elif name in LISTS:
                more = value if isinstance(value, list | tuple) else (value,)
                self._values[name] = (*self._values.get(name, ()), *more)
            else:
                self._values[name] = value
        if values.get("contexts") is not None or values.get("retrieved_doc_ids") is not None:
            self._clock.retrieved()

    def _add_part(self, part: Any) -> None:
        if not isinstance(part, str):
            raise BadInput(f"a part of the answer should be text, is {shown(part)}")
        if part:
            self._clock.answering()
        self._length += len(part)
        if self._length > MOST_CHARACTERS:
            raise BadInput(f"the answer is longer than {MOST_CHARACTERS // 1_000_000} million characters")
        self._parts.append(part)

    def response(self) -> Response:
        """All of it, now that it has ended; raises BadInput."""
        self._clock.ended()
        answer = {"answer": "".join(self._parts)} if self._parts else {}
        return response_from({**self._values, **answer})


def response_from(values: Mapping[str, Any]) -> Response:
    """The response with these fields; raises BadInput with the first that can't be used."""
    try:
        return Response.model_validate(dict(values))
    except ValidationError as error:
        raise BadInput(f"the reply can't be used: {problems(error, Response)[0]}") from None
