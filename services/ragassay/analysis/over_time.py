"""What stored runs say together: a metric over them, and what their accurate answers cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ragassay.analysis import trends
from ragassay.analysis.costs import CostQuery, CostReport, Gathered, cost_report
from ragassay.analysis.trends import Followed, Trend
from ragassay.core.errors import AssayError, NotFound
from ragassay.core.report import Report
from ragassay.metrics import Metric
from ragassay.metrics.own import own_metrics
from ragassay.storage.folder import FolderRun, FolderStore


def cost_report_of_runs(store: FolderStore, query: CostQuery, now: datetime | None = None) -> CostReport:
    """The cost report over the runs in a folder; raises as ``cost_report`` does."""
    gathered = Gathered(query)
    for run in store.ids():
        try:
            gathered.add(FolderRun(store.root / "runs" / run).costs())
        except NotFound:
            gathered.left_out["without a report"] += 1
        except (AssayError, OSError):
            gathered.unreadable.append(run)
    return cost_report(gathered, now or datetime.now(UTC))


def trend_of_runs(
    store: FolderStore,
    metric: str,
    *,
    system: str | None,
    dataset: str | None,
    judge: str | None,
    last: int | None,
    **statistics: Any,
) -> Trend:
    """A metric over the newest ``last`` runs with a report, on one dataset with one judge; raises as ``trends.trend`` does.

    Runs are chosen by their records, newest first, so that only the reports of those that count are read. Runs that
    measure a judge do not count. ``statistics``: ``alpha`` and ``seed`` as ``trends.trend`` takes them.
    """
    chosen, own, unread = list[FolderRun](), dict[str, Metric](), Counter[str]()
    followed = Followed(dataset, judge)
    for name in reversed(store.ids()):
        run = FolderRun(store.root / "runs" / name)
        try:
            record = run.record
        except (AssayError, OSError):
            unread["that can't be read"] += 1
            continue
        if record.kind != "evaluation" or (system is not None and system not in record.systems):
            continue
        if not run.report_file.is_file():
            unread["not finished"] += 1
            continue
        if followed.takes(record.dataset, record.spec.judged_by):
            chosen.append(run)
            own = {**own_metrics(record.spec), **own}  # of one name, the newest
        if len(chosen) == last:
            break

    def reports() -> Iterator[Report]:
        for run in reversed(chosen):
            try:
                yield run.report()
            except AssayError:
                unread["that can't be read"] += 1

    made = trends.trend(reports(), metric, system=system, dataset=dataset, judge=judge, own=own, **statistics)
    return made.model_copy(update={"left_out": dict(followed.left_out + unread)})
