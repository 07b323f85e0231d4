"""What stored runs say together: a metric over them, and what their accurate answers cost."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from ragassay.compare import trends
from ragassay.compare.trends import Followed, Trend
from ragassay.costs import CostQuery, CostReport, Gathered, cost_report
from ragassay.errors import AssayError, NotFound
from ragassay.metrics import Metric
from ragassay.metrics.own import own_metrics
from ragassay.store.folder import FolderRun, FolderStore


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
    store: FolderStore, metric: str, *, system: str | None, dataset: str | None, judge: str | None, last: int
) -> Trend:
    """A metric over the newest ``last`` runs with a report, on one dataset with one judge; raises as ``trends.trend`` does.

    Runs are chosen by their records, newest first, so that only the reports of those that count are read.
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
        if not run.report_file.is_file() or (system is not None and system not in record.systems):
            continue
        if followed.takes(record.dataset, record.spec.judged_by):
            chosen.append(run)
            own = {**own_metrics(record.spec), **own}  # of one name, the newest
        if len(chosen) == last:
            break
    reports = (run.report() for run in reversed(chosen))
    made = trends.trend(reports, metric, system=system, dataset=dataset, judge=judge, own=own)
    return made.model_copy(update={"left_out": dict(followed.left_out + unread)})
