"""Scores as the evaluation events of OpenTelemetry's conventions for generative AI, on the traces that rows came from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from ragassay.core.tracing import TraceEvent, send_events

if TYPE_CHECKING:
    from ragassay.core.models import Result, Score
    from ragassay.core.report import ReportWithResults

EVENT = "gen_ai.evaluation.result"


def log(report: ReportWithResults, *, endpoint: str | None = None) -> int:
    """Send an event for each score of each row, and for each that failed; returns how many.

    endpoint: of a collector, such as "http://127.0.0.1:4318"; default: OTEL_EXPORTER_OTLP_ENDPOINT. Rows that were read from
    traces are about the span that they came from. Raises MissingExtra, Unavailable.
    """
    return send_events(events(report), endpoint)


def events(report: ReportWithResults) -> Iterator[TraceEvent]:
    """``gen_ai.evaluation.result``: name, value, label of pass or fail, explanation; never a question or an answer."""
    at = int(datetime.fromisoformat(report.run.finished_at).timestamp() * 1e9)
    about = {"ragassay.run": report.run.id, "ragassay.judge": report.provenance.judge["name"]}
    for system in report.systems:
        for row in report.results_of(system):
            trace, span = (str(row.metadata.get(key) or "") for key in ("trace_id", "span_id"))
            for metric, score in row.scores.items():
                if score.value is not None or score.missing == "failed":
                    yield TraceEvent(EVENT, {**about, **_attributes(row, metric, score)}, at, trace, span)


def _attributes(row: Result, metric: str, score: Score) -> dict[str, str | float]:
    given = {
        "gen_ai.evaluation.name": metric,
        "gen_ai.evaluation.score.value": score.value,
        "gen_ai.evaluation.score.label": _label(metric, score),
        "gen_ai.evaluation.explanation": score.reason,
        "error.type": score.missing,
        "ragassay.query_id": row.query_id,
        "ragassay.system": row.system,
    }
    return {name: value for name, value in given.items() if value is not None}


def _label(metric: str, score: Score) -> str | None:
    """Of the one metric that is a verdict."""
    return {1.0: "pass", 0.0: "fail"}.get(score.value) if metric == "accurate" and score.value is not None else None
