"""The one run driver: prepare, work, finish. The command line, Python and the workers call the same three functions.

``prepare`` resolves every name and chooses the metrics; its record is written down by the store that keeps the run.
``work`` evaluates one chunk and commits it. ``finish`` aggregates all results into the report.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from ragassay.core.errors import BadSettings, BudgetReached, DiskFull, NothingToEvaluate, ProviderDown
from ragassay.core.models import Sample, Usage
from ragassay.core.protocols import Journal, System
from ragassay.core.report import ReportWithResults
from ragassay.core.specification import JobSpec
from ragassay.evaluation.aggregate import aggregate
from ragassay.evaluation.engine import Plan, assess, respond
from ragassay.evaluation.outage import through_outages
from ragassay.evaluation.plan import Inputs, choose_metrics, plan
from ragassay.evaluation.provenance import provenance, with_tools
from ragassay.evaluation.runtime import Runtime
from ragassay.llm import together
from ragassay.metrics.composite import check_own, own_metrics
from ragassay.metrics.metric import parse
from ragassay.storage.folder import FolderRun
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord, RunStore
from ragassay.systems.base import Recorded
from ragassay.systems.builtin import BuiltIn
from ragassay.systems.runner import LiveSystem

logger = logging.getLogger("ragassay")
T = TypeVar("T")


def prepare(spec: JobSpec, inputs: Inputs, run_id: str) -> RunRecord:
    """What a new run evaluates; builds nothing, so that a light process can accept a run for others to work on.

    Raises NothingToEvaluate when no system has a response or no metric its input, UnknownName and BadSettings.
    """
    check_own(spec)
    joined = inputs.joined()
    if not any(sample.response for rows in joined.values() for sample in rows):
        raise NothingToEvaluate(
            "no row has a response", where=inputs.dataset.name, hint="name a system: --system NAME=FILE or NAME=URL"
        )
    responses = (sample.response for rows in joined.values() for sample in rows)
    if spec.references and any(one.reference_labels for one in responses if one):
        raise BadSettings("labels and a reference judge both correct the means", hint="leave one of them out")
    metrics = choose_metrics(spec, joined)
    return RunRecord(
        id=run_id,
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        spec=spec,
        metrics=tuple(metric.name for metric in metrics),
        dataset=inputs.dataset,
        systems={name: system.source for name, system in inputs.systems.items()},
        chunk_size=rows_at_once(spec),
    )


def rows_at_once(spec: JobSpec) -> int:
    """How many rows a chunk has. A model judges in rounds of ``concurrency`` calls: whole ones, for in the last round of a chunk
    the other slots are empty.
    """
    if spec.is_local:
        return spec.batch
    return -(-spec.batch // spec.concurrency) * spec.concurrency


def describe(runtime: Runtime, record: RunRecord, journal: Journal) -> RunRecord:
    """The record with what judges and answers here: the judge's settings, and the models of built-in systems."""
    tools = runtime.tools(record.spec, journal)
    systems = dict(record.systems)
    for name, system in runtime.systems(systems, tools).items():
        source = systems[name]
        if source.built is not None and isinstance(system, BuiltIn):
            known = {"models": system.models, "index_bytes": system.retriever.index_bytes}
            systems[name] = source.model_copy(update={"built": source.built.model_copy(update=known)})
    return with_tools(record.model_copy(update={"systems": systems}), tools)


def check_unchanged(runtime: Runtime, record: RunRecord, journal: Journal) -> None:
    """Raise BadSettings when what judges or answers now is not what did before the interruption."""
    now = describe(runtime, record, journal)
    for name, source in now.systems.items():
        if source != record.systems[name]:
            raise BadSettings(
                f"run {record.id} can't be resumed: the models or the index of {name!r} changed since it began",
                hint="start a new run",
            )
    changed = [
        key for key in ("judge", "embeddings", "code_digest", "plugins") if getattr(now, key) != getattr(record, key)
    ]
    if changed:
        raise BadSettings(
            f"run {record.id} can't be resumed: its {' and '.join(changed)} changed since it began",
            hint="numbers of both would be mixed; start a new run (finished calls are taken from the cache)",
        )


async def work(
    runtime: Runtime,
    run: RunStore,
    chunk: ChunkId,
    journal: Journal,
    systems: Mapping[str, System] | None = None,
) -> Outcome:
    """Evaluate one chunk of one system and commit it; ``last`` when the run needs no further chunk.

    ``systems``: those that answer now; any other has its responses in the run. Raises BudgetReached, and errors of
    configuration that every sample would meet.
    """
    record = run.record
    samples = run.samples(chunk)
    tools = runtime.tools(record.spec, journal)
    planned = _planned(record)
    system = (systems or {}).get(chunk.system)
    if system is None:
        responses = {sample.query_id: sample.response for sample in samples if sample.response}
        system = Recorded(chunk.system, responses, measured=record.systems[chunk.system].built is not None)
    answered = await respond(samples, system, planned, tools)
    results = await assess(answered, chunk.system, planned, tools)
    return run.commit(chunk, results)


