"""Reports in Weights & Biases: a run for each system with its figures as summary, a table of the rows, and an artefact."""

from __future__ import annotations

from typing import Any

from ragassay.core.errors import MissingExtra
from ragassay.core.report import ReportWithResults
from ragassay.integrations.tracking import figures, files, sources
from ragassay.reporting.rows import flat_rows


def log(report: ReportWithResults, *, project: str = "ragassay", **options: Any) -> list[str]:
    """Log a report into the run that is active, else into a new one for each system; returns the ids of the runs.

    project and the other options are of ``wandb.init``, such as ``mode="offline"``, with which nothing is sent. Raises
    MissingExtra.
    """
    try:
        import wandb
    except ImportError:
        raise MissingExtra("logging to Weights & Biases", "wandb") from None
    if wandb.run is not None and len(report.systems) == 1:
        return [_system(wandb, wandb.run, report, next(iter(report.systems)))]
    ids = []
    for name in report.systems:
        given = {"name": f"{report.run.id} {name}", "group": report.run.id, "job_type": "evaluation", **options}
        with wandb.init(project=project, reinit="create_new", **given) as run:
            ids.append(_system(wandb, run, report, name))
    return ids


def _system(library: Any, run: Any, report: ReportWithResults, name: str) -> str:
    run.config.update(sources(report, name))
    run.summary.update(figures(report, name))
    rows = [row for row in flat_rows(report) if row["system"] == name]
    columns = list(rows[0]) if rows else []
    data = [[row[column] for column in columns] for row in rows]
    run.log({"rows": library.Table(columns=columns, data=data, allow_mixed_types=True)})
    artifact = library.Artifact(f"ragassay-{report.run.id}", type="evaluation", metadata=sources(report, name))
    with files(report) as folder:
        artifact.add_dir(str(folder))
        run.log_artifact(artifact)
        run_id: str = run.id
        return run_id
