"""``ragassay trec``: retrieval metrics from TREC files, printed as trec_eval and ir_measures print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ragassay.cli.terminal import print_json
from ragassay.core.errors import NothingToEvaluate

if TYPE_CHECKING:
    from ragassay.metrics.ranked import Array

METRICS = "Such as nDCG@10, P@5, RR, AP, bpref, rbp@0.8; ragassay info metrics lists them."
Qrels = Annotated[str, Argument(metavar="QRELS", help="Judgments, a line each: qid iter docid rel; plain or .gz.")]
Run = Annotated[str, Argument(metavar="RUN", help="Ranked documents, a line each: qid Q0 docid rank score tag.")]
Metrics = Annotated[list[str], Argument(metavar="METRIC", help=METRICS)]
Queries = Annotated[bool, Option("-q", help="Print the values of each query, then the means.")]
FullAsJson = Annotated[bool, Option("--json", help="Print JSON in full precision.")]


def trec(qrels: Qrels, run: Run, metric: Metrics, queries: Queries = False, as_json: FullAsJson = False) -> None:
    """Compute retrieval metrics from TREC qrels and run files.

    Documents are ranked by score, compared as float64; ties by document id, descending, as in trec_eval. The rank field
    is not read. A judged query that the run lacks scores 0.
    """
    from ragassay.analysis.trec import evaluate_run, mean, retrieval_metric
    from ragassay.datasets.trec import read_retrieved

    metrics = {name: retrieval_metric(name) for name in " ".join(metric).split()}
    retrieved = read_retrieved(qrels, run)
    if not retrieved.lengths.any():
        raise NothingToEvaluate(f"no query of {run} is judged in {qrels}", hint="are both about the same queries?")
    values = evaluate_run(retrieved, metrics)
    means = {name: mean(column) for name, column in values.items()}
    for count, what in (
        (retrieved.unjudged, f"queries of {run} without judgments, left out"),
        (int((retrieved.lengths == 0).sum()), f"judged queries that {run} lacks, scored 0"),
        *((int((column != column).sum()), f"queries left out of {n}, undefined there") for n, column in values.items()),
    ):
        if count:
            typer.echo(f"{what}: {count}", err=True)
    shown = retrieved.queries if queries else None
    if as_json:
        document: dict[str, Any] = {"means": means, "n_queries": len(retrieved.queries)}
        print_json(document | ({"per_query": _rows(shown, values)} if shown else {}))
    else:
        _print_lines(shown, values, means)


def _rows(queries: list[str], values: dict[str, Array]) -> dict[str, dict[str, float | None]]:
    columns = ([None if v != v else v for v in column.tolist()] for column in values.values())
    return {query: dict(zip(values, row, strict=True)) for query, *row in zip(queries, *columns, strict=True)}


def _print_lines(queries: list[str] | None, values: dict[str, Array], means: dict[str, float | None]) -> None:
    if queries is not None:
        columns = [[f"\t{name}\t{_shown(value)}\n" for value in column.tolist()] for name, column in values.items()]
        lines = (query + text for query, *row in zip(queries, *columns, strict=True) for text in row)
        typer.echo("".join(lines), nl=False)
    for name, value in means.items():
        typer.echo(f"{'' if queries is None else 'all' + chr(9)}{name}\t{_shown(value)}")


def _shown(value: float | None) -> str:
    return "undefined" if value is None or value != value else f"{value:.4f}"
