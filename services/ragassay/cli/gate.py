"""``ragassay gate``: does a run clear the thresholds of the configuration?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.options import Plugins, configured
from ragassay.cli.terminal import print_json
from ragassay.core.errors import GateFailed, NotFound

if TYPE_CHECKING:
    from ragassay.analysis.gates import GateReport

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
    from ragassay.cli.running import Terminal, refuse_unscored
    from ragassay.reporting.gates import EXPORTERS
    from ragassay.sdk.gate import check

    EXPORTERS.check(output or ())
    if config is None and configurations.find(Path()) is None:
        what = f"there is no {configurations.FILE_NAME} in this folder"
        raise NotFound(what, hint="name a configuration: ragassay gate FILE; ragassay info init writes one")
    configuration = configured(config, {"baseline": baseline, "plugins": plugin})
    results, report = check(configuration, Terminal(quiet=as_json), run=run, where=str(config) if config else None)
    for path in output or ():
        EXPORTERS.write(results, path)
    if as_json:
        print_json(results)
    else:
        _print(results)
    refuse_unscored(report, configuration.max_missing)
    if results.missed:
        raise GateFailed(f"{len(results.missed)} of {len(results.results)} gates missed")


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