async def work_through(
    runtime: Runtime,
    run: FolderRun,
    journal: Journal,
    done: Callable[[int], object] = int,
    waiting: Callable[[str], object] = str,
    give_up_s: float | None = None,
) -> None:
    """Work on all chunks that have no results, many at once; ``done`` is called with the rows of each.

    Systems answer all their queries first, then the answers are judged: a system is measured while nothing else runs.
    ``waiting`` is called with a line on each outage; after ``give_up_s``, else that of the specification, the rows left get its
    error as their reason.
    """
    log_start(run.record, list(run.record.systems))
    await through_outages(
        lambda used: _work_on_pending(runtime, run, used, journal, done),
        journal,
        give_up_s or run.record.spec.give_up_s,
        waiting,
    )


async def _work_on_pending(
    runtime: Runtime, run: FolderRun, journal: Journal, asks: Journal, done: Callable[[int], object]
) -> None:
    """Work on the chunks without results.

    ``asks``: the journal of systems that are called. They are none of the judge's provider, so they are asked whether that
    one fails or not, and what they answer says nothing of it.
    """
    record, pending = run.record, run.pending()
    built_in: list[BuiltIn] = []
    called: dict[str, LiveSystem] = {}
    for name, source in record.systems.items() if pending else ():
        calls = journal if source.called is None else asks
        for system in runtime.systems({name: source}, runtime.tools(record.spec, calls)).values():
            if isinstance(system, LiveSystem):
                called[name] = system
            else:
                built_in.append(system)
    at_once = asyncio.Semaphore(2 + record.spec.concurrency // max(record.chunk_size // 2, 1))
    disk_is_full = False

    async def one(chunk: ChunkId) -> None:
        nonlocal disk_is_full
        async with at_once:
            if disk_is_full:
                return
            try:
                await work(runtime, run, chunk, journal, called)
            except DiskFull:
                disk_is_full = True
                raise
            done(record.rows_in(chunk))

    def samples(system: str) -> Iterator[Sample]:
        return (sample for chunk in pending if chunk.system == system for sample in run.samples(chunk))

    try:
        await all_or_cancel_the_rest([live.query_all(samples(name)) for name, live in called.items()])
        for one_system in built_in:
            await _answer_all(run, one_system, pending)
        await all_or_cancel_the_rest([one(chunk) for chunk in pending])
    finally:
        for live in called.values():
            await live.close()


async def _answer_all(run: FolderRun, system: BuiltIn, chunks: Sequence[ChunkId]) -> None:
    """Keep a built-in system's responses to these rows in the run, but where one without an error is there."""
    with run.answering(system.name) as keep:

        async def answer(sample: Sample) -> None:
            keep(sample.query_id, await system.respond(sample))

        for chunk in chunks:
            rows = run.samples(chunk) if chunk.system == system.name else []
            await together([answer(row) for row in rows if row.response is None or row.response.error is not None])


async def all_or_cancel_the_rest(coroutines: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """What all return; when one fails, the others are cancelled and its error is raised."""
    tasks = [asyncio.create_task(one) for one in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except (BudgetReached, DiskFull, ProviderDown):
        await asyncio.gather(*tasks, return_exceptions=True)  # their calls in flight are paid already
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def finish(run: RunStore, uncertain_calls: int) -> ReportWithResults:
    """Aggregate the results into the report, and keep it. The record must say what judges.

    ``uncertain_calls``: all requests of the run with an unknown outcome; those that no row counts are interrupted calls.
    """
    record = run.record
    results = {system: run.rows(system) for system in record.systems}
    report = aggregate(
        record.id,
        record.created_at,
        provenance(record),
        results,
        expected=record.dataset.rows,
    )
    counted = sum(system.evaluation.waste.uncertain_calls for system in report.systems.values())
    if uncertain_calls > counted:
        report = report.model_copy(update={"interrupted": Usage(uncertain_calls=uncertain_calls - counted)})
    run.save_report(report)
    return ReportWithResults.of(report, results)


def _planned(record: RunRecord) -> Plan:
    """What to compute for every sample of a run."""
    own = own_metrics(record.spec)
    return plan(record.spec, [parse(name, own) for name in record.metrics])


def log_start(record: RunRecord, systems: Sequence[str]) -> None:
    """Log that an evaluation begins."""
    queries, names = record.dataset.rows, ", ".join(systems)
    about = {"event": "evaluation_started", "run": record.id, "queries": queries, "systems": names}
    logger.info("evaluation of %d queries starts: %s, systems %s", queries, record.id, names, extra=about)
