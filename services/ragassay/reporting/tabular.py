"""Tables of typed cells for spreadsheets and data frames: the rows of a report, its figures, and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import orjson

from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.formatting import printable
from ragassay.core.models import Result
from ragassay.core.report import Distribution, Report, ReportWithResults, SystemReport
from ragassay.core.statistics import Estimate
from ragassay.judges.combine import by_judge, disagreements, spread
from ragassay.metrics.failures import attribute
from ragassay.metrics.metric import OPERATIONAL

Kind = Literal["text", "number", "integer", "flag"]
_EXACT = 2**53  # above it a spreadsheet has other integers
_WHOLE = ("calls", "input_tokens", "output_tokens")
_Column = tuple[Kind, Callable[[Result], Any]]


@dataclass(frozen=True)
class Grid:
    """A titled table; its rows are made as they are asked for, once. None is an empty cell."""

    title: str
    columns: Mapping[str, Kind]
    rows: Iterable[Sequence[Any]]

    def of(self, fields: Sequence[str]) -> Grid:
        """These columns in this order; all, where none is named. Raises UnknownName, BadSettings for one named twice."""
        if not fields:
            return self
        known = {name.lower(): place for place, name in enumerate(self.columns)}
        if unknown := [name for name in fields if name.lower() not in known]:
            raise UnknownName("field", unknown[0], self.columns)
        places = [known[name.lower()] for name in fields]
        if twice := [name for name, place in zip(fields, places, strict=True) if places.count(place) > 1]:
            raise BadSettings(f"{twice[0]} is named twice", where="fields")
        columns = list(self.columns.items())
        rows = ([row[place] for place in places] for row in self.rows)
        return replace(self, columns=dict(columns[place] for place in places), rows=rows)


def kind_with(kind: Kind | None, value: object) -> Kind | None:
    """The kind of a column that was of one kind so far and has this value too; None for one that is empty so far."""
    if value is None:
        return kind
    own: Kind = "number" if isinstance(value, float) else "text"
    if isinstance(value, int) and abs(value) <= _EXACT:
        own = "flag" if isinstance(value, bool) else "integer"
    if kind in (None, own):
        return own
    return "number" if {kind, own} == {"integer", "number"} else "text"


def flat_rows(report: ReportWithResults) -> Iterator[dict[str, Any]]:
    """A row for each result, system by system in the dataset's order; the keys are the same in all, in the same order.

    ``system``, ``query_id``, ``category``, ``difficulty``, ``query``, ``answer``, ``ground_truth_answer`` (several
    joined with `` | ``), ``conversation_id`` and ``history`` where rows have them, ``responded``, ``error``; a number per
    metric under its name; ``cause`` and ``why`` of an answer that is not accurate; ``METRIC_reason`` for metrics that say,
    for at least one row, why a score is what it is or is missing; ``METRIC_sd``, the standard deviation of one sample of a
    judge, where some rows have several; ``suspicious`` (labels of suspicious texts); for rows of a jury ``disagreement``, where
    its judges differ; what the answer took (ms, tokens, USD) and, with ``evaluation_`` before it, what judging it took;
    and the user's own fields as ``metadata.NAME``.
    What is missing is None.
    """
    grid = row_grid(report)
    return (dict(zip(grid.columns, row, strict=True)) for row in grid.rows)


def row_grid(report: ReportWithResults, fields: Sequence[str] = ()) -> Grid:
    """The ``flat_rows`` as a grid, or these of their columns in this order; raises UnknownName, BadSettings."""
    columns = _columns(report)
    rows = ([of(result) for _, of in columns.values()] for result in _results(report))
    return Grid("Rows", {name: kind for name, (kind, _) in columns.items()}, rows).of(fields)


def _results(report: ReportWithResults) -> Iterator[Result]:
    return (result for system in report.systems for result in report.results_of(system))


def _columns(report: ReportWithResults) -> dict[str, _Column]:
    """Each column's kind, and what it has of a row; columns that not every run has are left out if no row has a value."""
    metrics = report.provenance.metrics
    optional: dict[str, _Column] = {
        "conversation_id": ("text", attrgetter("conversation_id")),
        "history": ("text", lambda row: "\n".join(f"{turn.role}: {turn.content}" for turn in row.history) or None),
        **{f"{name}_reason": ("text", partial(_reason, name)) for name in metrics},
        **{f"{name}_sd": ("number", partial(_sd, name)) for name in metrics},
    }
    absent, own, has_jury = dict(optional), dict[str, Kind | None](), False
    for result in _results(report):
        for name in [name for name, (_, of) in absent.items() if of(result) is not None]:
            del absent[name]
        for name, value in result.metadata.items():
            own[name] = kind_with(own.get(name), value)
        has_jury = has_jury or len(by_judge(result.ratings)) > 1
    columns: dict[str, _Column] = {
        **{name: ("text", attrgetter(name)) for name in ("system", "query_id", "category", "difficulty")},
        **{name: ("text", attrgetter(name)) for name in ("query", "answer")},
        "ground_truth_answer": ("text", lambda row: " | ".join(row.ground_truth_answer) or None),
        **{name: optional[name] for name in ("conversation_id", "history")},
        "responded": ("flag", attrgetter("responded")),
        "error": ("text", attrgetter("error")),
        **{name: ("number", partial(_score, name)) for name in metrics},
        "cause": ("text", lambda row: (failure := attribute(row)) and failure.cause),
        "why": ("text", lambda row: (failure := attribute(row)) and failure.why),
        **{name: column for name, column in optional.items() if name not in ("conversation_id", "history")},
        "suspicious": ("text", lambda row: " ".join(row.verdict.suspicious) or None if row.verdict else None),
        **({"disagreement": ("text", lambda row: "; ".join(disagreements(row.ratings)) or None)} if has_jury else {}),
        "model": ("text", attrgetter("model")),
    }
    taken = {name: name for name in OPERATIONAL}
    taken |= {f"evaluation_{name}": f"evaluation.{name}" for name in (*_WHOLE, "cost_usd")}
    columns |= {name: ("integer" if name.endswith(_WHOLE) else "number", attrgetter(of)) for name, of in taken.items()}
    columns |= {f"metadata.{name}": (kind or "text", partial(_own, name)) for name, kind in own.items()}
    return {name: column for name, column in columns.items() if name not in absent}


