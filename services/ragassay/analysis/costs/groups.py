"""Rows of many reports that belong together: what they spent, and what an accurate answer of them costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ragassay.analysis.costs.models import CostGroup, CostQuery, Dimension
from ragassay.core.cost_sums import CostPerAccurate, Money, Spending
from ragassay.stats import Interval, RatioSums, Stratum, sums_interval
from ragassay.storage.cost_records import CostRecord, SystemCosts

LEVEL = 0.95
Key = tuple[tuple[Dimension, str | None], ...]


@dataclass(frozen=True)
class CostPart:
    """Rows of one system of one report, as cells by category and model."""

    record: CostRecord
    system: str
    cells: tuple[Spending, ...]

    @property
    def costs(self) -> SystemCosts:
        """All of the system in the report."""
        return self.record.systems[self.system]

    @property
    def own(self) -> CostPerAccurate | None:
        """The figure that the report itself has of exactly these rows."""
        if len(self.cells) == len(self.costs.spending):
            return self.costs.whole
        categories = {cell.category for cell in self.cells}
        category = next(iter(categories))
        of_it = sum(cell.category == category for cell in self.costs.spending)
        if len(categories) > 1 or category is None or of_it != len(self.cells):
            return None
        return self.costs.categories.get(category)


def grouped(parts: Iterable[CostPart], query: CostQuery) -> dict[Key, list[CostPart]]:
    """The parts' cells by the dimensions asked for, ordered by their values."""
    groups: dict[Key, list[CostPart]] = {}
    for part in parts:
        day = query.local(part.record.created_at).date().isoformat()
        of_part: dict[Dimension, str | None] = {
            "system": part.system,
            "dataset": part.record.dataset,
            "judge": part.record.judge,
            "day": day,
            "month": day[:7],
        }
        cells: dict[Key, list[Spending]] = {}
        for cell in part.cells:
            values = {**of_part, "category": cell.category, "model": cell.model}
            cells.setdefault(tuple((name, values[name]) for name in query.by), []).append(cell)
        for key, own in cells.items():
            groups.setdefault(key, []).append(CostPart(part.record, part.system, tuple(own)))
    return dict(sorted(groups.items(), key=lambda group: [(value is not None, value or "") for _, value in group[0]]))


def group(key: Key, parts: Sequence[CostPart]) -> CostGroup:
    """What the rows of the parts spent, and what an accurate answer of them costs."""
    cells = [cell for part in parts for cell in part.cells]
    known, strata = _by_dataset(parts, [[cell.known for cell in part.cells] for part in parts])
    value, interval, whose, reason = _figure(parts, known, strata)
    reports = {part.record.run: part.record for part in parts}
    times = sorted((record.created_at for record in reports.values()), key=datetime.fromisoformat)
    serving = _total(cell.serving for cell in cells)
    return CostGroup(
        key=dict(key),
        reports=len(reports),
        incomplete=sum(record.status == "incomplete" for record in reports.values()),
        first=times[0] if times else "",
        last=times[-1] if times else "",
        rows=sum(cell.rows for cell in cells),
        known=known.n,
        unknown_cost=serving.unknown,
        questions=sum(one.questions for one in strata),
        cost_usd=known.cost_usd,
        accurate=round(known.accurate),
        cost_per_accurate_answer=value,
        interval=interval,
        interval_of=whose,
        reason=reason,
        serving=serving,
        judging=_total(cell.judging for cell in cells),
        waste=_total(cell.waste for cell in cells),
    )


def _figure(
    parts: Sequence[CostPart], known: RatioSums, strata: Sequence[Stratum]
) -> tuple[float | None, Interval, Literal["report", "sums"], str | None]:
    """The value, its interval, whose that is, and why there is no value: of a lone report what it says itself."""
    own = parts[0].own if len(parts) == 1 else None
    if own is not None and own.interval.level == LEVEL:
        return own.value, own.interval, "report", own.reason
    reason = None
    if not known.n:
        reason = "no row has both a known cost and an accuracy"
    elif not known.accurate:
        reason = "no answer is accurate"
    value = None if reason else known.cost_usd / known.accurate
    if own is not None:
        value, reason = own.value, own.reason
    return value, sums_interval(strata, level=LEVEL), "sums", reason


def _by_dataset(parts: Sequence[CostPart], known: Sequence[Sequence[RatioSums]]) -> tuple[RatioSums, list[Stratum]]:
    """The sums over all parts, and those of each dataset with the number of its different questions."""
    of_parts = zip((part.record for part in parts), map(RatioSums.total, known), strict=True)
    return RatioSums.total(sums for cells in known for sums in cells), strata_of(of_parts)


def strata_of(sums: Iterable[tuple[CostRecord, RatioSums]]) -> list[Stratum]:
    """Sums of records by their datasets, those that have any row."""
    by_digest: dict[str, list[RatioSums]] = {}
    for record, one in sums:
        by_digest.setdefault(record.dataset_digest, []).append(one)
    of_datasets = [Stratum(RatioSums.total(many), max(one.n for one in many)) for many in by_digest.values()]
    return [one for one in of_datasets if one.questions]


def _total(money: Iterable[Money]) -> Money:
    every = list(money)
    counts = {name: sum(getattr(one, name) for one in every) for name in Money.model_fields if name != "cost_usd"}
    return Money(cost_usd=math.fsum(one.cost_usd for one in every), **counts)


def _named(key: Mapping[Dimension, str | None]) -> str:
    return ", ".join(str(value) for value in key.values()) or "all"


def mixed(key: Mapping[Dimension, str | None], parts: Sequence[CostPart]) -> str | None:
    """What is not the same in all reports of a group although it decides which answers count as accurate."""
    judges = dict.fromkeys(part.record.judge for part in parts)
    rules = dict.fromkeys(part.record.accurate for part in parts)
    if len(judges) < 2 and len(rules) < 2:
        return None
    differ = [f"{len(names)} {what}" for names, what in ((judges, "judges"), (rules, "rules")) if len(names) > 1]
    return f"{_named(key)}: accuracy is by {' and '.join(differ)}"
