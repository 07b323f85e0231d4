"""What every system under test shares: how it is asked, what asks it, and what is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from pydantic import Field, ValidationError

from ragassay.core.errors import BadInput
from ragassay.core.models import FrozenModel, Response, Sample
from ragassay.core.validation import problems
from ragassay.datasets.guesses import guesses


class LiveOptions(FrozenModel):
    """How a live system is asked, however it is reached."""

    concurrency: int = Field(4, ge=1, le=256, description="queries at once")
    rate: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="queries per second, begun at even distances whatever the system takes; latency counts from when "
        "a query was due. Default: the next one begins when one of `concurrency` has ended",
    )
    timeout_s: float = Field(30.0, gt=0, le=3600, description="seconds that one query may take")
    warm_up: int = Field(
        0,
        ge=0,
        le=1000,
        description="queries that each process asks one after another before it measures: their answers count, their "
        "latencies don't",
    )


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


def response_from(values: Mapping[str, Any]) -> Response:
    """The response with these fields; raises BadInput with the first that can't be used."""
    try:
        return Response.model_validate(dict(values))
    except ValidationError as error:
        problem = problems(error, Response)[0]
        if problem.unknown_key and (
            meant := [*guesses([{problem.place: problem.value}], ("answer", "contexts"), of_reply=True)]
        ):
            problem = replace(problem, hint=f"did you mean {meant[0]}?")
        raise BadInput(f"the reply can't be used: {problem}") from None
