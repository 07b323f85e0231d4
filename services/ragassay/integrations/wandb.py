"""Reports in Weights & Biases: a run for each system with its figures as summary, a table of the rows, and an artefact."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ragassay.core.errors import MissingExtra
from ragassay.core.report import ReportWithResults
from ragassay.integrations.tracking import columns, files, sources


def log(report: ReportWithResults, *, project: str = "ragassay", **options: Any) -> list[str]:
    """Log a report into the run that is active, else into a new one for each system; returns the ids of the runs.

    project and the other options are of ``wandb.init``, such as ``mode="offline"``, with which nothing is sent. Raises
    MissingExtra.
    """
    try:
        import wandb
    except ImportError:
        raise MissingExtra("logging to Weights & Biases", "wandb") from None
    into_active, ids = wandb.run is not None and len(report.systems) == 1, list[str]()
    with files(report) as folder:
        for name, figures in report.figures().items():
            of_new = {"name": f"{report.run.id} {name}", "group": report.run.id, "job_type": "evaluation", **options}
            new = nullcontext(wandb.run) if into_active else None
            with new or wandb.init(project=project, reinit="create_new", **of_new) as run:
                run.config.update(sources(report, name))
                run.summary.update(figures)
                rows = columns(report, name)
                data = [list(row) for row in zip(*rows.values(), strict=True)]
                run.log({"rows": wandb.Table(columns=list(rows), data=data, allow_mixed_types=True)})
                artifact = wandb.Artifact(
                    f"ragassay-{report.run.id}", type="evaluation", metadata=sources(report, name)
                )
                artifact.add_dir(str(folder))
                run.log_artifact(artifact)
                ids.append(run.id)
    return ids
