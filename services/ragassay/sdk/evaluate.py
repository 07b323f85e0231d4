"""``ragassay.evaluate``: systems on one dataset or several in one call, with or without an event loop around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack, overload

from ragassay.core.errors import BadSettings
from ragassay.reporting.objects import Report
from ragassay.sdk.benchmark import Benchmark
from ragassay.sdk.evaluation import (
    begin,
    check_baseline,
    completed,
    configured,
    inputs_by_dataset,
    notice_unscored,
    runtime_for,
)
from ragassay.sdk.loop import awaited, finished
from ragassay.sdk.options import BenchmarkOptions, EvalOptions, RunOptions
from ragassay.sdk.progress import Reporter

Progress = bool | Callable[[int, int], object] | None


@overload
def evaluate(
    data: Any = None, *, metrics: Any = None, progress: Progress = None, **options: Unpack[RunOptions]
) -> Report: ...
@overload
def evaluate(*, metrics: Any = None, progress: Progress = None, **options: Unpack[BenchmarkOptions]) -> Benchmark: ...


def evaluate(
    data: Any = None,
    *,
    metrics: Any = None,
    judge: Any = None,
    systems: Mapping[str, Any] | None = None,
    datasets: Mapping[str, Any] | None = None,
    baseline: str | None = None,
    config: str | Path | None = None,
    progress: Progress = None,
    **options: Unpack[EvalOptions],
) -> Report | Benchmark:
    """Evaluate recorded responses and systems, and return the report; of several datasets a Benchmark.

    data: a path, a list of dicts, a pandas, polars or Arrow table, a Hugging Face Dataset, a list of Samples, or an object
    with len() and [i]; a row has a query and, without ``systems``, the response to it. NaN counts as missing. Or
    {"queries": rows, "judgments": [{"query_id": ..., "relevant_chunk_ids": [...]}]}.
    metrics: names, functions made with @ragassay.metric, objects with ``compute``; default: every usual one that the rows allow.
    judge: "local" (no key, no network), a model that LiteLLM supports, or a function or class made with @ragassay.judge.
    systems: {name: responses}, each a path or rows as in ``data`` with query_id or query, or {name: {"kind": "bm25"}}
    for a built-in one, or a function, or an object with ``retrieve(query, top_k)``.
    datasets: in place of data, {name: dataset}, each as ``data``; each system is compared with ``baseline``, by default
    the first. Recorded responses are {dataset: path or rows}, or a path with {dataset} in it. A configuration may name them.
    config: a ragassay.yaml that the other options change. progress: True shows a bar; or a function that is called with
    rows done and rows in all.
    The other options are the keys of the configuration (docs/configuration.md); a section is a mapping of its keys:
    ``performance={"concurrency": 4}``.
    Runs are kept under .ragassay, as those of the command line are; ``ragassay evaluate --resume`` goes on after an
    interruption. Raises AssayError: BadInput for rows and options that don't fit, NothingToEvaluate, BudgetReached,
    Unavailable. Warns where too many rows could not be scored.
    """
    named = {"metrics": metrics, "judge": judge, "systems": systems, "datasets": datasets, "baseline": baseline}
    return finished(partial(_evaluated, data, {**named, "config": config, **options}, _reporter(progress)))


@overload
async def aevaluate(
    data: Any = None, *, metrics: Any = None, progress: Progress = None, **options: Unpack[RunOptions]
) -> Report: ...
@overload
async def aevaluate(
    *, metrics: Any = None, progress: Progress = None, **options: Unpack[BenchmarkOptions]
) -> Benchmark: ...
async def aevaluate(
    data: Any = None, *, metrics: Any = None, progress: Progress = None, **options: Any
) -> Report | Benchmark:
    """``evaluate`` for programs with an event loop. If cancelled, it makes no further call."""
    return await awaited(partial(_evaluated, data, {"metrics": metrics, **options}, _reporter(progress)))


def _reporter(progress: Progress) -> Reporter:
    return Reporter(progress if callable(progress) else None, bar=progress is True)


async def _evaluated(data: Any, options: Mapping[str, Any], reporter: Reporter) -> Report | Benchmark:
    """The work itself."""
    if "gates" in options:
        raise BadSettings("gates are checked by ragassay.gate", where="gates")
    configuration = configured(data, options)
    check_baseline(options.get("baseline"), configuration)
    inputs = inputs_by_dataset(configuration, reporter)
    runtime = runtime_for(*inputs.values())
    result = await completed(runtime, begin(runtime, configuration, inputs), reporter)
    for about, report in result.items() if isinstance(result, Benchmark) else [("", result)]:
        notice_unscored(report, reporter, about and f"{about}: ")
    for path in configuration.output:
        result.save(path)
    return result
