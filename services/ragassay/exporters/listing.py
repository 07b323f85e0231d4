"""A run in a list of runs: on what, how far, and how good the answers are."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ragassay.errors import AssayError, DiskFull
from ragassay.exporters.failing import headline
from ragassay.models import FrozenModel
from ragassay.store.derived import read_derived, write_derived
from ragassay.store.folder import FolderRun, FolderStore

SUMMARY_FILE = "summary.json"  # beside a report: what a list says of it


class RunSummary(FrozenModel):
    """What there is to say of a run in a line; of one that can't be read, ``error`` says why.

    ``headline``: a sentence on each system, once there is a report. ``plugins``: those that a resume has to import.
    ``dataset_digest``: as ``digest_of_dataset`` has it; empty where it is not known.
    """

    id: str
    status: str
    error: str | None = None
    created_at: str = ""
    name: str | None = None
    dataset: str = ""
    dataset_digest: str = ""
    systems: tuple[str, ...] = ()
    judge: str = ""
    queries: int = 0
    rows: int = 0
    done: int = 0
    plugins: tuple[str, ...] = ()
    headline: dict[str, str] = {}  # noqa: RUF012 - a default of a model

    def has(self, text: str) -> bool:
        """Is the text in its id, name, dataset, judge, status or a system's name, in any case?"""
        places = (self.id, self.name or "", self.dataset, self.judge, self.status, *self.systems)
        return any(text.casefold() in place.casefold() for place in places)


def summary(store: FolderStore, run_id: str) -> RunSummary:
    """What there is to say of a run in a folder."""
    try:
        run = store.open(str(store.root / "runs" / run_id))
        if kept := read_derived(run.report_file, SUMMARY_FILE, "summary", RunSummary):
            return kept
        about = _of_record(run)
        if run.report_file.exists():
            report = run.report_without_rows()
            about["status"] = report.run.status
            about["headline"] = {name: headline(system) for name, system in report.systems.items()}
            with suppress(OSError, DiskFull):  # a folder that may only be read
                write_derived(run.report_file, SUMMARY_FILE, "summary", about)
    except AssayError as error:
        return RunSummary(id=run_id, status="unreadable", error=str(error))
    return RunSummary(**about)


def _of_record(run: FolderRun) -> dict[str, Any]:
    record = run.record
    rows = record.dataset.rows * len(record.systems)
    return {
        "id": record.id,
        "status": "unfinished",
        "created_at": record.created_at,
        "name": record.spec.name,
        "dataset": record.dataset.name,
        "dataset_digest": record.dataset.digest,
        "systems": tuple(record.systems),
        "judge": record.spec.judged_by,
        "queries": record.dataset.rows,
        "rows": rows,
        "done": rows - sum(record.rows_in(chunk) for chunk in run.pending()),
        "plugins": tuple(name for name in record.plugins if name.endswith(".py") or " " not in name),  # not of packages
    }
