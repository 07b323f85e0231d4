"""How a metric scores a chunk: row by row, or the batch at once. What a metric does wrong costs its own score."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any

from ragassay.core.aio import together
from ragassay.core.errors import AssayError, class_and_reason
from ragassay.core.models import LARGEST_NUMBER, Score
from ragassay.core.validation import shown
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import Metric

logger = logging.getLogger("ragassay")
SLOW_S = 0.01
ROUNDING = 1e-9
NOT_NEEDED = "accurate was decided without it"
NOTHING_RETRIEVED = "the system gave no response, which counts as nothing retrieved"


async def scores(
    metric: Metric, chunk: Chunk, *, at_once: int = 8, timeout_s: float = 60.0, unneeded: Collection[int] = ()
) -> list[Score]:
    """One Score per sample, in order; a row without the input it needs is missing with that reason.

    What the metric does wrong (it raises, or returns what is no number within its bounds) costs its own score. Of an
    async metric ``at_once`` rows wait together, each ``timeout_s`` seconds at the most. ``unneeded`` rows are left out.
    """
    lacks = [NOT_NEEDED if n in unneeded else metric.missing_input(sample) for n, sample in enumerate(chunk.samples)]
    complete = [n for n, reason in enumerate(lacks) if reason is None]
    by_row: dict[int, Score] = {}
    if complete:
        # gains are shared by the retrieval metrics: built for all rows
        rows = range(len(lacks)) if metric.input_type == "Ranked" else complete
        part = chunk if len(rows) == len(lacks) else chunk.only(rows)
        call = _Call(metric, at_once, timeout_s)
        results = await (call.of_batch(part) if metric.input_type in ("Chunk", "Ranked") else call.of_rows(part))
        by_row = dict(zip(rows, results, strict=True))
    for n in complete:
        if by_row[n].missing == "failed" and not metric.is_ours:
            logger.warning("metric %s: query %s: %s", metric.name, chunk.samples[n].query_id, by_row[n].reason)
        if chunk.samples[n].response is None and by_row[n].value is not None:
            by_row[n] = by_row[n].model_copy(update={"reason": NOTHING_RETRIEVED})
    return [by_row[n] if reason is None else Score.absent(reason, "no_input") for n, reason in enumerate(lacks)]


class _Call:
    """Calls of one metric, each of which gives what the metric returns, or a failed Score."""

    def __init__(self, metric: Metric, at_once: int, timeout_s: float) -> None:
        self._metric, self._timeout_s, self._slots = metric, timeout_s, asyncio.Semaphore(at_once)

    async def of_rows(self, chunk: Chunk) -> list[Score]:
        """Each sample's score, or that of its verdict; rows without a verdict are missing with its reason."""
        metric = self._metric
        seen: Sequence[Any] = chunk.samples
        if metric.input_type != "Sample":
            seen = chunk.verdicts if metric.input_type == "Verdict" else chunk.ids
        complete = [one for one in seen if not isinstance(one, Score)]
        # what does not wait is called in order: tasks would only cost time
        values = (
            await together([self._waiting(one) for one in complete])
            if metric.is_async
            else await self._in_turn(complete)
        )
        left = iter(values)
        return [one if isinstance(one, Score) else self._score(next(left)) for one in seen]

    async def of_batch(self, chunk: Chunk) -> list[Score]:
        """The scores of a whole chunk, of which the metric returns as many; details are those of its ranked lists."""
        metric, n = self._metric, len(chunk.samples)
        seen: Any = chunk.ranked if metric.input_type == "Ranked" else chunk
        if metric.is_async:
            returned = await self._waiting(seen)
        else:
            returned = await asyncio.to_thread(self._now, seen) if metric.embeds else self._now(seen)
        if isinstance(returned, Score):
            return [returned] * n
        values = returned.tolist() if hasattr(returned, "tolist") else returned
        if not isinstance(values, Sequence) or isinstance(values, str):
            return [self._failed(f"returned {_described(returned)} for {n} rows")] * n
        if len(values) != n:
            return [self._failed(f"returned {len(values)} values for {n} rows")] * n
        if metric.input_type == "Chunk":
            return [self._score(value) for value in values]
        details = chunk.ranked.details(metric.arguments.get("k"))
        defined = (None if value is None or value != value else value for value in values)
        return [self._score(value, of_row) for value, of_row in zip(defined, details, strict=True)]

    def _called(self, seen: Any) -> Any:
        metric = self._metric
        if metric.input_type == "Ids":
            return metric.function(**seen, **metric.arguments)
        return metric.function(seen, **metric.arguments)

    def _now(self, seen: object) -> Any:
        try:
            return self._called(seen)
        except Exception as error:
            if self._metric.is_ours and isinstance(error, AssayError):  # of the configuration: every row would meet it
                raise
            return self._failed(f"raised {class_and_reason(error)}")

    async def _in_turn(self, seen: Sequence[object]) -> list[Any]:
        """After a slow row the event loop has its turn, so that a cancellation ends the chunk."""
        values = []
        for one in seen:
            began = time.perf_counter()
            values.append(self._now(one))
            if time.perf_counter() - began > SLOW_S:
                await asyncio.sleep(0)
        return values

    async def _waiting(self, seen: object) -> Any:
        async with self._slots:
            clock = asyncio.timeout(self._timeout_s)
            try:
                async with clock:
                    return await self._called(seen)
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if task and task.cancelling():
                    raise
                if clock.expired():
                    return self._failed(f"gave no score within {self._timeout_s:g} s")
                return self._failed(f"raised {class_and_reason(error)}")

    def _score(self, value: Any, details: dict[str, Any] | None = None) -> Score:
        """What a metric returned as a Score; a failed one if it is none."""
        score = value if isinstance(value, Score) else None
        number: Any = score.value if score else value
        if getattr(number, "ndim", None) == 0:
            number = number.item()
        if number is None:
            return score or Score.absent(f"{self._metric.name} is undefined here")
        if not isinstance(number, Real):
            return self._failed(f"returned {_described(number)}, not a number")
        number = float(number)
        if not (math.isfinite(number) and abs(number) <= LARGEST_NUMBER):
            return self._failed(f"returned {number}")
        low, high = self._metric.bounds or (-math.inf, math.inf)
        if not low - ROUNDING <= number <= high + ROUNDING:
            return self._failed(f"returned {number:g}, outside its bounds {low:g} to {high:g}")
        if score is None:
            return Score(value=number, details=details)
        if self._metric.is_ours:
            return score
        try:
            return Score.model_validate_json(score.model_dump_json())
        except ValueError:
            return self._failed("returned details that JSON can't hold")

    def _failed(self, what: str) -> Score:
        return Score.absent(f"{self._metric.name} {what}", "failed")


def _described(value: Any) -> str:
    """A value that is no number, in a few words."""
    return shown(value) if isinstance(value, str) else f"a {type(value).__name__}"
