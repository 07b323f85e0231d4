"""Reports in MLflow: a run for each system with metrics, parameters, a table of the rows, and the report's files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ragassay.core.errors import MissingExtra
from ragassay.core.report import ReportWithResults
from ragassay.integrations.tracking import figures, files, sources
from ragassay.reporting.rows import flat_rows

_FORBIDDEN = re.compile(r"[^\w.\- ]+")
_TRAILING = re.compile(r"_+(?=\.|$)")


def log(report: ReportWithResults, *, experiment: str | None = None) -> list[str]:
    """Log a report into the run that is active, else into a new one; returns the ids of the runs.

    experiment: the name of the experiment of a new run. With several systems each is a run nested in it. Metrics are named as
    in gates, with what MLflow refuses replaced: ``ndcg@10`` is ``ndcg_at_10``. Raises MissingExtra.
    """
    try:
        import mlflow
    except ImportError:
        raise MissingExtra("logging to MLflow", "mlflow") from None
    if mlflow.active_run() is None:
        if experiment is not None:
            mlflow.set_experiment(experiment)
        with mlflow.start_run(run_name=report.provenance.configuration.name or report.run.id):
            return _log(mlflow, report)
    return _log(mlflow, report)


def _log(client: Any, report: ReportWithResults) -> list[str]:
    with files(report) as folder:
        client.log_artifacts(str(folder), "ragassay")
    if len(report.systems) == 1:
        return [_system(client, report, next(iter(report.systems)))]
    ids = []
    for name in report.systems:
        with client.start_run(run_name=name, nested=True):
            ids.append(_system(client, report, name))
    return ids


def _system(client: Any, report: ReportWithResults, name: str) -> str:
    values = figures(report, name)
    client.log_metrics(dict(zip(legal(values), values.values(), strict=True)))
    client.set_tag("ragassay.run", report.run.id)
    client.log_params(sources(report, name))
    rows = [row for row in flat_rows(report) if row["system"] == name]
    client.log_table(
        {column: [row[column] for row in rows] for column in rows[0]} if rows else {}, "ragassay/rows.json"
    )
    run: str = client.active_run().info.run_id
    return run


def legal(names: Iterable[str]) -> list[str]:
    """Names that MLflow accepts, one for each, all different: ``ndcg_at_10``, ``rougeL_stem_true``."""
    given: dict[str, None] = {}
    for name in names:
        written = _TRAILING.sub("", _FORBIDDEN.sub("_", name.replace("@", "_at_"))).strip("_. ") or "metric"
        numbered = (f"{written}_{n}" for n in range(2, len(given) + 3))
        given[written if written not in given else next(each for each in numbered if each not in given)] = None
    return list(given)
