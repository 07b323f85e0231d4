"""What a tracker of experiments gets from a report: for each system its figures and sources, and the report's files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ragassay.core.report import Distribution, Report, ReportWithResults
from ragassay.metrics.metric import OPERATIONAL
from ragassay.reporting.files import EXPORTERS
from ragassay.reporting.tabular import flat_rows

FILES = ("report.json", "report.md", "rows.csv")


def figures(report: Report, system: str) -> dict[str, float]:
    """Every figure that has a value, by the names that gates use; of a mean also ``.low``, ``.high``, ``.n`` and ``.missing``."""
    one = report.systems[system]
    values_by_name: dict[str, float | None] = {}
    for name, mean in one.metrics.items():
        values_by_name |= {name: mean.value, f"{name}.low": mean.interval.low, f"{name}.high": mean.interval.high}
        values_by_name |= {f"{name}.n": mean.n, f"{name}.missing": mean.unscored}
    for name in OPERATIONAL:
        distribution = getattr(one, name)
        if isinstance(distribution, Distribution):
            values = distribution.model_dump(exclude={"n", "missing"})
            values_by_name |= {f"{name}.{statistic}": value for statistic, value in values.items()}
    values_by_name["cost_per_accurate_answer"] = one.cost_per_accurate_answer.value
    values_by_name["suspicious"] = one.evaluation.suspicious
    for name, share in (("precision", one.refusals.precision), ("recall", one.refusals.recall)):
        values_by_name[f"refusal_{name}"] = share.value if share else None
    return {name: value for name, value in values_by_name.items() if value is not None}


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
