"""What accurate answers cost, over the runs in the home folder or the jobs of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragassay.analysis.costs import CostReport, asked, cost_report_of_runs
from ragassay.core.settings import Settings
from ragassay.reporting.costs import EXPORTERS, of_costs
from ragassay.sdk.show import as_html, as_text
from ragassay.storage.folder import FolderStore


class Costs(CostReport):
    """A cost report: ``groups``, ``total``, ``increments`` ..., ``save``, and tables where printed."""

    @classmethod
    def of_runs(cls, **options: Any) -> Costs:
        """Cost per accurate answer over the runs here, and what was spent, by groups.

        since, until: days or times ("2026-11-01"). zone: of days ("Europe/Berlin"), default UTC. system, dataset: a name or
        several. by: what divides the groups, "dataset,system" by default: of system, dataset, category, model, day, month
        and judge. Raises NothingToEvaluate where there is no report of a run.
        """
        return cls(**dict(cost_report_of_runs(FolderStore(Settings().home), asked(**options))))

    def save(self, path: str | Path) -> None:
        """Write a file; the extension picks the format: .csv, .json or .md. Raises UnknownName, BadSettings, DiskFull."""
        EXPORTERS.write(self, Path(path))

    def __repr__(self) -> str:
        return f"<Costs of {self.total.rows} rows by {', '.join(self.asked.by) or 'nothing'}>"

    def __str__(self) -> str:
        return as_text(of_costs(self))

    def _repr_html_(self) -> str:
        return as_html(of_costs(self))
