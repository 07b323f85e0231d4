"""A chunk of samples, and how a metric of each kind scores it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

from ragassay.core.errors import AssayError, class_and_reason
from ragassay.core.models import LARGEST_NUMBER, Judgement, Sample, Score, Verdict
from ragassay.core.protocols import Embedder
from ragassay.core.validation import shown
from ragassay.llm import together
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.ranked import Ranked

if TYPE_CHECKING:
    from ragassay.metrics.base import Metric

SLOW_S = 0.01
logger = logging.getLogger("ragassay")
ROUNDING = 1e-9
NOTHING_RETRIEVED = "the system gave no response, which counts as nothing retrieved"


@dataclass(frozen=True)
class Chunk:
    """Up to a chunk of samples and the results of the stages before; all sequences are parallel."""

    samples: Sequence[Sample]
    judgements: Sequence[Judgement | None] = ()
    embedder: Embedder | None = None
    no_embedder: str = "no embedding model is set up"
    max_grade: float = 3.0
    relevant_from: float | None = None
    rule: AccuracyRule | None = None
    scores: dict[str, list[Score]] = field(default_factory=dict)

    @cached_property
    def ranked(self) -> Ranked:
        """The chunk's ranked gains; built once, shared by all retrieval metrics."""
        return Ranked.of(self.samples, relevant_from=self.relevant_from, max_grade=self.max_grade)

    def only(self, rows: Sequence[int]) -> Chunk:
        """The chunk cut down to some of its rows."""
        return replace(
            self,
            samples=[self.samples[n] for n in rows],
            judgements=[self.judgements[n] for n in rows] if self.judgements else (),
            scores={name: [scores[n] for n in rows] for name, scores in self.scores.items()},
        )


def score(metric: Metric, chunk: Chunk) -> list[Score]:
    """What ``scores`` gives, for a caller that can't await; an async metric needs a thread without an event loop."""
    computing = scores(metric, chunk)
    if inspect.iscoroutinefunction(metric.function):
        return asyncio.run(computing)
    try:
        while computing.send(None) is None:  # a slow row gives the event loop its turn; there is none here
            pass
    except StopIteration as ended:
        return list(ended.value)
    raise RuntimeError(f"{metric.name} is not async and waits")


async def scores(metric: Metric, chunk: Chunk, *, at_once: int = 8, timeout_s: float = 60.0) -> list[Score]:
    """One Score per sample, in order; a row without the input it needs is missing with that reason.

    What the metric does wrong (it raises, or returns what is no number within its bounds) costs its own score. Of an
    async metric ``at_once`` rows wait together, each ``timeout_s`` seconds at the most.
    """
    lacks = [metric.lacks(sample) for sample in chunk.samples]
    complete = [n for n, reason in enumerate(lacks) if reason is None]
    if complete and metric.sees != "Ranked" and len(complete) < len(lacks):  # gains are shared: built for all rows
        found = dict(zip(complete, await _computed(metric, chunk.only(complete), at_once, timeout_s), strict=True))
    else:
        found = dict(enumerate(await _computed(metric, chunk, at_once, timeout_s) if complete else ()))
    for n in complete:
        if found[n].missing == "failed" and not metric.is_ours:
            logger.warning("metric %s: query %s: %s", metric.name, chunk.samples[n].query_id, found[n].reason)
        if chunk.samples[n].response is None and found[n].value is not None:
            found[n] = found[n].model_copy(update={"reason": NOTHING_RETRIEVED})
    return [found[n] if reason is None else Score.absent(reason, "no_input") for n, reason in enumerate(lacks)]


