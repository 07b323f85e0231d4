"""What accurate answers cost over time: sums over stored reports. Three kinds of money stay apart and are never added up."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, ValidationError

from ragassay.core.cost_sums import CostPerAccurate, Money, RatioSums, Spending
from ragassay.core.errors import AssayError, BadInput, BadSettings, NothingToEvaluate, UnknownName
from ragassay.core.formatting import listed, split_names
from ragassay.core.models import FrozenModel, Usage
from ragassay.core.statistics import Estimate
from ragassay.core.validation import problems
from ragassay.stats.ratio import Stratum, accuracy_interval, sums_interval
from ragassay.storage.cost_records import CostRecord
from ragassay.storage.runs import Entry

Dimension = Literal["system", "dataset", "category", "model", "day", "month", "judge"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
BY: tuple[Dimension, ...] = ("dataset", "system")
LEVEL = 0.95
MOST_GROUPS = 10_000
MAX_REPORTS = 2000  # of one cost report, the newest
OUTSIDE = "outside the time asked for"
NOT_KNOWN = "cost or accuracy is unknown"
Key = tuple[tuple[Dimension, str | None], ...]


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError("should be a time zone such as UTC or Europe/Berlin") from None
    return name


def _moment(text: str) -> str:
    try:
        year = datetime.fromisoformat(text).year
    except ValueError:
        year = 0
    if not 1970 <= year <= 9000:
        raise ValueError("should be a day or time such as 2026-11-01 or 2026-11-01T06:00+01:00")
    return text


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("should name each only once")
    return names


Moment = Annotated[str, Field(max_length=40), AfterValidator(_moment)]
Names = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=50)]


class CostQuery(FrozenModel):
    """Which reports, in which groups. Days are those of ``zone``; ``until`` counts its whole day."""

    since: Moment | None = None
    until: Moment | None = None
    zone: Annotated[str, Field(max_length=60), AfterValidator(_zone)] = "UTC"
    systems: Names = ()
    datasets: Names = ()
    by: Annotated[tuple[Dimension, ...], AfterValidator(_each_once)] = BY

    @cached_property
    def zone_info(self) -> ZoneInfo:
        """The zone."""
        return ZoneInfo(self.zone)

    def local(self, created_at: str) -> datetime:
        """When a run was made, in the zone."""
        return datetime.fromisoformat(created_at).astimezone(self.zone_info)

    @cached_property
    def span(self) -> tuple[datetime, datetime]:
        """From when on, and until before when, runs count."""
        since = self._at(self.since) if self.since else datetime.min.replace(tzinfo=UTC)
        until = datetime.max.replace(tzinfo=UTC)
        if self.until:
            until = self._at(self.until)
            whole_day = datetime.combine(until.date() + timedelta(days=1), time(), self.zone_info)
            only_day = re.fullmatch(r"[\dW-]+", self.until)
            until = whole_day if only_day else until + timedelta(microseconds=1)
        return since, until

    def _at(self, text: str) -> datetime:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=self.zone_info)

    def takes(self, created_at: str) -> bool:
        """Does a run of that time count?"""
        since, until = self.span
        return since <= datetime.fromisoformat(created_at) < until


class CostGroup(FrozenModel):
    """Rows that share the values of ``key``, over ``reports`` reports.

    ``cost_per_accurate_answer`` and ``accuracy`` are over the rows that have both a known cost and an accuracy; their
    intervals count different ``questions``.
    """

    key: dict[Dimension, str | None]
    reports: int
    incomplete: int
    first: str
    last: str
    rows: int
    cost_per_accurate_answer: CostPerAccurate
    accuracy: Estimate
    serving: Money
    judging: Money
    waste: Money


class CostReport(FrozenModel):
    """What accurate answers cost, over stored reports.

    ``left_out`` counts runs by why they are not in it, ``warnings`` name those that can't be read and what limits the
    numbers. Of no row, and in no group: ``interrupted``, calls with an unknown outcome, as after a kill, which may
    have been paid.
    """

    schema_version: Literal[2] = 2
    kind: Literal["costs"] = "costs"
    as_of: str
    asked: CostQuery
    reports: int
    left_out: dict[str, int]
    warnings: tuple[str, ...]
    groups: tuple[CostGroup, ...]
    total: CostGroup
    interrupted: Usage


def asked(
    *,
    since: Any = None,
    until: Any = None,
    zone: str = "UTC",
    system: str | Sequence[str] | None = None,
    dataset: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    dashes: str = "",
) -> CostQuery:
    """The query. ``since`` and ``until`` may be dates; ``by`` a list or ``system,day``. Raises BadSettings
    that names the option, after ``dashes``.
    """
    dimensions = [
        name for part in ([by] if isinstance(by, str) else BY if by is None else by) for name in split_names(part)
    ]
    for name in dimensions:
        if name not in DIMENSIONS:
            raise UnknownName("dimension", name[:100], DIMENSIONS, where=f"{dashes}by")
    given = {
        "since": None if since is None else str(since),
        "until": None if until is None else str(until),
        "zone": zone,
        "systems": _names(system),
        "datasets": _names(dataset),
        "by": tuple(dimensions),
    }
    try:
        query = CostQuery.model_validate(given)
    except ValidationError as error:
        first = problems(error)[0]
        option = str(first.location[0]).removesuffix("s") if first.location else "costs"
        raise BadSettings(first.what, where=f"{dashes}{option}") from None
    since_, until_ = query.span
    if since_ >= until_:
        raise BadSettings(f"{query.until} is before {query.since}", where=f"{dashes}until")
    return query


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given or ()))


def cost_report(runs: Iterable[Entry], query: CostQuery, now: datetime | None = None) -> CostReport:
    """What accurate answers cost in the newest ``MAX_REPORTS`` of the runs, which come newest first; ``now`` is when.

    A run with a report of the rows that are done counts with these. Raises NothingToEvaluate where there is no report,
    BadInput for more groups than anybody reads.
    """
    chosen, counted = list[CostRecord](), Counter[str]()
    unreadable, warnings, read = list[str](), list[str](), 0
    for entry in runs:
        if entry.run is not None and not query.takes(entry.run.record.created_at):
            counted[OUTSIDE] += 1
        elif entry.status in ("failed", "not finished"):
            counted[entry.status] += 1
        elif read >= MAX_REPORTS:
            warnings.append(f"only the newest {MAX_REPORTS:,} reports were read: ask for fewer days (since, until)")
            break
        else:
            try:
                record, is_read = entry.run.costs() if entry.run else None, entry.run is not None
            except (AssayError, OSError, ValidationError):
                record, is_read = None, False
            if not is_read:
                unreadable.append(entry.id)
            elif record is None:
                counted["without a report"] += 1
            elif query.datasets and record.dataset not in query.datasets:
                counted["on another dataset"] += 1
            elif query.systems and not set(query.systems) & record.systems.keys():
                counted["of other systems"] += 1
            else:
                chosen.append(record)
            read += record is not None
    if unreadable:
        warnings.append(f"reports that this version can't read: {listed(unreadable, 10)}")
    chosen.sort(key=lambda record: (query.local(record.created_at), record.run))
    parts = [
        _Part(record, name, costs.spending)
        for record in chosen
        for name, costs in record.systems.items()
        if costs.spending and (not query.systems or name in query.systems)
    ]
    if not parts:
        left_out = ", ".join(f"{count} {what}" for what, count in sorted(counted.items()))
        why = [f"left out: {left_out}"] if left_out else []
        hint = "ask for other days, systems or datasets" if why or query.since else "make a run: ragassay evaluate DATA"
        raise NothingToEvaluate("; ".join(["there is no report to count", *why, *warnings]), hint=hint)
    groups = _grouped(parts, query)
    if len(groups) > MOST_GROUPS:
        hint = "ask for fewer days (since, until) or fewer dimensions (by)"
        raise BadInput(f"there are {len(groups):,} groups, {MOST_GROUPS:,} are the most", where="by", hint=hint)
    mixed = [sentence for key, of_it in groups.items() if (sentence := _mixed(dict(key), of_it))]
    return CostReport(
        as_of=(now or datetime.now(UTC)).astimezone(query.zone_info).isoformat(timespec="seconds"),
        asked=query,
        reports=len(chosen),
        left_out=dict(sorted(counted.items())),
        warnings=(*warnings, *([f"{listed(mixed)}; group by judge to keep them apart"] if mixed else [])),
        groups=tuple(_group(key, of_it) for key, of_it in groups.items()),
        total=_group((), parts),
        interrupted=Usage.total(record.interrupted for record in chosen),
    )


@dataclass(frozen=True)
class _Part:
    """Rows of one system of one report, as cells by category and model."""

    record: CostRecord
    system: str
    cells: tuple[Spending, ...]

    @property
    def known(self) -> RatioSums:
        """The sums over the rows whose cost and accuracy are known."""
        return RatioSums.total(cell.known for cell in self.cells)

    @property
    def questions(self) -> int:
        """How many questions these rows are of; some may have been answered several times in the run."""
        costs = self.record.systems[self.system]
        rows = sum(cell.known.n for cell in costs.spending)
        return round(self.known.n * costs.questions / rows) if rows else 0


def _grouped(parts: Iterable[_Part], query: CostQuery) -> dict[Key, list[_Part]]:
    """The parts' cells by the dimensions asked for, ordered by their values."""
    groups: dict[Key, list[_Part]] = {}
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
            groups.setdefault(key, []).append(_Part(part.record, part.system, tuple(own)))
    return dict(sorted(groups.items(), key=lambda group: [(value is not None, value or "") for _, value in group[0]]))


