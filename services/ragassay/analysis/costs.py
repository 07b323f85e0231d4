"""What accurate answers cost over time: sums over stored reports. Three kinds of money stay apart and are never added up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from ragassay.core.errors import AssayError, BadInput, BadSettings, NothingToEvaluate, UnknownName
from ragassay.core.formatting import listed, split_names
from ragassay.core.models import FrozenModel, Usage
from ragassay.core.statistics import CostPerAccurate, Estimate, Money, RatioSums, Spending
from ragassay.core.validation import problems
from ragassay.stats.ratio import Stratum, accuracy_interval, cost_per_accurate
from ragassay.storage.cost_records import CostRecord
from ragassay.storage.runs import Entry

Dimension = Literal["system", "dataset", "category", "model", "day", "month", "judge"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
LEVEL = 0.95
MAX_GROUPS = 10_000
MAX_REPORTS = 2000  # of one cost report, the newest
OUTSIDE, UNREADABLE = "outside the time asked for", "can't be read"
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


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


def _dimensions(given: str | Sequence[str]) -> list[str]:
    names = [name for part in _names(given) for name in split_names(part)]
    if unknown := next((name for name in names if name not in DIMENSIONS), None):
        raise UnknownName("dimension", unknown[:100], DIMENSIONS)
    if len(set(names)) < len(names):
        raise ValueError("should name each only once")
    return names


Moment = Annotated[str, Field(max_length=40), BeforeValidator(str), AfterValidator(_moment)]
Names = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=50), BeforeValidator(_names)]


class CostQuery(FrozenModel):
    """Which reports, in which groups. Days are those of ``zone``; ``until`` counts its whole day."""

    since: Moment | None = None
    until: Moment | None = None
    zone: Annotated[str, Field(max_length=60), AfterValidator(_zone)] = "UTC"
    system: Names = ()
    dataset: Names = ()
    by: Annotated[tuple[Dimension, ...], BeforeValidator(_dimensions)] = ("dataset", "system")

    def local(self, created_at: str) -> datetime:
        """When a run was made, in the zone."""
        return datetime.fromisoformat(created_at).astimezone(ZoneInfo(self.zone))

    @cached_property
    def span(self) -> tuple[datetime, datetime]:
        """From when on, and until before when, runs count."""
        since, until = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        if self.since:
            since = self._at(self.since)
        if self.until:
            until = self._at(self.until) + timedelta(microseconds=1)
            if re.fullmatch(r"[\dW-]+", self.until):  # a day
                until = datetime.combine(until.date() + timedelta(days=1), time(), ZoneInfo(self.zone))
        return since, until

    def _at(self, text: str) -> datetime:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(self.zone))


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


def cost_query(*, dashes: str = "", **options: Any) -> CostQuery:
    """The query of the ``options`` that are not None: its fields, of which ``by`` may be ``system,day``.

    Raises BadSettings and UnknownName that name the option, after ``dashes``.
    """
    try:
        query = CostQuery.model_validate({name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        first, unknown = problems(error)[0], error.errors()[0].get("ctx", {}).get("error")
        if isinstance(unknown, UnknownName):  # a ValueError, which pydantic wraps
            unknown.where = f"{dashes}by"
            raise unknown from None
        raise BadSettings(first.what, where=f"{dashes}{first.location[0]}") from None
    if query.span[0] >= query.span[1]:
        raise BadSettings(f"{query.until} is before {query.since}", where=f"{dashes}until")
    return query


def cost_report(runs: Iterable[Entry], query: CostQuery, now: datetime | None = None) -> CostReport:
    """What accurate answers cost in the newest ``MAX_REPORTS`` of the runs, which come newest first; ``now`` is when.

    A run with a report of the rows that are done counts with these. Raises NothingToEvaluate where there is no report,
    BadInput for more than ``MAX_GROUPS`` groups.
    """
    records, left_out, unreadable = list[CostRecord](), Counter[str](), list[str]()
    warnings, read = list[str](), 0
    for entry in runs:
        record, reason = None, _not_asked_for(entry, query)
        if reason is None and read == MAX_REPORTS:
            warnings.append(f"only the newest {MAX_REPORTS:,} reports were read: ask for fewer days (since, until)")
            break
        if reason is None:
            record, reason = _read(entry, query)
        read += record is not None
        if reason == UNREADABLE:
            unreadable.append(entry.id)
        elif reason is not None:
            left_out[reason] += 1
        elif record is not None:
            records.append(record)
    if unreadable:
        warnings.append(f"reports that this version can't read: {listed(unreadable, 10)}")
    records.sort(key=lambda record: (query.local(record.created_at), record.run))
    cells = [
        _Cell(record, system, spending)
        for record in records
        for system, costs in record.systems.items()
        for spending in costs.spending
        if not query.system or system in query.system
    ]
    if not cells:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(left_out.items()))
        why = [f"left out: {counts}"] if counts else []
        hint = "ask for other days, systems or datasets" if why else "make a run: ragassay evaluate DATA"
        raise NothingToEvaluate("; ".join(["there is no report to count", *why, *warnings]), hint=hint)
    groups: dict[Key, list[_Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.key(query), []).append(cell)
    if len(groups) > MAX_GROUPS:
        hint = "ask for fewer days (since, until) or fewer dimensions (by)"
        raise BadInput(f"there are {len(groups):,} groups, {MAX_GROUPS:,} are the most", where="by", hint=hint)
    ordered = sorted(groups.items(), key=lambda group: [(value is not None, value or "") for _, value in group[0]])
    if mixed := [sentence for key, of_key in ordered if (sentence := _mixed(dict(key), of_key))]:
        warnings.append(f"{listed(mixed)}; group by judge to keep them apart")
    return CostReport(
        as_of=(now or datetime.now(UTC)).astimezone(ZoneInfo(query.zone)).isoformat(timespec="seconds"),
        asked=query,
        reports=len(records),
        left_out=dict(sorted(left_out.items())),
        warnings=tuple(warnings),
        groups=tuple(_group(key, of_key) for key, of_key in ordered),
        total=_group((), cells),
        interrupted=Usage.total(record.interrupted for record in records),
    )


def _not_asked_for(entry: Entry, query: CostQuery) -> str | None:
    """Why a run does not count, whatever its report says; None if the report is to be read."""
    if entry.run is not None:
        start, end = query.span
        if not start <= datetime.fromisoformat(entry.run.record.created_at) < end:
            return OUTSIDE
    return entry.status if entry.status in ("failed", "not finished") else None


def _read(entry: Entry, query: CostQuery) -> tuple[CostRecord | None, str | None]:
    """What a run says of costs, if its report is read, and why it does not count, if it does not."""
    try:
        record = entry.run.costs() if entry.run else None
    except (AssayError, OSError, ValidationError):
        return None, UNREADABLE
    if record is None:
        return None, "without a report" if entry.run else UNREADABLE
    if query.dataset and record.dataset not in query.dataset:
        return record, "on another dataset"
    return record, "of other systems" if query.system and not set(query.system) & record.systems.keys() else None


@dataclass(frozen=True)
class _Cell:
    """The rows of one category and one model of a system of a report."""

    record: CostRecord
    system: str
    spending: Spending

    def key(self, query: CostQuery) -> Key:
        """Its values of the dimensions asked for."""
        day = query.local(self.record.created_at).date().isoformat()
        values: dict[Dimension, str | None] = {
            "system": self.system,
            "dataset": self.record.dataset,
            "judge": self.record.judge,
            "category": self.spending.category,
            "model": self.spending.model,
            "day": day,
            "month": day[:7],
        }
        return tuple((name, values[name]) for name in query.by)


def _group(key: Key, cells: Sequence[_Cell]) -> CostGroup:
    """What these rows spent, and what an accurate answer of them costs."""
    spending = [cell.spending for cell in cells]
    known, strata = RatioSums.total(one.known for one in spending), _strata(cells)
    reports = {cell.record.run: cell.record for cell in cells}
    times = sorted((record.created_at for record in reports.values()), key=datetime.fromisoformat)
    serving, rows = Money.total(one.serving for one in spending), sum(one.rows for one in spending)
    return CostGroup(
        key=dict(key),
        reports=len(reports),
        incomplete=sum(record.status == "incomplete" for record in reports.values()),
        first=times[0],
        last=times[-1],
        rows=rows,
        cost_per_accurate_answer=cost_per_accurate(
            known, strata, rows, level=LEVEL, reason="no row has a known cost" if serving.unknown == rows else None
        ),
        accuracy=Estimate(
            value=known.accurate / known.n if known.n else None,
            n=known.n,
            interval=accuracy_interval(strata, level=LEVEL),
        ),
        serving=serving,
        judging=Money.total(one.judging for one in spending),
        waste=Money.total(one.waste for one in spending),
    )


def _strata(cells: Iterable[_Cell]) -> list[Stratum]:
    """The sums of the rows by their datasets: runs on one dataset ask the same questions."""
    by_digest: dict[str, dict[tuple[str, str], list[_Cell]]] = {}
    for cell in cells:
        systems = by_digest.setdefault(cell.record.dataset_digest, {})
        systems.setdefault((cell.record.run, cell.system), []).append(cell)
    strata = []
    for systems in by_digest.values():
        sums, questions = list[RatioSums](), list[int]()
        for (_, system), of_system in systems.items():
            sums.append(RatioSums.total(cell.spending.known for cell in of_system))
            questions.append(round(sums[-1].n * of_system[0].record.systems[system].questions_per_row))
        strata.append(Stratum(RatioSums.total(sums), max(questions)))
    return [one for one in strata if one.questions]


def _mixed(key: Mapping[Dimension, str | None], cells: Sequence[_Cell]) -> str | None:
    """What is not the same in all reports of a group although it decides which answers count as accurate."""
    numbers = {
        "judges": len({cell.record.judge for cell in cells}),
        "rules": len({cell.record.accurate for cell in cells}),
    }
    differ = [f"{n} {what}" for what, n in numbers.items() if n > 1]
    name = ", ".join(map(str, key.values())) or "all"
    return f"{name}: accuracy is by {' and '.join(differ)}" if differ else None
