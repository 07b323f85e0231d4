"""A run in a folder that one process works on from beginning to end: started, or resumed after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

from ragassay.core.aio import ignore, together
from ragassay.core.errors import BudgetReached, Conflict
from ragassay.core.eval_config import Budget, RunConfig
from ragassay.core.models import Response, Sample, Usage
from ragassay.core.protocols import Call, Journal
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.embeddings import unavailable
from ragassay.evaluation.aggregate import finish
from ragassay.evaluation.evaluate import log_start, work
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.outage import through_outages
from ragassay.evaluation.prepare import check_names, check_unchanged, describe, prepare
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.custom import JUDGES
from ragassay.llm.budget import BudgetAccount
from ragassay.llm.journal import CallScope
from ragassay.storage.folder import LAST, FolderRun, FolderStore, new_run_id
from ragassay.storage.journal import CallCache, FolderJournal
from ragassay.storage.protocol import RunRecord
from ragassay.systems.builtin import BuiltIn
from ragassay.systems.runner import LiveSystem


def start(
    runtime: Runtime, spec: RunConfig, inputs: Inputs, kind: Literal["evaluation", "agreement"] = "evaluation"
) -> FolderRun:
    """A new run, written down and not begun; raises what ``prepare`` raises, and DiskFull."""
    record = prepare(spec, inputs, new_run_id(spec.name or inputs.dataset.name))
    return create(runtime, record.model_copy(update={"kind": kind}), inputs)


def create(runtime: Runtime, record: RunRecord, inputs: Inputs) -> FolderRun:
    """Write a run down that is prepared; raises DiskFull, and what making its judge and indexes raises."""
    return FolderStore(runtime.settings.home).create(
        record, inputs.samples, inputs.responses(), described=lambda record: describe(runtime, record)
    )


def resume(settings: Settings, reference: str) -> FolderRun:
    """An earlier run, its files checked as strictly as input is; raises NotFound, BadData and Conflict.

    Raises Conflict for ``last`` if the newest run was killed before its inputs were written.
    """
    store = FolderStore(settings.home)
    if reference == LAST and (interrupted := store.interrupted_start()):
        what = f"run {interrupted} was interrupted before it began, or begins just now"
        raise Conflict(what, hint="start it again, or name an earlier run")
    run = store.open(reference)
    run.check()
    check_names(run.record, run.folder / "run.json")
    run.evaluate_failed_again()
    return run


async def complete(
    runtime: Runtime,
    run: FolderRun,
    *,
    budget: Budget | None = None,
    outage_timeout_s: float | None = None,
    done: Callable[[int], object] = ignore,
    warn: Callable[[str], object] = ignore,
    waiting: Callable[[str], object] = ignore,
    others: Sequence[FolderRun] = (),
) -> ReportWithResults:
    """Do what is left of a run, and keep its report. ``budget`` and ``outage_timeout_s`` take the place of the run's own.

    ``others``: runs that spend from the same budget. ``done`` is called with the number of further rows done, as calls are
    answered; ``warn`` with what the run can't do; ``waiting`` with each outage that it waits for. Raises Conflict while
    another process works on the run, BudgetReached with its calls of unknown outcome, DiskFull, and what
    ``work_through`` raises.
    """
    spec, limits = run.record.spec, budget or run.record.spec.budget
    with ExitStack() as stack:
        stack.enter_context(run.locked())
        cache = None
        if spec.performance.cache:
            cache = CallCache(runtime.settings.home / "cache" / "calls.sqlite", warn)
            stack.callback(cache.close)
        elsewhere = Usage.total([_spent_by(other) for other in others]) if limits != Budget() else Usage()
        account = BudgetAccount(limits, elsewhere)
        journal = FolderJournal(run.folder / "calls.jsonl", run=run.folder.name, cache=cache, shared=account)
        stack.callback(journal.close)
        run.forgotten = journal.forgotten
        if run.pending():
            for line in _warnings(spec, run.record.metrics, runtime.settings):
                warn(line)
            check_unchanged(runtime, run.record)
        progress = RowProgress(done)
        watched = CallScope(journal, answered=progress.replied)

        def finished(rows: int) -> None:
            progress.finished(rows)
            journal.ask_again(run.without_verdict)

        try:
            answered = progress.row if spec.is_local else ignore
            await work_through(runtime, run, watched, finished, waiting, outage_timeout_s, answered)
        except BudgetReached as reached:
            reached.unknown = journal.unknown
            raise
        return finish(run, journal.unknown.uncertain_calls)


def _spent_by(run: FolderRun) -> Usage:
    with run.locked():
        journal = FolderJournal(run.folder / "calls.jsonl", run=run.folder.name)
        journal.close()
        return journal.spent


def _warnings(spec: RunConfig, metrics: Sequence[str], settings: Settings) -> Iterator[str]:
    """What the judges of a specification can't do."""
    judges = [one.model for one in spec.judges]
    if spec.criteria and spec.is_local:
        yield f"the judge {judges[0]} can't judge criteria ({', '.join(spec.criteria)}); a model can"
    if "answer_accuracy" in (spec.metrics or ()):
        yield "answer_accuracy is read as semantic_similarity; RAGAS's metric of this name asks a judge, as correctness does"
    if "semantic_similarity" in metrics and (why := unavailable(spec.embeddings or settings.embeddings)):
        yield f"no semantic_similarity is computed: {why}"
    if spec.judge_prompt:
        for judge in judges:
            if judge in JUDGES or spec.is_local:
                yield f"the judge {judge} reads no prompt ({spec.judge_prompt.name}); a model does"


