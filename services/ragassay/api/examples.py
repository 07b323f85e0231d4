"""One job from submission to report, as OpenAPI shows it; validated as the real documents, so never stale."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from ragassay import gates
from ragassay.compare import comparison, trends
from ragassay.documents import Job, JobPage, Progress, Report, ResultPage

_DOCUMENTS: dict[str, Any] = orjson.loads(Path(__file__).with_suffix(".json").read_bytes())
SUBMISSION: dict[str, Any] = _DOCUMENTS["submission"]
JOB: str = _DOCUMENTS["report"]["run"]["id"]


@cache
def responses() -> dict[str, Any]:
    """{operation id: example of its successful answer}."""
    report = Report.model_validate_json(orjson.dumps(_DOCUMENTS["report"]))
    other = report.model_copy(update={"run": report.run.model_copy(update={"id": JOB[::-1]})})
    began, ended = report.run.created_at, report.run.finished_at
    queued = Job(
        id=JOB,
        name=SUBMISSION["name"],
        status="queued",
        created_at=began,
        judge=SUBMISSION["judge"],
        metrics=report.provenance.metrics,
        progress=Progress(rows=1, done=0, failed=0),
    )
    done = {"started_at": began, "ended_at": ended, "progress": Progress(rows=1, done=1, failed=0)}
    finished = queued.model_copy(update={"status": "finished", **done})
    cancelled = queued.model_copy(update={"status": "cancelled", "ended_at": ended})
    documents: dict[str, BaseModel] = {
        "submitJob": queued,
        "getJob": finished,
        "listJobs": JobPage(jobs=(finished,), next=None),
        "getReport": report,
        "getGates": gates.check(report, [gates.Gate(metric="mrr", min=0.7)]),
        "compareJobs": comparison.compare([(report, None), (other, None)], metrics=["mrr"]),
        "getTrend": trends.trend([other, report], "mrr"),
        "listResults": ResultPage(results=report.systems["default"].results, next=None),
        "cancelJob": cancelled,
        "deleteJob": cancelled,
        "resumeJob": queued.model_copy(update={"status": "running", "started_at": began}),
    }
    event = {"event": "finished", "id": "finished!.1.0.0", "data": finished.model_dump_json()}
    return {
        "followJob": event,
        **{operation: document.model_dump(mode="json") for operation, document in documents.items()},
    }
