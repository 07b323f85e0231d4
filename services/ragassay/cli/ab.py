"""``ragassay ab``: two retrieval configurations on the same queries, offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.core.errors import BadSettings

if TYPE_CHECKING:
    from ragassay.ab import Trial

Queries = Annotated[Path, typer.Option("--queries", metavar="TSV", help="Lines of: query id, tab, text. No header.")]
TruthFile = Annotated[
    Path, typer.Option("--truth", metavar="TSV", help="Lines of: query id, tab, document id, tab, grade. No header.")
]
ConfigA = Annotated[str, typer.Option("--configA", metavar="YAML", help="How A retrieves, or its run.")]
ConfigB = Annotated[str, typer.Option("--configB", metavar="YAML", help="How B retrieves, or its run.")]
K = Annotated[int, typer.Option("--k", metavar="K", help="Documents looked at for each query.")]
Out = Annotated[Path, typer.Option("--out", metavar="JSON", help="Where the document goes.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="CSV", help="Also write a table of the queries.")]
CorpusFile = Annotated[
    Path | None, typer.Option("--corpus", metavar="JSONL", help="Passages with id and text; goes before those of YAML.")
]
Traces = Annotated[
    bool, typer.Option("--emit-traces", help="Write OUT.traces.jsonl where the configurations allow it.")
]


def ab(
    queries: Queries,
    truth: TruthFile,
    config_a: ConfigA,
    config_b: ConfigB,
    out: Out,
    k: K = 10,
    csv: Csv = None,
    corpus: CorpusFile = None,
    emit_traces: Traces = False,
) -> None:
    """Compare two retrieval configurations on the same queries, offline; the same input gives the same bytes."""
    from ragassay import ab
    from ragassay.core.files import write_whole
    from ragassay.core.formatting import json_document

    traces = out.with_name(f"{out.name.removesuffix('.json')}.traces.jsonl")
    outputs = [path for path in (out, csv, traces) if path]
    _check_places(outputs, [queries, truth, Path(config_a), Path(config_b), corpus])
    run = ab.run(queries, truth, config_a, config_b, k=k, corpus=corpus)
    recipes = [arm.recipe for arm in run.arms.values()]
    _check_places(outputs, [path for recipe in recipes for path in (recipe.run, recipe.corpus)])
    written = {out: json_document(run.trial)}
    if csv:
        written[csv] = ab.to_csv(run.trial)
    if emit_traces:
        for name, arm in run.arms.items():
            if lacks := arm.recipe.trace_lacks():
                typer.echo(f"no traces of {name}: {arm.path} does not set {lacks}", err=True)
        if content := ab.to_traces(run):
            written[traces] = content
    for path, content in written.items():
        write_whole(path, content, private=True)
    if traces not in written:  # an earlier run's would pass for this one's
        traces.unlink(missing_ok=True)
    _print(run.trial)
    for path in written:
        typer.echo(f"written: {path}")


def _check_places(outputs: list[Path], inputs: Sequence[Path | None]) -> None:
    """Outputs can be written, and replace no input, nor each other."""
    from ragassay.core.formatting import check_output

    for n, path in enumerate(outputs):
        check_output(path)
        if path.resolve() in {other.resolve() for other in (*inputs, *outputs[:n]) if other}:
            raise BadSettings(f"output {str(path)!r} is another file of this command", hint="name a new file")


def _print(trial: Trial) -> None:
    from ragassay.core.formatting import interval, signed

    for warning in trial.warnings:
        typer.echo(f"warning: {warning}", err=True)
    tests = trial.significance
    typer.echo(f"{len(trial.per_query)} queries, k = {trial.k}; p of {tests.test}, corrected by {tests.correction}\n")
    typer.echo(f"{'':12}{'A':>8}{'B':>8}{'B - A':>9}  {'95 %':<18}{'p':>8}  won/lost/tied")
    a, b = (trial.systems[name].metrics.macro for name in ("A", "B"))
    for name, test in tests.metrics.items():
        ends = "none" if test.interval.low is None else interval(test.interval, signed)
        p = "-" if test.p_corrected is None else f"{test.p_corrected:.3g}{'*' if test.significant else ''}"
        typer.echo(
            f"{trial.definitions[name].partition(':')[0]:12}{getattr(a, name):8.3f}{getattr(b, name):8.3f}"
            f"{signed(getattr(trial.delta.macro, name)):>9}  {ends:<18}{p:>8}"
            f"  {test.wins}/{test.losses}/{test.ties}"
        )
    typer.echo("")