async def work_through(
    runtime: Runtime,
    run: FolderRun,
    journal: Journal,
    done: Callable[[int], object] = ignore,
    waiting: Callable[[str], object] = ignore,
    outage_timeout_s: float | None = None,
    answered: Callable[[str, str], object] = ignore,
) -> None:
    """Work on all chunks that have no results, many at once; ``done`` is called with the rows of each.

    Systems answer all their queries first, then the answers are judged, as recorded ones: a system is measured while
    nothing else runs. ``answered`` is called with system and query of each answer. ``waiting`` is called with a line on each
    outage; after ``outage_timeout_s``, else that of the specification, the rows left get its error as their reason. A system
    that is called is none of the judge's provider, so it is asked once, outage or not.
    """
    record = run.record
    log_start(record, list(record.systems))
    if not run.pending():
        return
    sources = {name: source for name, source in record.systems.items() if source.called}
    called = runtime.systems(sources, runtime.scoring_of(record), journal).values()
    try:
        await together([_answer_all(run, system, answered) for system in called])
    finally:
        for system in called:
            await system.close()
    await through_outages(
        lambda used: _work_on_pending(runtime, run, used, done, answered),
        journal,
        outage_timeout_s or record.spec.performance.provider_outage_timeout_s,
        waiting,
    )


async def _work_on_pending(
    runtime: Runtime,
    run: FolderRun,
    journal: Journal,
    done: Callable[[int], object],
    answered: Callable[[str, str], object],
) -> None:
    """Have the built-in systems answer, then judge and score the chunks without results."""
    record = run.record
    config = runtime.scoring_of(record)
    sources = {name: source for name, source in record.systems.items() if source.built}
    for system in runtime.systems(sources, config, journal).values():
        await _answer_all(run, system, answered)
    chunks = iter(run.pending())

    async def worker() -> None:
        for chunk in chunks:
            try:
                await work(run, chunk, config, journal)
            except BaseException:
                list(chunks)  # no further chunk is begun; those in flight end first, their calls may be paid
                raise
            done(record.rows_in(chunk))

    await together([worker() for _ in range(2 + record.spec.performance.concurrency // max(record.chunk_size // 2, 1))])


async def _answer_all(run: FolderRun, system: BuiltIn | LiveSystem, answered: Callable[[str, str], object]) -> None:
    """Keep a system's responses to the pending rows in the run, each as it comes; what is there is not asked again."""
    with run.answering(system.name) as (rows, keep):

        def kept(row: Sample, response: Response | None) -> None:
            keep(row, response)
            answered(system.name, row.query_id)

        await system.query_all(rows, kept)


class RowProgress:
    """Reports rows to ``done`` ahead of their chunks, each once; ``finished`` reports what is left of a chunk at its end."""

    def __init__(self, done: Callable[[int], object]) -> None:
        self._done, self._ahead = done, 0
        self._rows: set[tuple[str, str]] = set()

    def row(self, system: str, query_id: str) -> None:
        """A row is done but for what takes no time."""
        if (system, query_id) not in self._rows:
            self._rows.add((system, query_id))
            self._ahead += 1
            self._done(1)

    def replied(self, call: Call) -> None:
        """A call has a reply, now or from before. Its id begins with the system's name."""
        if call.purpose == "judge":
            self.row(call.id.partition("/")[0], call.query_id)

    def finished(self, rows: int) -> None:
        """A chunk of so many rows is done: report as many as are not reported yet."""
        reported = min(self._ahead, rows)
        self._ahead -= reported
        if rows > reported:
            self._done(rows - reported)