async def _computed(metric: Metric, chunk: Chunk, at_once: int, timeout_s: float) -> list[Score]:
    """What the metric says of each sample; all of them have what it needs."""
    slots = asyncio.Semaphore(at_once)

    async def called(seen: object) -> Any:
        if not inspect.iscoroutinefunction(metric.function):
            try:
                return metric.function(seen, **metric.arguments)
            except Exception as error:
                if metric.is_ours and isinstance(error, AssayError):  # of the configuration: every row would meet it
                    raise
                return _failure(metric, error)
        async with slots:
            clock = asyncio.timeout(timeout_s)
            try:
                async with clock:
                    return await metric.function(seen, **metric.arguments)
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if task and task.cancelling():
                    raise
                if clock.expired():
                    return Score.absent(f"{metric.name} gave no score within {timeout_s:g} s", "failed")
                return _failure(metric, error)

    n = len(chunk.samples)
    if metric.sees in ("Ranked", "Chunk"):
        is_ranked = metric.sees == "Ranked"
        return _split(metric, await called(chunk.ranked if is_ranked else chunk), chunk)
    if metric.sees == "Sample":
        seen: list[Any] = list(chunk.samples)
    else:
        seen = [_verdict(judgement) for judgement in chunk.judgements or [None] * n]
    asked = [called(one) for one in seen if not isinstance(one, Score)]
    # What does not wait is called in order: tasks would only cost time.
    waits = inspect.iscoroutinefunction(metric.function)
    values = iter(await together(asked) if waits else [await _in_turn(one) for one in asked])
    return [one if isinstance(one, Score) else _as_score(metric, next(values)) for one in seen]


async def _in_turn(score: Awaitable[Any]) -> Any:
    """A score that does not wait. After a slow one the event loop has its turn, so that a cancellation ends the chunk."""
    began = time.perf_counter()
    value = await score
    if time.perf_counter() - began > SLOW_S:
        await asyncio.sleep(0)
    return value


def _verdict(judgement: Judgement | None) -> Verdict | Score:
    if judgement is None:
        return Score.absent("no judge was asked", "no_input")
    return judgement.verdict or Score.absent(judgement.reason or "the judge failed", "failed")


def _split(metric: Metric, returned: Any, chunk: Chunk) -> list[Score]:
    """What a metric of a whole chunk returned, row by row."""
    n, shape = len(chunk.samples), getattr(returned, "shape", None)
    if isinstance(returned, Score):
        return [returned] * n
    if shape is None and isinstance(returned, Sequence) and not isinstance(returned, str):
        shape = (len(returned),)
    if shape != (n,):
        what = f"{len(returned)} values" if isinstance(returned, list | tuple) else _described(returned)
        return [Score.absent(f"{metric.name} returned {what} for {n} rows", "failed")] * n
    values = returned.tolist() if hasattr(returned, "tolist") else returned
    if metric.sees == "Chunk":
        return [_as_score(metric, value) for value in values]
    undefined = Score.absent(f"{metric.name} is undefined here")
    details = chunk.ranked.details(metric.arguments.get("k"))
    return [undefined if v is None or v != v else _as_score(metric, v, d) for v, d in zip(values, details, strict=True)]


def _as_score(metric: Metric, value: Any, details: dict[str, Any] | None = None) -> Score:
    """What a metric returned as a Score; a failed one where it is none."""
    given = value if isinstance(value, Score) else None
    number: Any = given.value if given else value
    if getattr(number, "ndim", None) == 0:
        number = number.item()
    if number is None:
        return given or Score.absent(f"{metric.name} is undefined here")
    if not isinstance(number, Real):
        return Score.absent(f"{metric.name} returned {_described(number)}, not a number", "failed")
    number = float(number)
    if not (math.isfinite(number) and abs(number) <= LARGEST_NUMBER):
        return Score.absent(f"{metric.name} returned {number}", "failed")
    low, high = metric.bounds or (-math.inf, math.inf)
    if not low - ROUNDING <= number <= high + ROUNDING:
        what = f"{metric.name} returned {number:g}, outside its bounds {low:g} to {high:g}"
        return Score.absent(what, "failed")
    if given is None:
        return Score(value=number, details=details)
    if metric.is_ours:
        return given
    try:
        return Score.model_validate_json(given.model_dump_json())
    except ValueError:
        return Score.absent(f"{metric.name} returned details that JSON can't hold", "failed")


def _described(value: Any) -> str:
    """A value that is no number, in a few words."""
    if value is None or isinstance(value, str):
        return shown(value) if value is not None else "None"
    if (shape := getattr(value, "shape", None)) is not None:
        return f"an array of shape {tuple(shape)}"
    return f"a {type(value).__name__}"


def _failure(metric: Metric, error: BaseException) -> Score:
    return Score.absent(f"{metric.name} raised {class_and_reason(error)}", "failed")
