"""``ragassay ab``: two retrieval configurations on the same queries, offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from ragassay.cli.terminal import print_document
from ragassay.core.errors import BadSettings
from ragassay.core.formatting import interval, json_document, number, p_value, signed

if TYPE_CHECKING:
    from ragassay.analysis.ab import ConfigFile, Trial

Queries = Annotated[Path, Option("--queries", metavar="TSV", help="Lines of: query id, tab, text. No header.")]
TruthFile = Annotated[
    Path, Option("--truth", metavar="TSV", help="Lines of: query id, tab, document id, tab, grade. No header.")
]
ConfigA = Annotated[str, Option("--configA", metavar="YAML", help="How A retrieves, or its run.")]
ConfigB = Annotated[str, Option("--configB", metavar="YAML", help="How B retrieves, or its run.")]
K = Annotated[int, Option("--k", metavar="K", help="Documents looked at for each query.")]
Out = Annotated[Path, Option("--out", metavar="JSON", help="Where the document goes.")]
Csv = Annotated[Path | None, Option("--csv", metavar="CSV", help="Also write a table of the queries.")]
CorpusFile = Annotated[
    Path | None, Option("--corpus", metavar="JSONL", help="Passages with id and text; goes before those of YAML.")
]
Traces = Annotated[bool, Option("--emit-traces", help="Write OUT.traces.jsonl where the configurations allow it.")]


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
    """Compare two retrieval configurations on the same queries, offline.

    The same input gives the same bytes.
    """
    from ragassay.analysis.ab import run
    from ragassay.core.files import write_whole
    from ragassay.reporting.csv import trial_table

    traces = out.with_name(f"{out.name.removesuffix('.json')}.traces.jsonl")
    outputs = [path for path in (out, csv, traces) if path]
    _check_places(outputs, [queries, truth, Path(config_a), Path(config_b), corpus])
    a, b = _read(config_a), _read(config_b)
    _check_places(outputs, [path for config in (a, b) for path in (config.recipe.run, config.recipe.corpus)])
    trial, lines = run(queries, truth, a, b, k=k, corpus=corpus)
    written = {out: json_document(trial)}
    if csv:
        written[csv] = trial_table(trial)
    if emit_traces:
        for name, config in (("A", a), ("B", b)):
            if lacks := config.recipe.trace_lacks():
                typer.echo(f"no traces of {name}: {config.path} does not set {lacks}", err=True)
        if lines:
            written[traces] = lines
    for path, content in written.items():
        write_whole(path, content, private=True)
    if traces not in written:  # an earlier run's would pass for this one's
        traces.unlink(missing_ok=True)
    _print(trial)
    for path in written:
        typer.echo(f"written: {path}")


def _read(typed: str) -> ConfigFile:
    """The configuration in a file, and the SHA-256 of its meaning: canonical JSON, in which empty keys are left out.

    Raises NotFound, and BadSettings that names the line.
    """
    from pydantic import ValidationError

    from ragassay import config
    from ragassay.analysis.ab import ConfigFile, Recipe

    path = Path(typed)
    document = config.read_yaml(path)
    meaning = json.dumps(_without_empty(document.values), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        recipe = Recipe.model_validate_json(meaning, strict=True)
    except ValidationError as error:
        raise config.first_problem(error, document.where, Recipe) from None
    files = {key: path.parent / file for key in ("run", "corpus") if (file := getattr(recipe, key))}
    return ConfigFile(typed, recipe.model_copy(update=files), sha256(meaning.encode()).hexdigest())


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_empty(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }


def _check_places(outputs: list[Path], inputs: Sequence[Path | None]) -> None:
    """Outputs can be written, and replace no input, nor each other."""
    from ragassay.core.files import check_output

    for n, path in enumerate(outputs):
        check_output(path)
        if path.resolve() in {other.resolve() for other in (*inputs, *outputs[:n]) if other}:
            raise BadSettings(f"output {str(path)!r} is another file of this command", hint="name a new file")


def _print(trial: Trial) -> None:
    from ragassay.reporting.document import Document, Table

    rows = []
    for one in trial.differences.values():
        ends = "none" if one.interval.low is None else interval(one.interval, signed)
        p = "-" if one.p_adjusted is None else f"{p_value(one.p_adjusted)}{one.stars}"
        counts = f"{one.wins}/{one.losses}/{one.ties}"
        rows.append((one.metric, number(one.mean_a), number(one.mean_b), signed(one.delta or 0.0), ends, p, counts))
    about = f"{len(trial.per_query)} queries, k = {trial.k}; p of the randomisation test, corrected by holm"
    columns = ("metric", "A", "B", "B - A", "95 %", "p", "won/lost/tied")
    print_document(Document("", notes=tuple(trial.warnings), blocks=(Table(about, columns, tuple(rows)),)), "")