def _group(key: Key, parts: Sequence[_Part]) -> CostGroup:
    """What the rows of the parts spent, and what an accurate answer of them costs."""
    cells = [cell for part in parts for cell in part.cells]
    known = RatioSums.total(cell.known for cell in cells)
    strata = _strata(parts)
    reports = {part.record.run: part.record for part in parts}
    times = sorted((record.created_at for record in reports.values()), key=datetime.fromisoformat)
    serving, rows = _total(cell.serving for cell in cells), sum(cell.rows for cell in cells)
    reason = None
    if serving.unknown == rows:
        reason = "no row has a known cost"
    elif not known.n:
        reason = "no row has both a known cost and an accuracy"
    elif not known.accurate:
        reason = "no answer is accurate"
    return CostGroup(
        key=dict(key),
        reports=len(reports),
        incomplete=sum(record.status == "incomplete" for record in reports.values()),
        first=times[0] if times else "",
        last=times[-1] if times else "",
        rows=rows,
        cost_per_accurate_answer=CostPerAccurate(
            value=None if reason else known.cost_usd / known.accurate,
            n=known.n,
            missing={NOT_KNOWN: rows - known.n} if rows > known.n else {},
            interval=sums_interval(strata, level=LEVEL),
            reason=reason,
            cost_usd=known.cost_usd,
            accurate=round(known.accurate),
            questions=sum(one.questions for one in strata),
        ),
        accuracy=Estimate(
            value=known.accurate / known.n if known.n else None,
            n=known.n,
            interval=accuracy_interval(strata, level=LEVEL),
        ),
        serving=serving,
        judging=_total(cell.judging for cell in cells),
        waste=_total(cell.waste for cell in cells),
    )


