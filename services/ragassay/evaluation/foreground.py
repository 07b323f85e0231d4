"""A run in a folder that one process works on from beginning to end: started, or resumed after an interruption."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ragassay.core.errors import BadData, BadInput, BudgetReached, Conflict, DiskFull
from ragassay.core.models import Usage
from ragassay.core.plugins import imported
from ragassay.core.report import ReportWithResults
from ragassay.core.settings import Settings
from ragassay.core.specification import Budget, JobSpec
from ragassay.core.validation import problems
from ragassay.embeddings import unavailable
from ragassay.evaluation.plan import Inputs
from ragassay.evaluation.progress import RowProgress
from ragassay.evaluation.runner import check_unchanged, describe, finish, prepare, work_through
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.registered import JUDGES
from ragassay.llm.budget import BudgetAccount
from ragassay.llm.journal import CallScope, MemoryJournal
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import parse
from ragassay.storage.folder import LAST, FolderRun, FolderStore
from ragassay.storage.journal import CallCache, FolderJournal
from ragassay.storage.protocol import RunRecord
from ragassay.storage.run_ids import new_run_id
from ragassay.systems.options import SystemConfig


def start(
    runtime: Runtime,
    settings: Settings,
    spec: JobSpec,
    inputs: Inputs,
    kind: Literal["evaluation", "agreement"] = "evaluation",
) -> FolderRun:
    """A new run, written down and not begun; raises what ``prepare`` raises, and DiskFull."""
    record = prepare(spec, inputs, new_run_id(spec.name or inputs.dataset.name))
    return create(runtime, settings, record.model_copy(update={"kind": kind}), inputs)


def create(runtime: Runtime, settings: Settings, record: RunRecord, inputs: Inputs) -> FolderRun:
    """Write a run down that is prepared; raises DiskFull, and what making its judge and indexes raises."""
    return FolderStore(settings.home).create(
        record,
        inputs.samples,
        inputs.responses(),
        described=lambda record: describe(runtime, record, MemoryJournal()),
    )


def resume(settings: Settings, reference: str) -> FolderRun:
    """An earlier run, its files checked as strictly as input is; raises NotFound, BadData and Conflict.

    Raises Conflict for ``last`` if the newest run was killed before its inputs were written.
    """
    store = FolderStore(settings.home)
    if reference == LAST and (interrupted := store.interrupted_start()):
        what = f"run {interrupted} was interrupted before it began, or begins just now"
        raise Conflict(what, hint="start it again; or name an earlier run, ragassay runs lists them")
    run = store.open(reference)
    run.check()
    _check_rules(run.record, run.folder / "run.json")
    run.evaluate_failed_again()
    return run


def resume_command(run: FolderRun, command: str | None = None) -> str:
    """The command line that resumes the run, or with ``command`` the benchmark that it belongs to."""
    plugins = [f" --import {shlex.quote(name)}" for name in imported()]
    return f"{command or f'ragassay evaluate --resume {run.record.id}'}{''.join(plugins)}"


def _spent_by(run: FolderRun) -> Usage:
    """What a run has spent of a budget so far; raises Conflict while another process works on it."""
    with run.locked():
        journal = FolderJournal(run.folder / "calls.jsonl", run=run.folder.name)
        journal.close()
        return journal.spent


async def complete(
    runtime: Runtime,
    settings: Settings,
    run: FolderRun,
    *,
    budget: Budget | None = None,
    give_up_s: float | None = None,
    done: Callable[[int], object] = int,
    notice: Callable[[str], object] = str,
    others: Sequence[FolderRun] = (),
    go_on: str | None = None,
) -> ReportWithResults:
    """Do what is left of a run, and keep its report. ``budget`` and ``give_up_s`` take the place of the run's own.

    ``others``: runs that spend from the same budget. ``go_on``: the command that resumes it, if that is not the run's own.
    ``done`` is called with the number of further rows done, as calls are answered; ``notice`` with each line for the user.
    Raises Conflict while another process works on the run, BudgetReached, DiskFull, and what ``work_through`` raises.
    """
    record, go_on = run.record, go_on or resume_command(run)
    judges = [one.model for one in record.spec.judges]
    if record.spec.criteria and record.spec.is_local and run.pending():
        notice(
            f"warning: the local judge can't judge criteria ({', '.join(record.spec.criteria)}); a model can: --judge"
        )
    if "local" in judges and run.pending() and (why := unavailable(record.spec.embeddings or settings.embeddings)):
        notice(f"warning: the local judge goes by words alone, and no semantic_similarity is computed: {why}")
    if (prompt := record.spec.judge_prompt) and run.pending():
        for judge in judges:
            if judge in JUDGES or record.spec.is_local:
                notice(f"warning: the judge {judge} reads no prompt ({prompt.name}); a model does")
    with ExitStack() as opened:
        try:
            opened.enter_context(run.locked())
            cache = None
            if record.spec.cache:
                cache = CallCache(settings.home / "cache" / "calls.sqlite", lambda why: notice(f"warning: {why}"))
                opened.callback(cache.close)
            log, most = run.folder / "calls.jsonl", budget or record.spec.budget
            elsewhere = Usage.total([_spent_by(other) for other in others]) if most != Budget() else Usage()
            shared = None if most == Budget() else BudgetAccount(most, elsewhere)
            journal = FolderJournal(log, run=run.folder.name, cache=cache, shared=shared)
            opened.callback(journal.close)
            if run.pending():
                check_unchanged(runtime, record, journal)
            left, judged = sum(map(record.rows_in, run.pending())), not record.spec.is_local
            each: int = sum(one.samples for one in record.spec.judges) if judged else 1
            if judged and (record.spec.judge_mode == "probe" or record.spec.references):
                each = sys.maxsize  # calls of a row are not known before: it counts with its chunk
            progress = RowProgress(done, left, "judge" if judged else "answer", each)
            watched = CallScope(journal, answered=progress.answered)
            await work_through(
                runtime, run, watched, progress.finished, lambda why: notice(f"waiting: {why}"), give_up_s
            )
            return finish(run, journal.unknown.uncertain_calls)
        except BudgetReached as reached:
            option = "--budget-usd" if " USD " in reached.message else "--budget-tokens"
            if unknown := journal.unknown.uncertain_calls:
                tokens = journal.unknown.input_tokens + journal.unknown.output_tokens
                held = f"{journal.unknown.cost_usd or 0:.4f} USD" if option == "--budget-usd" else f"{tokens:,}"
                calls = "call" if unknown == 1 else "calls"
                reached.message += f", {held} of it an estimate of {unknown} {calls} with an unknown outcome"
            reached.hint = f"what is finished is kept: {go_on} {option} MORE"
            raise
        except DiskFull as full:
            full.hint = f"what is finished is kept; make room, then: {go_on}"
            raise


def _check_rules(record: RunRecord, where: Path) -> None:
    """Raise BadData for a built-in system, a metric or a rule that can't be read."""
    try:
        own = own_metrics(record.spec)
    except BadInput as error:
        raise BadData([f"{where}: spec.{error.where}: {error.message}"], hint=error.hint) from None
    for name, source in record.systems.items():
        try:
            if source.built is not None:
                SystemConfig.model_validate(source.built.configuration)
        except ValidationError as error:
            place = f"systems.{name}.built.configuration"
            raise BadData([f"{where}: {place}.{problems(error)[0]}"], hint="the run's folder is damaged") from None
    rules: list[tuple[str, Callable[[str], object], str | None]] = [
        *((f"metrics[{n}]", partial(parse, own=own), name) for n, name in enumerate(record.metrics)),
        ("spec.accurate", partial(AccuracyRule.parse, own=own), record.spec.accurate),
    ]
    for place, read, text in rules:
        try:
            if text is not None:
                read(text)
        except BadInput as error:
            raise BadData([f"{where}: {place}: {error.message}"], hint=error.hint) from None
