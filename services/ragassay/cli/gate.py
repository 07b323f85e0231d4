"""``ragassay gate``: does a run clear the thresholds of the configuration?"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.options import Plugins
from ragassay.cli.terminal import print_json
from ragassay.core.errors import BadSettings, GateFailed, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragassay.analysis.gates import Gate, GateReport
    from ragassay.config import ProjectConfig
    from ragassay.core.report import ReportWithResults, Source
    from ragassay.core.settings import Settings
    from ragassay.evaluation.inputs import Inputs
    from ragassay.sdk.progress import Reporter

Config = Annotated[Path | None, typer.Argument(metavar="[CONFIG]", help="Configuration with gates. [./ragassay.yaml]")]
RunName = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="Check this run, report file or job; 'last' works. [evaluate]"),
]
BaselineName = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="RUN|NAME|FILE",
        help="What drops are measured from: a run, the --name of one, last, last-passed, or a report file; "
        "RUN#SYSTEM works.",
    ),
]
Outputs = Annotated[
    list[Path] | None, typer.Option("-o", "--output", metavar="FILE", help="Also write .xml (JUnit), .md, .json.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


def gate(
    config: Config = None,
    run: RunName = None,
    baseline: BaselineName = None,
    output: Outputs = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate, or take a run, and check the gates of the configuration; exit code 1 when one is missed."""
    from ragassay import config as configurations
    from ragassay.analysis import gates
    from ragassay.cli.evaluate import Terminal, refuse_unscored
    from ragassay.cli.options import configured
    from ragassay.core.settings import Settings
    from ragassay.metrics.composite import own_metrics
    from ragassay.reporting import EXPORTERS as REPORTS
    from ragassay.reporting.gates import EXPORTERS, log_missed
    from ragassay.sdk.evaluation import evaluated, finished, runtime_of
    from ragassay.sdk.references import resolve

    settings, outputs = Settings(), output or []
    EXPORTERS.check(outputs)
    if config is None and configurations.find(Path()) is None:
        what = f"there is no {configurations.FILE_NAME} in this folder"
        raise NotFound(what, hint="name a configuration: ragassay gate FILE; ragassay info init writes one")
    configuration = configured(config, {"baseline": baseline, "plugins": plugin})
    if not configuration.gates:
        hint = "add some, such as gates: [{mrr: '>= 0.7'}]"
        raise BadSettings("the configuration has no gates", where=str(config) if config else None, hint=hint)
    if run:
        report = resolve(run).report()
        checked, earlier, system = _baseline(settings, configuration, report.provenance.dataset, but=report.run.id)
        if earlier and earlier.run.id == report.run.id and (system is None or len(report.systems) == 1):
            hint = "name an earlier run, or last-passed; of a run with several systems, one: RUN#SYSTEM"
            raise BadSettings(f"run {report.run.id} can't be its own baseline", where="baseline", hint=hint)
    else:
        REPORTS.check(configuration.output)
        reporter, spec = Terminal(quiet=as_json), configuration.evaluation
        inputs = _checked_inputs(configuration, reporter)
        checked, earlier, system = _baseline(settings, configuration, inputs.dataset)
        _, report = finished(partial(evaluated, runtime_of(settings), settings, spec, inputs, reporter))
        for path in configuration.output:
            REPORTS.write(report, path)
    alpha, own = configuration.statistics.alpha, own_metrics(configuration)
    if checked:
        results = gates.check(report, checked, earlier, baseline_system=system, alpha=alpha, metrics=own)
    else:  # the first run of gates that are all on a drop: it is the baseline of the next one
        about = {"run": report.run.id, "baseline": None, "dataset": report.provenance.dataset.name}
        results = gates.GateReport(**about, passed=True, alpha=alpha, results=())
    _keep(settings, results)
    log_missed(results)
    for caution in results.cautions:
        typer.echo(f"warning: the baseline was not measured alike: {caution}", err=True)
    for path in outputs:
        EXPORTERS.write(results, path)
    if as_json:
        print_json(results)
    else:
        _print(results)
    refuse_unscored(report, configuration.max_missing)
    if results.missed:
        raise GateFailed(f"{len(results.missed)} of {len(results.results)} gates missed")


def _checked_inputs(configuration: ProjectConfig, reporter: Reporter) -> Inputs:
    """What is to be evaluated; raises where it lacks what a gate is about, before anything is evaluated."""
    from ragassay.analysis import gates
    from ragassay.evaluation.prepare import choose_metrics
    from ragassay.metrics.composite import own_metrics
    from ragassay.sdk.evaluation import read_inputs

    inputs = read_inputs(configuration, reporter)
    metrics = [metric.name for metric in choose_metrics(configuration.evaluation, inputs.joined())]
    gates.check_names(configuration.gates, own_metrics(configuration), metrics, inputs.systems, inputs.samples)
    return inputs


def _keep(settings: Settings, results: GateReport) -> None:
    """Beside the run, where it is one of the home folder: ``last-passed`` is found by that."""
    from ragassay.core.formatting import json_document
    from ragassay.storage.folder import FolderStore

    with suppress(NotFound):
        FolderStore(settings.home).open(results.run).save_gates(json_document(results))


def _baseline(
    settings: Settings, configuration: ProjectConfig, dataset: Source, *, but: str | None = None
) -> tuple[Sequence[Gate], ReportWithResults | None, str | None]:
    """The gates to check, the baseline's report if one of them needs it, and the system of it that was named.

    ``last-passed`` is the newest run on ``dataset`` that passed, the run ``but`` left out. As long as there is none, gates
    on a drop are left out, with a warning.
    """
    from ragassay.analysis.gates import about_a_drop, without_drops
    from ragassay.core.report import run_and_system
    from ragassay.sdk.references import resolve
    from ragassay.storage.folder import LAST_PASSED, FolderStore

    without = about_a_drop(configuration.gates)
    if without is None:
        return configuration.gates, None, None
    if configuration.baseline is None:
        raise BadSettings(without, hint="give --baseline RUN, NAME, FILE, last or last-passed")
    reference, system = run_and_system(configuration.baseline, Path())
    if reference == LAST_PASSED:
        from ragassay.evaluation.human_labels import report_of

        try:
            report = report_of(FolderStore(settings.home).last_passed(dataset, but=but))
        except NotFound as error:
            typer.echo(f"warning: {error.message}; gates on a drop are left out this time", err=True)
            return without_drops(configuration.gates), None, None
    else:
        named = resolve(configuration.baseline)
        report, system = named.report(), named.system
    if system and system not in report.systems:
        what = f"{configuration.baseline.removesuffix(f'#{system}')} has no system {system!r}"
        raise NotFound(what, hint=f"it has: {', '.join(report.systems)}")
    return configuration.gates, report, system


def _print(report: GateReport) -> None:
    from textwrap import fill

    from ragassay.reporting.tables import width

    indent = " " * 8
    compared = f", baseline {report.baseline}" if report.baseline else ""
    typer.echo(f"run {report.run} on {report.dataset}{compared}\n")
    for result in report.results:
        typer.echo(f"{'passed' if result.passed else 'MISSED'}  {result.name}\n{indent}{result.reason}")
        if result.worst:
            typer.echo(fill(f"worst: {result.worst_rows}", width(), initial_indent=indent, subsequent_indent=indent))
    missed = len(report.missed)
    total = len(report.results)
    typer.echo(f"\n{missed} of {total} gates missed" if missed else f"\nall {total} gates passed")