def _strata(parts: Iterable[_Part]) -> list[Stratum]:
    """The sums of the parts by their datasets: runs on one dataset ask the same questions."""
    by_digest: dict[str, list[_Part]] = {}
    for part in parts:
        by_digest.setdefault(part.record.dataset_digest, []).append(part)
    of_datasets = (
        Stratum(RatioSums.total(part.known for part in many), max(part.questions for part in many))
        for many in by_digest.values()
    )
    return [one for one in of_datasets if one.questions]


def _total(money: Iterable[Money]) -> Money:
    every = list(money)
    counts = {name: sum(getattr(one, name) for one in every) for name in Money.model_fields if name != "cost_usd"}
    return Money(cost_usd=math.fsum(one.cost_usd for one in every), **counts)


def _named(key: Mapping[Dimension, str | None]) -> str:
    return ", ".join(str(value) for value in key.values()) or "all"


def _mixed(key: Mapping[Dimension, str | None], parts: Sequence[_Part]) -> str | None:
    """What is not the same in all reports of a group although it decides which answers count as accurate."""
    judges = dict.fromkeys(part.record.judge for part in parts)
    rules = dict.fromkeys(part.record.accurate for part in parts)
    if len(judges) < 2 and len(rules) < 2:
        return None
    differ = [f"{len(names)} {what}" for names, what in ((judges, "judges"), (rules, "rules")) if len(names) > 1]
    return f"{_named(key)}: accuracy is by {' and '.join(differ)}"
