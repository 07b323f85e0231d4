"""What accurate answers cost, over the runs in the home folder or the jobs of a service."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragassay.costs import CostQuery, CostReport, Gathered, asked, cost_report
from ragassay.errors import AssayError, NotFound
from ragassay.exporters.costs import EXPORTERS, lines, sentences, tables
from ragassay.python.show import as_html, as_text
from ragassay.settings import Settings
from ragassay.store.folder import FolderRun, FolderStore


class Costs(CostReport):
    """A cost report: ``groups``, ``total``, ``increments``, ``month`` ..., ``save``, and tables where printed."""

    @classmethod
    def of_runs(cls, **options: Any) -> Costs:
        """Cost per accurate answer over the runs here, and what was spent, by groups.

        since, until: days or times ("2026-11-01"). zone: of days ("Europe/Berlin"), default UTC. system, dataset: a name or
        several. by: what divides the groups, "dataset,system" by default: of system, dataset, category, model, day, month
        and judge. price: {"model": (read, written)}: what it would cost at other prices, in USD per million tokens.
        Raises NothingToEvaluate where there is no report of a run.
        """
        return cls(**dict(cost_report_of_runs(Settings().home, asked(**options))))

    def save(self, path: str | Path) -> None:
        """Write a file; the extension picks the format: .csv, .json or .md. Raises UnknownName, BadSettings, DiskFull."""
        EXPORTERS.write(self, Path(path))

    def __repr__(self) -> str:
        return f"<Costs of {self.total.rows} rows by {', '.join(self.asked.by) or 'nothing'}>"

    def __str__(self) -> str:
        return as_text(lines(self), tables(self), sentences(self))

    def _repr_html_(self) -> str:
        return as_html(lines(self), tables(self), sentences(self))


def cost_report_of_runs(home: Path, query: CostQuery, now: datetime | None = None) -> CostReport:
    """The cost report over the runs in a folder; raises as ``cost_report`` does."""
    gathered, store = Gathered(query), FolderStore(home)
    for run in store.ids():
        try:
            gathered.add(FolderRun(store.root / "runs" / run).costs())
        except NotFound:
            gathered.left_out["without a report"] += 1
        except (AssayError, OSError):
            gathered.unreadable.append(run)
    return cost_report(gathered, now or datetime.now(UTC))
