"""``ragassay trec``: the files of information retrieval, read fast, in the manner of trec_eval and ir_measures.

It imports no more than it needs: at a thousand queries, what is imported takes longer than the work.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ragassay.errors import AssayError, BadSettings, NothingToEvaluate

if TYPE_CHECKING:
    from ragassay.metrics.ranked import Array
    from ragassay.trec.ranking import Retrieved

FLAGS = ("-q", "--json", "--help")
HELP = """\
Usage: ragassay trec QRELS RUN METRIC... [-q] [--json]

Compute retrieval metrics from TREC qrels and run files.

  QRELS     judgments, a line each: qid iter docid rel; plain or .gz
  RUN       ranked documents, a line each: qid Q0 docid rank score tag; plain or .gz
  METRIC    such as nDCG@10, P@5, RR, AP, bpref, rbp@0.8; ragassay metrics lists them
  -q        print the values of each query, then the means under the name all
  --json    print one line of JSON in full precision; with -q, of each query too

Documents are ranked by score, ties by document id, descending, as in trec_eval; scores are compared as float64, where
trec_eval compares them as float32. The rank field of the run is not looked at. A judged query that the run lacks scores
0; queries without judgments are left out and counted on stderr.
"""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the command: values on stdout, counts and errors on stderr, the exit codes of the other commands."""
    gc.disable()  # what is made here is arrays, and looking for cycles among the imports takes longer than some runs
    try:
        trec(arguments)
    except AssayError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
    finally:
        gc.enable()
    sys.exit(0)


def trec(arguments: Sequence[str]) -> None:
    """Compute retrieval metrics from TREC qrels and run files."""
    flags = {argument for argument in arguments if argument.startswith("-")}
    if "--help" in flags:
        sys.stdout.write(HELP)
        return
    if unknown := sorted(flags.difference(FLAGS)):
        raise BadSettings(f"no such option: {unknown[0]}", hint="see: ragassay trec --help")
    qrels, run, *names = [*(argument for argument in arguments if argument not in flags), "", ""]
    names = " ".join(names).split()
    if not names:
        raise BadSettings("QRELS, RUN and at least one METRIC are needed", hint="see: ragassay trec --help")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads cost more than they can win here
    started = time.perf_counter()
    from ragassay.trec.evaluation import evaluate_run, mean, retrieval_metric
    from ragassay.trec.ranking import read_qrels, read_run

    metrics = {name: retrieval_metric(name) for name in names}
    retrieved = read_run(run, read_qrels(qrels))
    if not retrieved.lengths.any():
        raise NothingToEvaluate(f"no query of {run} is judged in {qrels}", hint="are both about the same queries?")
    loaded = time.perf_counter()
    values = evaluate_run(retrieved, metrics)
    means = {name: mean(column) for name, column in values.items()}
    seconds = {"load": loaded - started, "compute": time.perf_counter() - loaded}
    _print_counts(retrieved, values, run)
    queries = [query.decode() for query in retrieved.qrels.queries] if "-q" in flags else None
    if "--json" in flags:
        _print_json(queries, values, means, seconds)
    else:
        _print_lines(queries, values, means)


def _print_counts(retrieved: Retrieved, values: dict[str, Array], run: str) -> None:
    counts = [
        (retrieved.unjudged, f"queries of {run} without judgments, left out"),
        (int((retrieved.lengths == 0).sum()), f"judged queries that {run} lacks, scored 0"),
    ]
    for name, column in values.items():
        counts.append((int((column != column).sum()), f"queries left out of {name}, undefined there"))
    for count, what in counts:
        if count:
            sys.stderr.write(f"{what}: {count}\n")


def _print_json(
    queries: list[str] | None, values: dict[str, Array], means: dict[str, float | None], seconds: dict[str, float]
) -> None:
    import json

    count = len(next(iter(values.values())))
    document: dict[str, Any] = {"means": means, "n_queries": count, "seconds": seconds}
    if queries is not None:
        rows = zip(*([None if v != v else v for v in column.tolist()] for column in values.values()), strict=True)
        document["per_query"] = {
            query: dict(zip(values, row, strict=True)) for query, row in zip(queries, rows, strict=True)
        }
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")


def _print_lines(queries: list[str] | None, values: dict[str, Array], means: dict[str, float | None]) -> None:
    if queries is not None:
        columns = [[f"\t{name}\t{_shown(value)}\n" for value in column.tolist()] for name, column in values.items()]
        sys.stdout.writelines(query + text for query, *row in zip(queries, *columns, strict=True) for text in row)
    for name, mean in means.items():
        sys.stdout.write(f"{'' if queries is None else 'all' + chr(9)}{name}\t{_shown(mean)}\n")


def _shown(value: float | None) -> str:
    return "undefined" if value is None or value != value else f"{value:.4f}"
