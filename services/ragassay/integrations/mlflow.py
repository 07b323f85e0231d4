"""Reports in MLflow: a run for each system with metrics, parameters, a table of the rows, and the report's files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from ragassay.core.errors import MissingExtra
from ragassay.core.report import ReportWithResults
from ragassay.integrations.tracking import columns, files, sources

_FORBIDDEN = re.compile(r"[^\w.\- ]+")


def log(report: ReportWithResults, *, experiment: str | None = None) -> list[str]:
    """Log a report into the run that is active, else into a new one; returns the ids of the runs.

    experiment: the name of the experiment of a new run. With several systems each is a run nested in it. Metrics are named as
    in gates, with what MLflow refuses replaced: ``ndcg@10`` is ``ndcg_at_10``. Raises MissingExtra.
    """
    try:
        import mlflow
    except ImportError:
        raise MissingExtra("logging to MLflow", "mlflow") from None
    active: Any = nullcontext()
    if mlflow.active_run() is None:
        if experiment is not None:
            mlflow.set_experiment(experiment)
        active = mlflow.start_run(run_name=report.provenance.configuration.name or report.run.id)
    ids: list[str] = []
    with active, files(report) as folder:
        mlflow.log_artifacts(str(folder), "ragassay")
        for name, figures in report.figures().items():
            alone = len(report.systems) == 1
            with nullcontext() if alone else mlflow.start_run(run_name=name, nested=True):
                mlflow.log_metrics(named(figures))
                mlflow.set_tag("ragassay.run", report.run.id)
                mlflow.log_params(sources(report, name))
                mlflow.log_table(columns(report, name), "ragassay/rows.json")
                ids.append(mlflow.active_run().info.run_id)
    return ids


def named(values: Mapping[str, float]) -> dict[str, float]:
    """Figures by names that MLflow accepts; one whose name another has by then gets a further ``_``."""
    by_name: dict[str, float] = {}
    for figure, value in values.items():
        name = legal(figure)
        while name in by_name:
            name += "_"
        by_name[name] = value
    return by_name


def legal(name: str) -> str:
    """The name of a figure as MLflow accepts it: ``ndcg_at_10``."""
    return _FORBIDDEN.sub("_", name.replace("@", "_at_"))
