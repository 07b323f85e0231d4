"""A report as flat rows: one for each query and system, all with the same keys, for data frames and spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from ragassay.core.formatting import printable
from ragassay.core.models import Result
from ragassay.core.report import ReportWithResults
from ragassay.judges.combine import by_judge, disagreements, spread
from ragassay.metrics.failures import attribute
from ragassay.metrics.metric import OPERATIONAL
from ragassay.reporting.grids import Grid, Kind, kind_with

_MEASURED: dict[str, Kind] = dict.fromkeys(("calls", "input_tokens", "output_tokens"), "integer")
_CONVERSATION: dict[str, Callable[[Result], str | None]] = {
    "conversation_id": lambda row: row.conversation_id,
    "history": lambda row: "\n".join(f"{turn.role}: {turn.content}" for turn in row.history) or None,
}
_EVALUATION = ("calls", "input_tokens", "output_tokens", "cost_usd")


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
    metrics = report.provenance.metrics
    explained, repeated = set[str](), set[str]()
    own: dict[str, Kind | None] = {}
    by_jury, turns = False, set[str]()
    for result in _results(report):
        explained.update(name for name in metrics if name not in explained and result.scores[name].reason)
        repeated.update(name for name in metrics if name not in repeated and result.samples(name))
        for name, value in result.metadata.items():
            own[name] = kind_with(own.get(name), value)
        by_jury = by_jury or len(by_judge(result.ratings)) > 1
        turns.update(name for name in _CONVERSATION if getattr(result, name))
    conversation = [name for name in _CONVERSATION if name in turns]
    reasons = [name for name in metrics if name in explained]
    sampled = [name for name in metrics if name in repeated]
    columns: dict[str, Kind] = {
        **dict.fromkeys(
            ("system", "query_id", "category", "difficulty", "query", "answer", "ground_truth_answer"), "text"
        ),
        **dict.fromkeys(conversation, "text"),
        "responded": "flag",
        "error": "text",
        **dict.fromkeys(metrics, "number"),
        **dict.fromkeys(("cause", "why", *(f"{name}_reason" for name in reasons)), "text"),
        **dict.fromkeys((f"{name}_sd" for name in sampled), "number"),
        **dict.fromkeys(("suspicious", *(["divided"] if by_jury else []), "model"), "text"),
        **{name: _MEASURED.get(name, "number") for name in OPERATIONAL},
        **{f"evaluation_{name}": _MEASURED.get(name, "number") for name in _EVALUATION},
        **{f"metadata.{name}": kind or "text" for name, kind in own.items()},
    }
    rows = (
        tuple(_row(result, metrics, conversation, reasons, sampled, list(own), by_jury=by_jury).values())
        for result in _results(report)
    )
    return Grid("Rows", columns, rows).of(fields)


def _results(report: ReportWithResults) -> Iterator[Result]:
    return (result for system in report.systems for result in report.results_of(system))


def _row(
    result: Result,
    metrics: tuple[str, ...],
    conversation: list[str],
    explained: list[str],
    sampled: list[str],
    own: list[str],
    *,
    by_jury: bool,
) -> dict[str, Any]:
    failure = attribute(result)
    return {
        **{name: getattr(result, name) for name in ("system", "query_id", "category", "difficulty", "query", "answer")},
        "ground_truth_answer": " | ".join(result.ground_truth_answer) or None,
        **{name: _CONVERSATION[name](result) for name in conversation},
        "responded": result.responded,
        "error": result.error,
        **{name: result.scores[name].value for name in metrics},
        "cause": failure and failure.cause,
        "why": failure and failure.why,
        **{f"{name}_reason": result.scores[name].reason for name in explained},
        **{f"{name}_sd": spread(result.samples(name)) for name in sampled},
        "suspicious": " ".join(result.verdict.suspicious) or None if result.verdict else None,
        **({"divided": "; ".join(disagreements(result.ratings)) or None} if by_jury else {}),
        "model": result.model,
        **{name: getattr(result, name) for name in OPERATIONAL},
        **{f"evaluation_{name}": getattr(result.evaluation, name) for name in _EVALUATION},
        **{f"metadata.{name}": result.metadata.get(name) for name in own},
    }


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
