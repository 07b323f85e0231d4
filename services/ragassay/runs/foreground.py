"""A run in a folder that one process works on from beginning to end: started, or resumed after an interruption."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragassay.documents import Report
from ragassay.errors import BadData, BadInput, BadSettings, BudgetReached, DiskFull
from ragassay.judges.registered import JUDGES
from ragassay.ledger import BudgetLedger, MemoryLedger, RowsLedger
from ragassay.metrics import parse
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.own import own_metrics
from ragassay.registry import imported
from ragassay.runs.plan import Inputs
from ragassay.runs.runner import check_unchanged, describe, finish, prepare, work_through
from ragassay.runs.session import Session
from ragassay.runs.turns import Turns
from ragassay.settings import Settings
from ragassay.specification import Budget, JobSpec
from ragassay.store.folder import FolderRun, FolderStore
from ragassay.store.ledger import CallCache, FolderLedger
from ragassay.store.protocol import RunRecord
from ragassay.store.run_ids import new_run_id
from ragassay.strategies.options import SystemConfig
from ragassay.validation import problems


def start(session: Session, settings: Settings, spec: JobSpec, inputs: Inputs) -> FolderRun:
    """A new run, written down and not begun; raises what ``prepare`` raises, and DiskFull."""
    return create(session, settings, prepare(spec, inputs, new_run_id(spec.name or inputs.dataset.name)), inputs)


def create(session: Session, settings: Settings, record: RunRecord, inputs: Inputs) -> FolderRun:
    """Write a run down that is prepared; raises DiskFull, and what making its judge and indexes raises."""
    described = describe(session, record, MemoryLedger())
    return FolderStore(settings.home).create(described, inputs.samples, inputs.responses())


def resume(
    settings: Settings, reference: str, *, api_base: str | None = None, go_on: str = "--resume RUN"
) -> FolderRun:
    """An earlier run, its files checked as strictly as what comes in.

    ``go_on``: the option of the command, for what is said of an error. Where rows are left, requests go to
    RAGASSAY_API_BASE and to ``api_base`` only: an address in run.json has to be one of the two, since a key is sent
    there. Raises NotFound, BadData and BadSettings.
    """
    run = FolderStore(settings.home).open(reference)
    run.check()
    where = run.folder / "run.json"
    _check_rules(run.record, where)
    addresses = _addresses(run)
    if api_base is not None and api_base.rstrip("/") not in addresses:
        known = ", ".join(addresses) or "no address of its own"
        raise BadSettings(f"the run has {known}, not {api_base}", where="--api-base", hint="leave it out")
    trusted = {address.rstrip("/") for address in (api_base, settings.api_base) if address}
    if run.pending() and (others := [address for address in addresses if address not in trusted]):
        raise BadSettings(
            f"{where}: the run would send its requests, and a key, to {others[0]}",
            hint=f"where you trust that address, repeat it: {go_on} --api-base URL",
        )
    return run


def resume_command(run: FolderRun, settings: Settings, command: str | None = None) -> str:
    """What goes on with the run on the command line, or with what it belongs to by another ``command``."""
    own = (settings.api_base or "").rstrip("/")
    repeated = [f" --api-base {shlex.quote(address)}" for address in _addresses(run) if address != own]
    plugins = [f" --import {shlex.quote(name)}" for name in imported()]
    return f"{command or f'ragassay evaluate --resume {run.record.id}'}{''.join([*repeated[:1], *plugins])}"


@dataclass(frozen=True)
class Together:
    """What runs have in common that one process works on at the same time.

    ``opened`` is passed once the calls of all of them so far are read. ``go_on``: the command that resumes all.
    """

    opened: asyncio.Barrier
    go_on: str
    budget: BudgetLedger | None
    turns: Turns = field(default_factory=Turns)


def complete(session: Session, settings: Settings, run: FolderRun, **options: Any) -> Report:
    """``acomplete`` for who has no event loop; with the same options."""
    return asyncio.run(acomplete(session, settings, run, **options))


async def acomplete(
    session: Session,
    settings: Settings,
    run: FolderRun,
    *,
    budget: Budget | None = None,
    give_up_s: float | None = None,
    done: Callable[[int], object] = int,
    notice: Callable[[str], object] = str,
    together: Together | None = None,
) -> Report:
    """Do what is left of a run, and keep its report. ``budget`` and ``give_up_s`` take the place of the run's own.

    ``together``: what it has in common with other runs, whose budget then counts. ``done`` is told how many more rows
    are done, as calls are answered; ``notice``, in a line each, what the user should know meanwhile. Raises Conflict
    while another process works on it, BudgetReached, DiskFull, and what ``work_through`` raises.
    """
    record, turns = run.record, together.turns if together else Turns()
    if record.spec.criteria and record.spec.judge == "local" and run.pending():
        notice(
            f"warning: the local judge can't judge criteria ({', '.join(record.spec.criteria)}); a model can: --judge"
        )
    if (prompt := record.spec.judge_prompt) and run.pending():
        for judge in record.spec.judges:
            if judge == "local" or judge in JUDGES:
                notice(f"warning: the judge {judge} reads no prompt ({prompt.name}); a model does")
    go_on = together.go_on if together else resume_command(run, settings)
    with ExitStack() as opened:
        try:
            async with _all_opened(together):
                opened.enter_context(run.locked())
                cache = None
                if record.spec.cache:
                    cache = CallCache(settings.home / "cache" / "calls.sqlite", lambda why: notice(f"warning: {why}"))
                    opened.callback(cache.close)
                log, most = run.folder / "calls.jsonl", budget or record.spec.budget
                shared = together.budget if together else None
                ledger = FolderLedger(log, run=run.folder.name, cache=cache, budget=most, shared=shared)
                opened.callback(ledger.close)
                if run.pending():
                    check_unchanged(session, record, ledger)
                left, judged = sum(map(record.rows_in, run.pending())), record.spec.judge != "local"
                each: int = len(record.spec.judges) * record.spec.repeat if judged else 1
                if judged and record.spec.judge_mode == "probe":
                    each = sys.maxsize  # calls of a row are not known before: it counts with its chunk
                told = RowsLedger(ledger, done, left, "judge" if judged else "answer", each)
            await work_through(
                session, run, told, told.finished, lambda why: notice(f"waiting: {why}"), give_up_s, turns
            )
            async with turns.computing():
                return finish(run, ledger.interrupted)
        except BudgetReached as reached:
            option = "--budget-usd" if " USD " in reached.message else "--budget-tokens"
            if killed := ledger.interrupted.uncertain_calls:
                tokens = ledger.held.input_tokens + ledger.held.output_tokens
                held = f"{ledger.held.cost_usd or 0:.4f} USD" if option == "--budget-usd" else f"{tokens:,}"
                calls = "call that was" if killed == 1 else "calls that were"
                reached.message += f", {held} of it held for {killed} {calls} in flight when a process was killed"
            reached.hint = f"what is finished is kept: {go_on} {option} MORE"
            raise
        except DiskFull as full:
            full.hint = f"what is finished is kept; make room, then: {go_on}"
            raise


@asynccontextmanager
async def _all_opened(together: Together | None) -> AsyncIterator[None]:
    """A section at whose end runs wait for each other; where one fails in it, the wait of all others is broken."""
    try:
        yield
    except BaseException:
        if together:
            await together.opened.abort()
        raise
    if together:
        await together.opened.wait()


def _check_rules(record: RunRecord, where: Path) -> None:
    """Raise BadData for a metric or a rule that can't be read."""
    try:
        own = own_metrics(record.spec)
    except BadInput as error:
        raise BadData([f"{where}: spec.{error.where}: {error.message}"], hint=error.hint) from None
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


def _addresses(run: FolderRun) -> list[str]:
    """The addresses of its own that a run sends requests to, its judge's first; raises BadData for a record that can't be."""
    record, where = run.record, run.folder / "run.json"
    addresses = [record.spec.api_base] if record.spec.judge != "local" else []
    for name, source in record.systems.items():
        if source.called is not None:
            called = source.called.configuration
            addresses += [str(called.get("url"))] if "${" in str(called.get("headers")) else []  # a key is sent there
        if source.built is not None:
            try:
                answer = SystemConfig.model_validate(source.built.configuration).answer
            except ValidationError as error:
                place = f"systems.{name}.built.configuration"
                raise BadData([f"{where}: {place}.{problems(error)[0]}"], hint="the run's folder is damaged") from None
            if answer is not None and answer != "extractive":
                addresses.append(answer.api_base)
    return list(dict.fromkeys(address.rstrip("/") for address in addresses if address))
