"""``ragassay evaluate`` on several datasets: many systems, each compared with a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragassay.cli.running import Terminal, refuse_unscored, warnings_shown

if TYPE_CHECKING:
    from ragassay.config import ProjectConfig
    from ragassay.core.eval_config import EvalConfig
    from ragassay.core.settings import Settings
    from ragassay.evaluation.inputs import Inputs
    from ragassay.evaluation.runtime import Runtime
    from ragassay.sdk.benchmark import Begun
    from ragassay.sdk.progress import Reporter


def evaluate_all(configuration: ProjectConfig, *, dry_run: bool, as_json: bool) -> None:
    """Evaluate the systems on the datasets of a configuration, and compare each with the baseline."""
    from ragassay.core.settings import Settings
    from ragassay.sdk.benchmark import check_outputs, read_all, started
    from ragassay.sdk.evaluation import runtime_of

    reporter, outputs = Terminal(quiet=as_json), list(configuration.output)
    check_outputs(outputs)
    settings = Settings().of_dry_run if dry_run else Settings()
    runtime, spec, inputs = runtime_of(settings), configuration.evaluation, read_all(configuration, reporter)
    if dry_run or spec.budget != type(spec.budget)():
        _estimate(runtime, spec, inputs, err=not dry_run)
    if dry_run:
        return
    begun = started(runtime, settings, configuration, inputs)
    _complete_and_show(runtime, settings, begun, reporter, outputs, as_json=as_json)


def resume(name: str, outputs: list[Path], limits: Mapping[str, Any], *, as_json: bool) -> None:
    """Go on with an interrupted benchmark."""
    from ragassay.core.settings import Settings
    from ragassay.sdk.benchmark import check_outputs, resumed
    from ragassay.sdk.evaluation import runtime_of

    check_outputs(outputs)
    settings = Settings()
    begun = resumed(settings, name)
    _complete_and_show(
        runtime_of(settings), settings, begun, Terminal(quiet=as_json), outputs, as_json=as_json, **limits
    )


def _complete_and_show(
    runtime: Runtime,
    settings: Settings,
    begun: Begun,
    reporter: Reporter,
    outputs: list[Path],
    *,
    as_json: bool,
    **limits: Any,
) -> None:
    from ragassay.cli.terminal import print_document, print_json
    from ragassay.reporting.comparison import of_comparison
    from ragassay.reporting.report import in_short
    from ragassay.sdk.benchmark import completed
    from ragassay.sdk.loop import finished

    result = finished(partial(completed, runtime, settings, begun, reporter, **limits))
    for path in outputs:
        result.save(path)
    ends = [f"report of {dataset}: {run.report_file}" for dataset, run in begun.runs.items()]
    ends += [f"also: {output}" for output in outputs]
    if as_json:
        print_json(result.figures)
    elif result.comparison is not None:
        print_document(of_comparison(result.comparison), f"\nbenchmark {result.id}", *ends)
    else:
        for report, end in zip(result.values(), ends, strict=False):
            print_document(in_short(report), end)
    for report in result.values():
        refuse_unscored(report, report.provenance.configuration.max_missing)


def _estimate(runtime: Runtime, spec: EvalConfig, inputs: Mapping[str, Inputs], *, err: bool) -> None:
    """What each dataset would take, and what all of them would."""
    from ragassay.cli.estimate import estimate
    from ragassay.core.models import Usage

    with warnings_shown():
        whole = Usage.total([estimate(runtime, spec, read, err=err) for read in inputs.values()])
    cost = "of unknown cost" if whole.cost_usd is None else f"at most about {whole.cost_usd:.4f} USD"
    typer.echo(f"all {len(inputs)} datasets: {whole.calls} judge calls, {cost}", err=err)
