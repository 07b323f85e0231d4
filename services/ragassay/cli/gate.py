"""``ragassay gate``: does a run clear the thresholds of the configuration?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    as_json: AsJson = False,
) -> None:
    """Evaluate, or take a run, and check the gates of the configuration; exit code 1 when one is missed."""
    from ragassay import comparison, gates
    from ragassay.cli.configured import configured
    from ragassay.cli.evaluate import refuse_unscored
    from ragassay.cli.reports import open_report
    from ragassay.gates import files
    from ragassay.settings import Settings

    settings, outputs = Settings(), output or []
    for path in outputs:
        files.writer_for(path)
    configuration = configured(config, {"baseline": baseline})
    if not configuration.gates:
        hint = "add some, such as gates: [{mrr: '>= 0.7'}]"
        raise BadSettings("the configuration has no gates", where=str(config) if config else None, hint=hint)
    earlier, system = _baseline(configuration)
    report = open_report(run) if run else _evaluate(settings, configuration, quiet=as_json)
    for caution in comparison.cautions(report, earlier, system) if earlier else ():
        typer.echo(f"warning: the baseline was not measured alike: {caution}", err=True)
    of_gates = configuration.statistics.of_gates
    found = gates.check(report, configuration.gates, earlier, baseline_system=system, **of_gates)
    for path in outputs:
        files.write(found, path)
    if as_json:
        sys.stdout.buffer.write(files.json(found))
        sys.stdout.buffer.flush()
    else:
        _print(found)
    for result in found.missed:
        typer.echo(f"error: {result.system}{f', {result.slice}' if result.slice else ''}: {result.reason}", err=True)
    refuse_unscored(report, configuration.max_missing)
    if found.missed:
        raise GateFailed(f"{len(found.missed)} of {len(found.results)} gates missed")


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
        what = f"{configuration.baseline.rpartition('#')[0]} has no system {system!r}"
        raise NotFound(what, hint=f"it has: {', '.join(report.systems)}")
    return report, system


def _evaluate(settings: Settings, configuration: Configuration, *, quiet: bool) -> Report:
    from ragassay import exporters
    from ragassay.cli import evaluate

    for path in configuration.output:
        exporters.exporter_for(path)
    run = evaluate.start(settings, configuration.to_job_spec(), *evaluate.read(configuration))
    report = evaluate.work(run, settings, quiet=quiet)
    for path in configuration.output:
        exporters.export(report, path)
    return report


def _print(found: GateReport) -> None:
    compared = f", baseline {found.baseline}" if found.baseline else ""
    typer.echo(f"run {found.run} on {found.dataset}{compared}\n")
    for result in found.results:
        typer.echo(f"{'passed' if result.passed else 'MISSED'}  {result.name}\n        {result.reason}")
    missed = len(found.missed)
    total = len(found.results)
    typer.echo(f"\n{missed} of {total} gates missed" if missed else f"\nall {total} gates passed")
