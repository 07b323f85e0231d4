"""``ragassay gate``: does a run clear the thresholds of the configuration?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ragassay.cli.options import AsJson, Outputs, Plugins, configured
from ragassay.cli.terminal import Terminal, refuse_unscored, show
from ragassay.core.errors import GateFailed, NotFound

Config = Annotated[Path | None, Argument(metavar="[CONFIG]", help="Configuration with gates. [./ragassay.yaml]")]
RunName = Annotated[
    str | None, Option("--run", metavar="RUN", help="Check this run, report file or job; 'last' works. [evaluate]")
]
BaselineName = Annotated[
    str | None,
    Option(
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
    """Check the gates of a configuration; exit code 1 if one is missed.

    It is evaluated first, or --run names a run.
    """
    from ragassay.config import FILE_NAME, find
    from ragassay.reporting.gates import EXPORTERS, of_gates
    from ragassay.sdk.gate import check

    EXPORTERS.check(output or ())
    if config is None and find(Path()) is None:
        hint = "name a configuration: ragassay gate FILE; ragassay info init writes one"
        raise NotFound(f"there is no {FILE_NAME} in this folder", hint=hint)
    configuration = configured(config, {"baseline": baseline, "plugins": plugin})
    results, report = check(configuration, Terminal(quiet=as_json), run=run, where=str(config) if config else None)
    show(results, of_gates, EXPORTERS, output or [], as_json=as_json)
    refuse_unscored(report, configuration.max_failed_share)
    if results.missed:
        raise GateFailed(results.verdict)
