"""``ragassay gate``: does a run clear the thresholds of the configuration?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.configured import Plugins
from ragassay.errors import BadSettings, GateFailed, NotFound

if TYPE_CHECKING:
    from ragassay.config import Configuration
    from ragassay.documents import Report
    from ragassay.gates import GateReport
    from ragassay.settings import Settings

Config = Annotated[Path | None, typer.Argument(metavar="[CONFIG]", help="Configuration with gates. [./ragassay.yaml]")]
RunName = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="Check this run, report file or job; 'last' works. [evaluate]"),
]
BaselineName = Annotated[
    str | None, typer.Option("--baseline", metavar="RUN|FILE", help="What drops are measured from; RUN#SYSTEM works.")
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
    from ragassay import gates
    from ragassay.cli.configured import configured
    from ragassay.cli.evaluate import refuse_unscored
    from ragassay.cli.reports import open_report
    from ragassay.gates.output import EXPORTERS
    from ragassay.render import json_document
    from ragassay.settings import Settings

    settings, outputs = Settings(), output or []
    for path in outputs:
        EXPORTERS.for_file(path)
    configuration = configured(config, {"baseline": baseline, "plugins": plugin}, evaluates=run is None)
    if not configuration.gates:
        hint = "add some, such as gates: [{mrr: '>= 0.7'}]"
        raise BadSettings("the configuration has no gates", where=str(config) if config else None, hint=hint)
    earlier, system = _baseline(configuration)
    report = open_report(run) if run else _evaluate(settings, configuration, quiet=as_json)
    of_gates = configuration.statistics.of_gates
    results = gates.check(report, configuration.gates, earlier, baseline_system=system, **of_gates)
    for caution in results.cautions:
        typer.echo(f"warning: the baseline was not measured alike: {caution}", err=True)
    for path in outputs:
        EXPORTERS.write(results, path)
    if as_json:
        typer.echo(json_document(results), nl=False)
    else:
        _print(results)
    for result in results.missed:
        typer.echo(f"error: {result.system}{f', {result.slice}' if result.slice else ''}: {result.reason}", err=True)
    refuse_unscored(report, configuration.max_missing)
    if results.missed:
        raise GateFailed(f"{len(results.missed)} of {len(results.results)} gates missed")


def _baseline(configuration: Configuration) -> tuple[Report | None, str | None]:
    """The baseline's report where a gate needs one, and the system of it that was named."""
    from ragassay.cli.reports import chosen
    from ragassay.gates import about_a_drop

    without = about_a_drop(configuration.gates)
    if without is None:
        return None, None
    if configuration.baseline is None:
        raise BadSettings(without, hint="give --baseline RUN or FILE")
    report, system = chosen(configuration.baseline)
    if system and system not in report.systems:
        what = f"{configuration.baseline.removesuffix(f'#{system}')} has no system {system!r}"
        raise NotFound(what, hint=f"it has: {', '.join(report.systems)}")
    return report, system


def _evaluate(settings: Settings, configuration: Configuration, *, quiet: bool) -> Report:
    from ragassay.cli import evaluate
    from ragassay.exporters import EXPORTERS
    from ragassay.runs import foreground

    for path in configuration.output:
        EXPORTERS.for_file(path)
    session = evaluate.session_of(settings)
    run = foreground.start(session, settings, configuration.to_job_spec(), evaluate.read(configuration))
    report = evaluate.complete(session, settings, run, quiet=quiet)
    for path in configuration.output:
        EXPORTERS.write(report, path)
    return report


def _print(report: GateReport) -> None:
    compared = f", baseline {report.baseline}" if report.baseline else ""
    typer.echo(f"run {report.run} on {report.dataset}{compared}\n")
    for result in report.results:
        typer.echo(f"{'passed' if result.passed else 'MISSED'}  {result.name}\n        {result.reason}")
    missed = len(report.missed)
    total = len(report.results)
    typer.echo(f"\n{missed} of {total} gates missed" if missed else f"\nall {total} gates passed")
