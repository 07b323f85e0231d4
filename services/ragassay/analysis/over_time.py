"""What accurate answers cost over the runs in a folder."""

from __future__ import annotations

from datetime import UTC, datetime

from ragassay.analysis.costs import CostQuery, CostReport, Gathered, cost_report
from ragassay.core.errors import AssayError, NotFound
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
