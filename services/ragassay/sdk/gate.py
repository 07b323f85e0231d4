"""Does a run clear its gates? One call from rows, or from a run that is there, to the result of each gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from ragassay.analysis import gates as gating
from ragassay.analysis.gates import Gate, GateReport
from ragassay.config import ProjectConfig
from ragassay.core.errors import BadSettings, NotFound
from ragassay.core.formatting import json_document
from ragassay.core.report import ReportWithResults, Source, run_and_system
from ragassay.core.settings import Settings
from ragassay.evaluation.labelling import report_of
from ragassay.evaluation.prepare import choose_metrics
from ragassay.metrics.composite import custom_metrics
from ragassay.reporting.gates import log_missed
from ragassay.reporting.objects import Gates
from ragassay.sdk.evaluation import (
    check_outputs,
    configured,
    evaluated,
    notice_unscored,
    read_inputs,
    runtime_for,
)
from ragassay.sdk.loop import finished
from ragassay.sdk.options import EvalOptions
from ragassay.sdk.progress import Reporter
from ragassay.sdk.references import resolve
from ragassay.storage.folder import LAST_PASSED, FolderStore


def gate(
    data: Any = None,
    *,
    gates: Sequence[Mapping[str, Any]] | None = None,
    baseline: str | None = None,
    run: str | None = None,
    metrics: Any = None,
    judge: Any = None,
    systems: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Unpack[EvalOptions],
) -> Gates:
    """Evaluate rows, or take a ``run``, and check gates; ``passed`` says whether each of them passed.

    gates: such as [{"mrr": ">= 0.7"}, {"metric": "faithfulness", "max_drop": 0.02}]; default: those of ``config``.
    baseline: what drops are measured from: a run, RUN#SYSTEM, a report file, "last" or "last-passed".
    run: a run's id, "last", a report file or a job, in place of ``data``.
    The other arguments are those of ``evaluate``. Raises what ``evaluate`` raises, and BadSettings without a gate.
    """
    named = {"gates": gates, "baseline": baseline, "metrics": metrics, "judge": judge, "systems": systems}
    configuration = configured(data, {**named, "config": config, **options}, needs_data=run is None)
    reporter = Reporter(progress)
    results, report = check(configuration, reporter, run)
    notice_unscored(report, reporter)
    return Gates(**dict(results))


def check(
    configuration: ProjectConfig,
    reporter: Reporter,
    run: str | None = None,
    where: str | None = None,
) -> tuple[GateReport, ReportWithResults]:
    """The gates of a configuration on a new run, or on ``run``; its report. A run of the home folder keeps the result.

    ``where``: the file of the configuration, for errors. Raises what ``evaluate`` raises, and BadSettings without a gate.
    """
    store = FolderStore(Settings().home)
    if not configuration.gates:
        hint = "add some, such as gates: [{mrr: '>= 0.7'}]"
        raise BadSettings("the configuration has no gates", where=where, hint=hint)
    custom = custom_metrics(configuration)
    report: ReportWithResults
    if run is not None:
        report = resolve(run).report()
        checked, earlier, system = _baseline(store, configuration, reporter, report.provenance.dataset, report.run.id)
        if earlier and earlier.run.id == report.run.id and (system is None or len(report.systems) == 1):
            hint = "name an earlier run, or last-passed; of a run with several systems, one: RUN#SYSTEM"
            raise BadSettings(f"run {report.run.id} can't be its own baseline", where="baseline", hint=hint)
    else:
        check_outputs(configuration.output, several=False)
        read = read_inputs(configuration, reporter)
        computed = [
            metric.name for metric in choose_metrics(configuration.evaluation, read.joined(), read.dataset.name)
        ]
        gating.check_names(configuration.gates, custom, computed, read.systems, read.samples)
        checked, earlier, system = _baseline(store, configuration, reporter, read.dataset)
        _, new = finished(partial(evaluated, runtime_for(read), configuration.evaluation, read, reporter))
        for path in configuration.output:
            new.save(path)
        report = new
    alpha = configuration.statistics.alpha
    if checked:
        results = gating.check(report, checked, earlier, baseline_system=system, alpha=alpha, metrics=custom)
    else:  # the first run of gates that are all on a drop: it is the baseline of the next one
        about = {"run": report.run.id, "baseline": None, "dataset": report.provenance.dataset.name}
        results = GateReport(**about, passed=True, alpha=alpha, results=())
    with suppress(NotFound):  # last-passed is found by what is kept beside a run
        store.open(results.run).save_gates(json_document(results))
    log_missed(results)
    for caution in results.cautions:
        reporter.notice(f"the baseline was not measured alike: {caution}")
    return results, report


def _baseline(
    store: FolderStore, configuration: ProjectConfig, reporter: Reporter, dataset: Source, but: str | None = None
) -> tuple[Sequence[Gate], ReportWithResults | None, str | None]:
    """The gates to check, the baseline's report if one of them needs it, and the system of it that was named.

    ``last-passed`` is the newest run on ``dataset`` that passed, the run ``but`` left out. As long as there is none, gates
    on a drop are left out, with a warning.
    """
    without = gating.about_a_drop(configuration.gates)
    if without is None:
        return configuration.gates, None, None
    if configuration.baseline is None:
        raise BadSettings(without, hint="give --baseline RUN, NAME, FILE, last or last-passed")
    name, system = run_and_system(configuration.baseline, Path())
    if name == LAST_PASSED:
        try:
            report = report_of(store.last_passed(dataset, but=but))
        except NotFound as error:
            reporter.notice(f"{error.message}; gates on a drop are left out this time")
            return gating.without_drops(configuration.gates), None, None
    else:
        report = resolve(configuration.baseline).report()
    if system and system not in report.systems:
        raise NotFound(f"{name} has no system {system!r}", hint=f"it has: {', '.join(report.systems)}")
    return configuration.gates, report, system
