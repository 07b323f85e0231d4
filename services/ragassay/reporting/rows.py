"""A report as flat rows: one for each query and system, all with the same keys, for data frames and spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import orjson

from ragassay.core.formatting import printable
from ragassay.core.models import Result
from ragassay.core.report import ReportWithResults
from ragassay.judges.combine import by_judge, disagreements, spread
from ragassay.metrics.failures import attribute
from ragassay.metrics.metric import OPERATIONAL
from ragassay.reporting.grids import Grid, Kind, kind_with

_WHOLE = ("calls", "input_tokens", "output_tokens")
_EVALUATION = ("calls", "input_tokens", "output_tokens", "cost_usd")
_TEXTS = ("system", "query_id", "category", "difficulty", "query", "answer")
_Column = tuple[Kind, Callable[[Result], Any]]


def flat_rows(report: ReportWithResults) -> Iterator[dict[str, Any]]:
    """A row for each result, system by system in the dataset's order; the keys are the same in all, in the same order.

    ``system``, ``query_id``, ``category``, ``difficulty``, ``query``, ``answer``, ``ground_truth_answer`` (several
    joined with `` | ``), ``conversation_id`` and ``history`` where rows have them, ``responded``, ``error``; a number per
    metric under its name; ``cause`` and ``why`` of an answer that is not accurate; ``METRIC_reason`` for metrics that say,
    for at least one row, why a score is what it is or is missing; ``METRIC_sd``, the standard deviation of one sample of a
    judge, where some rows have several; ``suspicious`` (labels of suspicious texts); for rows of a jury ``divided``, where
    its judges differ; what the answer took (ms, tokens, USD) and, with ``evaluation_`` before it, what judging it took;
    and the user's own fields as ``metadata.NAME``.
    What is missing is None.
    """
    grid = row_grid(report)
    return (dict(zip(grid.columns, row, strict=True)) for row in grid.rows)


def row_grid(report: ReportWithResults, fields: Sequence[str] = ()) -> Grid:
    """The ``flat_rows`` as a grid, or these of their columns in this order; raises UnknownName, BadSettings."""
    columns = dict(_columns(report))
    rows = (tuple(of(result) for _, of in columns.values()) for result in _results(report))
    return Grid("Rows", {name: kind for name, (kind, _) in columns.items()}, rows).of(fields)


def _results(report: ReportWithResults) -> Iterator[Result]:
    return (result for system in report.systems for result in report.results_of(system))


def _columns(report: ReportWithResults) -> Iterator[tuple[str, _Column]]:
    """Each column's kind, and what it has of a row; those that are empty in all rows of a run are left out."""
    metrics = report.provenance.metrics
    explained, repeated = set[str](), set[str]()
    own: dict[str, Kind | None] = {}
    by_jury = in_conversation = with_history = False
    for result in _results(report):
        explained.update(name for name in metrics if name not in explained and result.scores[name].reason)
        repeated.update(name for name in metrics if name not in repeated and result.samples(name))
        for name, value in result.metadata.items():
            own[name] = kind_with(own.get(name), value)
        by_jury = by_jury or len(by_judge(result.ratings)) > 1
        in_conversation, with_history = (
            in_conversation or bool(result.conversation_id),
            with_history or bool(result.history),
        )
    yield from ((name, ("text", attrgetter(name))) for name in _TEXTS)
    yield "ground_truth_answer", ("text", lambda row: " | ".join(row.ground_truth_answer) or None)
    if in_conversation:
        yield "conversation_id", ("text", attrgetter("conversation_id"))
    if with_history:
        yield "history", ("text", lambda row: "\n".join(f"{turn.role}: {turn.content}" for turn in row.history) or None)
    yield "responded", ("flag", attrgetter("responded"))
    yield "error", ("text", attrgetter("error"))
    yield from ((name, ("number", partial(_score, name))) for name in metrics)
    yield "cause", ("text", lambda row: (failure := attribute(row)) and failure.cause)
    yield "why", ("text", lambda row: (failure := attribute(row)) and failure.why)
    yield from ((f"{name}_reason", ("text", partial(_reason, name))) for name in metrics if name in explained)
    yield from ((f"{name}_sd", ("number", partial(_sd, name))) for name in metrics if name in repeated)
    yield "suspicious", ("text", lambda row: " ".join(row.verdict.suspicious) or None if row.verdict else None)
    if by_jury:
        yield "divided", ("text", lambda row: "; ".join(disagreements(row.ratings)) or None)
    yield "model", ("text", attrgetter("model"))
    for name in OPERATIONAL:
        yield name, ("integer" if name in _WHOLE else "number", attrgetter(name))
    for name in _EVALUATION:
        yield f"evaluation_{name}", ("integer" if name in _WHOLE else "number", attrgetter(f"evaluation.{name}"))
    for name, kind in own.items():
        yield f"metadata.{name}", (kind or "text", partial(_own, name))


def _score(metric: str, row: Result) -> float | None:
    return row.scores[metric].value


def _reason(metric: str, row: Result) -> str | None:
    return row.scores[metric].reason


def _sd(metric: str, row: Result) -> float | None:
    return spread(row.samples(metric))


def _own(name: str, row: Result) -> Any:
    return row.metadata.get(name)


def printable_json(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The report with its rows as JSON, in parts; text in it that a terminal would act on is escaped.

    With ``fields`` it has no ``results``, but ``rows`` that hold these.
    """
    parts = report.json_parts() if not fields else _with_fields(report, fields)
    return (printable(part.decode()).encode() for part in parts)


def _with_fields(report: ReportWithResults, fields: Sequence[str]) -> Iterator[bytes]:
    grid, indent = row_grid(report, fields), orjson.OPT_INDENT_2
    document = report.model_dump(mode="json", exclude={"results"}) | {"kind": "rows", "rows": []}
    figures = orjson.dumps(document, option=indent).removesuffix(b"[]\n}")

    def parts() -> Iterator[bytes]:
        yield figures + b"["
        for n, row in enumerate(grid.rows):
            line = orjson.dumps(dict(zip(grid.columns, row, strict=True)))
            yield (b",\n    " if n else b"\n    ") + line
        yield b"\n  ]\n}\n"

    return parts()
