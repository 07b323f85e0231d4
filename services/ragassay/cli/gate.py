"""``ragassay gate``: does a run clear the thresholds of the configuration?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragassay import config as configurations
from ragassay.cli.options import AsJson, Outputs, Plugins, configured
from ragassay.cli.terminal import Terminal, refuse_unscored, show
from ragassay.core.errors import GateFailed, NotFound
from ragassay.reporting.gates import EXPORTERS, of_gates
from ragassay.sdk.gate import check

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


def gate(
    config: Config = None,
    run: RunName = None,
    baseline: BaselineName = None,
    output: Outputs = None,
    plugin: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate, or take a run, and check the gates of the configuration; exit code 1 when one is missed."""
    EXPORTERS.check(output or ())
    if config is None and configurations.find(Path()) is None:
        what = f"there is no {configurations.FILE_NAME} in this folder"
        raise NotFound(what, hint="name a configuration: ragassay gate FILE; ragassay info init writes one")
    configuration = configured(config, {"baseline": baseline, "plugins": plugin})
    results, report = check(configuration, Terminal(quiet=as_json), run=run, where=str(config) if config else None)
    show(results, of_gates, EXPORTERS, output or [], as_json=as_json)
    refuse_unscored(report, configuration.max_failed_share)
    if results.missed:
        raise GateFailed(f"{len(results.missed)} of {len(results.results)} gates missed")