def _score(metric: str, row: Result) -> float | None:
    return row.scores[metric].value


def _reason(metric: str, row: Result) -> str | None:
    return row.scores[metric].reason or None


def _sd(metric: str, row: Result) -> float | None:
    return spread(row.samples(metric))


def _own(name: str, row: Result) -> Any:
    return row.metadata.get(name)


def printable_json(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The report with its rows as JSON, in parts; text in it that a terminal would act on is escaped.

    With ``fields`` it has no ``results``, but ``rows`` that hold these.
    """
    parts = _with_fields(report, row_grid(report, fields)) if fields else report.json_parts()
    return (printable(part.decode()).encode() for part in parts)


def _with_fields(report: Report, grid: Grid) -> Iterator[bytes]:
    document = report.model_dump(mode="json", exclude={"results"}) | {"kind": "rows", "rows": []}
    yield orjson.dumps(document, option=orjson.OPT_INDENT_2).removesuffix(b"]\n}")
    for n, row in enumerate(grid.rows):
        yield (b",\n    " if n else b"\n    ") + orjson.dumps(dict(zip(grid.columns, row, strict=True)))
    yield b"\n  ]\n}\n"


_FIGURES: dict[str, Kind] = {
    **dict.fromkeys(("system", "figure", "kind", "better"), "text"),
    **dict.fromkeys(("mean", "low", "high", "level", "sd", "judge_sd"), "number"),
    **dict.fromkeys(("n", "missing", "failed"), "integer"),
    **dict.fromkeys(("worst", "best", "p50", "p90", "p95", "p99", "total"), "number"),
    **dict.fromkeys(("corrected", "corrected_low", "corrected_high"), "number"),
    "labels": "integer",
    "next_step": "text",
}


def summary(report: Report) -> Grid:
    """A line for each system and figure: mean, interval, how many rows it is of, percentiles, what labels make of it."""
    lines = ({"system": name, **line} for name, system in report.systems.items() for line in _figures(system))
    return Grid("Summary", _FIGURES, ([line.get(column) for column in _FIGURES] for line in lines))


def _figures(system: SystemReport) -> Iterator[dict[str, Any]]:
    for metric, mean in system.metrics.items():
        more = mean.bounds.model_dump() if mean.bounds else {}
        if by := mean.corrected:
            ends = (by.interval.low, by.interval.high) if by.interval else (None, None)
            more |= {
                "corrected": by.value,
                "labels": by.corrected_by,
                "corrected_low": ends[0],
                "corrected_high": ends[1],
            }
        yield _line(metric, mean.kind, mean.better, mean, failed=mean.failed, judge_sd=mean.judge_sd, **more)
    for measured in OPERATIONAL:
        spread_of: Distribution = getattr(system, measured)
        if spread_of.n:
            yield {"figure": measured, "kind": "measured", **spread_of.model_dump()}
    if system.cost_per_accurate_answer.value is not None:
        yield _line("cost_per_accurate_answer", "measured", "lower", system.cost_per_accurate_answer)
    if fixes := system.fix_first:
        for fix in fixes.causes:
            without = f"accurate without {fix.cause}"
            for figure, one in ((without, fix.alone), (f"{without} and those above", fix.cumulative)):
                more = {"missing": fixes.unknown, "next_step": fix.next_step}
                yield _line(figure, "fix_first", "higher", one, **more)


def _line(figure: str, kind: str, better: str, one: Estimate, **more: Any) -> dict[str, Any]:
    ci = one.interval
    ends = {"low": ci.low, "high": ci.high, "level": ci.level} if ci and ci.low is not None else {}
    about = {"figure": figure, "kind": kind, "better": better, "mean": one.value, "sd": one.sd}
    return about | ends | {"n": one.n, "missing": one.unscored, **more}


def provenance(report: Report) -> Grid:
    """What the figures are of and by, by name: times are datetimes in UTC."""
    source, run = report.provenance, report.run
    rows: dict[str, object] = {
        "run": run.id,
        "status": run.status,
        "created_at": time(run.created_at),
        "finished_at": time(run.finished_at),
        "duration_s": run.duration_s,
        "ragassay": source.ragassay,
        "python": source.python,
        "dataset": source.dataset.name,
        "dataset_digest": source.dataset.digest,
        "queries": source.dataset.rows,
        **{f"system {name}": system.digest for name, system in source.systems.items()},
        "judge": source.judge["name"],
        **{f"judge {key}": value for key, value in source.judge.items() if key not in ("name", "judge")},
        "embeddings": source.embeddings or "none",
        "configuration_digest": source.configuration_digest,
        "accuracy_rule": source.configuration.accurate,
        "confidence": source.configuration.statistics.confidence,
        "seed": source.configuration.seed,
    }
    cautions = [("caution", caution) for caution in report.cautions]
    return Grid("Provenance", {"name": "text", "value": "text"}, [*rows.items(), *cautions])


def time(text: str) -> datetime | None:
    """An instant as a spreadsheet has it: in UTC, without saying so; None for a text that is none."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except ValueError:
        return None
