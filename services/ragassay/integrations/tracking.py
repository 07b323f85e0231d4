"""What a tracker of experiments gets from a report: sources and rows of each system, and the report's files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ragassay.core.report import Report, ReportWithResults
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.tabular import flat_rows

FILES = ("report.json", "report.md", "rows.csv")


def sources(report: Report, system: str) -> dict[str, str]:
    """What the figures are of, by names without a dot."""
    source = report.provenance
    return {
        "ragassay_run": report.run.id,
        "ragassay": source.ragassay,
        "configuration": source.configuration_digest[:12],
        "name": source.configuration.name or "",
        "system": system,
        "dataset": source.dataset.name,
        "dataset_digest": source.dataset.digest[:12],
        "queries": str(source.dataset.rows),
        "judge": str(source.judge["name"]),
        "embeddings": source.embeddings or "none",
    }


def columns(report: ReportWithResults, system: str) -> dict[str, list[object]]:
    """The rows of a system by column."""
    rows = [row for row in flat_rows(report) if row["system"] == system]
    return {column: [row[column] for row in rows] for column in rows[0]} if rows else {}


@contextmanager
def files(report: ReportWithResults) -> Iterator[Path]:
    """A folder with the report as JSON and Markdown and its rows as CSV, for the length of the block."""
    with TemporaryDirectory(prefix="ragassay-") as folder:
        for name in FILES:
            EXPORTERS.write(report, Path(folder, name))
        yield Path(folder)
