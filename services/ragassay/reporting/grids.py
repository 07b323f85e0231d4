"""Tables of typed cells, for spreadsheets and data frames: the figures of a report, and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Literal

from ragassay.core.cost_sums import CostPerAccurate
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.report import Aggregate, Distribution, FixFirst, Report, SystemReport
from ragassay.core.statistics import Interval
from ragassay.metrics.metric import OPERATIONAL

Kind = Literal["text", "number", "integer", "flag"]
_EXACT = 2**53  # above it a spreadsheet has other integers


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
        for name in fields:
            if name.lower() not in known:
                raise UnknownName("field", name, self.columns)
        places = [known[name.lower()] for name in fields]
        if twice := [name for name, place in zip(fields, places, strict=True) if places.count(place) > 1]:
            raise BadSettings(f"{twice[0]} is named twice", where="fields")
        names, kinds = list(self.columns), list(self.columns.values())
        pick = itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)
        return replace(self, columns={names[n]: kinds[n] for n in places}, rows=map(pick, self.rows))


def kind_with(kind: Kind | None, value: object) -> Kind | None:
    """The kind of a column that was of one kind so far and has this value too; None for one that is empty so far."""
    if value is None:
        return kind
    if isinstance(value, bool):
        own: Kind = "flag"
    elif isinstance(value, int) and abs(value) <= _EXACT:
        own = "integer"
    else:
        own = "number" if isinstance(value, float) else "text"
    if kind in (None, own):
        return own
    return "number" if {kind, own} == {"integer", "number"} else "text"


_FIGURES: dict[str, Kind] = {
    **dict.fromkeys(("system", "figure", "kind", "better"), "text"),
    **dict.fromkeys(
        ("mean", "low", "high", "level", "sd", "judge_sd", "n", "missing", "failed", "worst", "best"), "number"
    ),
    **dict.fromkeys(("n", "missing", "failed"), "integer"),
    **dict.fromkeys(("p50", "p90", "p95", "p99", "total"), "number"),
    **dict.fromkeys(("corrected", "corrected_low", "corrected_high"), "number"),
    "labels": "integer",
}


def summary(report: Report) -> Grid:
    """A line for each system and figure: mean, interval, how many rows it is of, percentiles, what labels make of it."""
    lines = (line for name, system in report.systems.items() for line in _figures(name, system))
    return Grid("Summary", _FIGURES, ([line.get(column) for column in _FIGURES] for line in lines))


def _figures(name: str, system: SystemReport) -> Iterator[dict[str, Any]]:
    for metric, mean in system.metrics.items():
        yield {"system": name, "figure": metric, **_mean(mean)}
    for measured in OPERATIONAL:
        found: Distribution = getattr(system, measured)
        if found.n:
            yield {"system": name, "figure": measured, "kind": "measured", **found.model_dump()}
    if system.cost_per_accurate_answer.value is not None:
        yield {"system": name, "figure": "cost_per_accurate_answer", "kind": "measured"} | _cost(
            system.cost_per_accurate_answer
        )
    if system.fix_first:
        yield from ({"system": name, **line} for line in _fixes(system.fix_first))


def _fixes(fixes: FixFirst) -> Iterator[dict[str, Any]]:
    """Accuracy as it would be without each cause of failure, alone and without those that gain more as well."""
    for fix in fixes.causes:
        for figure, one in (
            (f"accurate without {fix.cause}", fix.alone),
            (f"accurate without {fix.cause} and those above", fix.cumulative),
        ):
            about = {"figure": figure, "kind": "fix_first", "better": "higher"}
            yield {**about, "mean": one.value, "n": one.n, "missing": fixes.unknown, **_ends(one.interval)}


def _mean(mean: Aggregate) -> dict[str, Any]:
    found = mean.model_dump(include={"kind", "better", "n", "failed", "sd", "judge_sd"})
    found |= (
        {"mean": mean.value, "missing": mean.unscored}
        | _ends(mean.interval)
        | (mean.bounds.model_dump() if mean.bounds else {})
    )
    if by := mean.corrected:
        ends = {f"corrected_{end}": getattr(by.interval, end) for end in ("low", "high")}
        found |= {"corrected": by.mean, "labels": by.labels, **ends}
    return found


def _cost(cost: CostPerAccurate) -> dict[str, Any]:
    return {"better": "lower", "mean": cost.value, "n": cost.n, "missing": cost.unscored, **_ends(cost.interval)}


def _ends(interval: Interval | None) -> dict[str, float | None]:
    if interval is None or interval.low is None:
        return {"low": None, "high": None, "level": None}
    return {"low": interval.low, "high": interval.high, "level": interval.level}


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
