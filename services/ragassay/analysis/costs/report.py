"""Records of reports to a cost report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from ragassay.analysis.costs.groups import CostPart, Key, group, grouped, mixed
from ragassay.analysis.costs.increments import increments
from ragassay.analysis.costs.models import CostQuery, CostReport
from ragassay.core.errors import BadInput, NothingToEvaluate
from ragassay.core.formatting import listed
from ragassay.core.models import Usage
from ragassay.storage.cost_records import CostRecord

MOST_GROUPS = 10_000


class Gathered:
    """Records as they are read: each run once, only those asked for; the others are counted by why they are left out."""

    def __init__(self, query: CostQuery) -> None:
        self.query = query
        self.left_out: Counter[str] = Counter()
        self.unreadable: list[str] = []
        self.warnings: list[str] = []
        self._records: dict[str, CostRecord] = {}

    def add(self, record: CostRecord) -> None:
        """The next record; of two of the same run a finished one counts, else the one that came last."""
        if not self.query.takes(record.created_at):
            self.left_out["outside the time asked for"] += 1
        elif self.query.datasets and record.dataset not in self.query.datasets:
            self.left_out["on another dataset"] += 1
        elif self.query.systems and not set(self.query.systems) & record.systems.keys():
            self.left_out["of other systems"] += 1
        else:
            if before := self._records.get(record.run):
                self.left_out["a second copy of a run"] += 1
                record = before if before.status == "finished" else record
            self._records[record.run] = record

    @property
    def records(self) -> list[CostRecord]:
        """The runs that count, oldest first."""
        return sorted(self._records.values(), key=lambda record: (self.query.local(record.created_at), record.run))


def cost_report(gathered: Gathered, now: datetime) -> CostReport:
    """What accurate answers cost; ``now`` is when it is made.

    Raises NothingToEvaluate where there is no report, BadInput for more groups than anybody reads.
    """
    query, records = gathered.query, gathered.records
    parts = [
        CostPart(record, name, costs.spending)
        for record in records
        for name, costs in record.systems.items()
        if costs.spending and (not query.systems or name in query.systems)
    ]
    if not parts:
        hint = (
            "ask for other days, systems or datasets"
            if gathered.left_out or query.since
            else "make a run: ragassay evaluate DATA"
        )
        raise NothingToEvaluate(_nothing(gathered), hint=hint)
    groups = grouped(parts, query)
    if len(groups) > MOST_GROUPS:
        hint = "ask for fewer days (since, until) or fewer dimensions (by)"
        raise BadInput(f"there are {len(groups):,} groups, {MOST_GROUPS:,} are the most", where="by", hint=hint)
    return CostReport(
        as_of=now.astimezone(query.zone_info).isoformat(timespec="seconds"),
        asked=query,
        reports=len(records),
        left_out=dict(sorted(gathered.left_out.items())),
        warnings=tuple(_warnings(gathered, groups.items())),
        groups=tuple(group(key, of_it) for key, of_it in groups.items()),
        total=group((), parts),
        interrupted=Usage.total(record.interrupted for record in records),
        increments=increments(records, query),
    )


def _nothing(gathered: Gathered) -> str:
    why = [f"{count} {what}" for what, count in sorted(gathered.left_out.items())]
    why += [f"{len(gathered.unreadable)} that can't be read"] if gathered.unreadable else []
    return "there is no report to count" + (f"; left out: {', '.join(why)}" if why else "")


def _warnings(gathered: Gathered, groups: Iterable[tuple[Key, list[CostPart]]]) -> Iterable[str]:
    yield from gathered.warnings
    if gathered.unreadable:
        yield f"reports that this version can't read: {listed(gathered.unreadable, 10)}"
    mixtures = [sentence for key, of_it in groups if (sentence := mixed(dict(key), of_it))]
    if mixtures:
        yield f"{listed(mixtures)}; group by judge to keep them apart"
