"""One job from submission to report, as OpenAPI shows it; validated as the real documents, so never stale."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from ragassay import gates
from ragassay.compare import comparison, trends
from ragassay.cost_records import record_of
from ragassay.costs import CostQuery, Gathered, cost_report
from ragassay.data.diff import DatasetDifference, NamedRow
from ragassay.data.overlaps import Leak
from ragassay.data.split import SplitPart
from ragassay.data.versions import DatasetPage, DatasetVersion, DeletedVersions, KeptVersion, Lineage, RowPage
from ragassay.datasets import GeneratedVersion, NamedRows, SplitVersions, describe
from ragassay.documents import Report
from ragassay.job_documents import Job, JobPage, Progress, ResultPage
from ragassay.models import Sample
from ragassay.notices import (
    Delivery,
    DeliveryPage,
    Notice,
    NoticePage,
    Replayed,
    Webhook,
    WebhookList,
    WebhookSecret,
)
from ragassay.schedule_documents import LAST_PASSED, JobSchedule, RunPage, ScheduledRun, SchedulePage

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
    gathered = Gathered(CostQuery())
    gathered.add(record_of(report))
    documents: dict[str, BaseModel] = {
        "submitJob": queued,
        "getJob": finished,
        "listJobs": JobPage(jobs=(finished,), next=None),
        "getReport": report,
        "getGates": gates.check(report, [gates.Gate(metric="mrr", min=0.7)]),
        "compareJobs": comparison.compare([(report, None), (other, None)], metrics=["mrr"]),
        "getCosts": cost_report(gathered, datetime.fromisoformat(ended)),
        "getTrend": trends.trend([other, report], "mrr"),
        "listResults": ResultPage(results=report.systems["default"].results, next=None),
        "cancelJob": cancelled,
        "deleteJob": cancelled,
        "resumeJob": queued.model_copy(update={"status": "running", "started_at": began}),
        "retryJob": finished.model_copy(update={"status": "running", "ended_at": None, "retries": 1}),
        **_of_datasets(),
        **_of_schedules(),
        **_of_alerts(),
    }
    event = {"event": "finished", "id": "finished!.1.0.0", "data": finished.model_dump_json()}
    return {
        "followJob": event,
        **{operation: document.model_dump(mode="json") for operation, document in documents.items()},
    }


def _of_schedules() -> dict[str, BaseModel]:
    job = {"dataset": "handbook", "systems": ["online"], "baseline": LAST_PASSED, "gates": [{"mrr": ">= 0.7"}]}
    run = ScheduledRun(
        slot="2026-01-31T01:30:00+00:00",
        status="finished",
        job=JOB,
        began_at="2026-01-31T01:30:01.245+00:00",
        gates_passed=1,
        gates_missed=0,
    )
    made = "2026-01-30T14:05:00+00:00"
    schedule = JobSchedule(
        name="nightly",
        cron="30 2 * * *",
        zone="Europe/Berlin",
        job=job,
        created_at=made,
        changed_at=made,
        next=tuple(f"2026-02-0{day}T01:30:00+00:00" for day in range(1, 6)),
        last=run,
    )
    return {
        **dict.fromkeys(("createSchedule", "getSchedule", "changeSchedule", "deleteSchedule"), schedule),
        "listSchedules": SchedulePage(schedules=(schedule,), next=None),
        "listScheduledRuns": RunPage(runs=(run,), next=None),
        "runSchedule": ScheduledRun(slot="2026-01-31T09:12:13.456+00:00", trigger="manual", status="waiting"),
    }


def _of_alerts() -> dict[str, BaseModel]:
    when = "2026-01-31T14:05:00.000+00:00"
    missed = Notice(
        id=f"{JOB}:gate_missed:0f3e8c1d2b4a5967",
        kind="gate_missed",
        project="default",
        at=when,
        job=JOB,
        system="default",
        gate="default: mrr >= 0.800",
        metric="mrr",
        value=0.75,
        threshold=0.8,
        cause="threshold",
    )
    webhook = Webhook(
        id=f"wh_{JOB}",
        url="https://alerts.example/ragassay",
        kinds=("gate_missed", "regression"),
        format="standard",
        enabled=True,
        created_at=when,
        last_at=when,
        last_status=204,
    )
    delivery = Delivery(
        id="msg_4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        webhook=webhook.id,
        notice=missed.id,
        kind=missed.kind,
        status="delivered",
        tries=1,
        created_at=when,
        last_at=when,
        last_status=204,
    )
    secret, sent = WebhookSecret(webhook=webhook, secret="whsec_..."), Replayed(deliveries=(delivery.id,))  # noqa: S106
    return {
        "listAlerts": NoticePage(alerts=(missed,), next=None),
        "addWebhook": secret,
        "listWebhooks": WebhookList(webhooks=(webhook,)),
        **dict.fromkeys(("getWebhook", "changeWebhook", "deleteWebhook"), webhook),
        "rotateSecret": secret.model_copy(update={"previous_until": "2026-02-01T14:05:00+00:00"}),
        "listDeliveries": DeliveryPage(deliveries=(delivery,), next=None),
        **dict.fromkeys(("testWebhook", "replayDeliveries"), sent),
    }


def _of_datasets() -> dict[str, BaseModel]:
    when = datetime(2026, 1, 31, 14, 5, tzinfo=UTC)
    sample = Sample(
        query_id="q1", query="When do backups start?", ground_truth_answer=("At 02:00.",), category="factual"
    )

    def version(name: str, digit: str, rows: int, lineage: Lineage) -> DatasetVersion:
        digest = digit * 32
        return DatasetVersion(
            name=name, digest=digest, rows=rows, created_at=when, imported_at=when, lineage=lineage, description="Ours"
        )

    columns = {"query_id": "query_id", "query": "question", "ground_truth_answer": "reference", "category": "category"}
    kept = version("backups", "3a", 2, Lineage(action="import", options={"columns": columns}))
    parent = f"{kept.name}@{kept.digest}"
    parts = [
        version(
            f"backups-{part}", digit, 1, Lineage(action="split", parent=parent, options={"part": part, "share": 0.5})
        )
        for part, digit in (("train", "4b"), ("test", "5c"))
    ]
    made = version("made", "6d", 1, Lineage(action="generate", options={"by": "templates 1", "count": 1, "seed": 0}))
    return {
        "uploadDataset": KeptVersion(**dict(kept)),
        "getDataset": kept,
        "listDatasets": DatasetPage(datasets=(kept,), next=None),
        "listVersions": DatasetPage(datasets=(kept,), next=None),
        "listRows": RowPage(rows=(sample,), next="1"),
        "describeDataset": describe(NamedRows(kept.reference, kept.digest, lambda: iter([sample]))),
        "diffDatasets": DatasetDifference(
            a=kept.reference,
            b=parts[0].reference,
            unchanged=1,
            added=(),
            removed=(NamedRow(query_id="q2", query="How long are backups kept?"),),
            changed=(),
        ),
        "splitDataset": SplitVersions(
            parts=tuple(SplitPart(name=part, share=0.5, rows=1, labels={"factual": 1}) for part in ("train", "test")),
            groups=2,
            largest_group=1,
            leaks=(Leak(shared="relevant document", parts=("train", "test"), rows=1, examples=("q2",)),),
            warnings=(),
            versions=tuple(parts),
        ),
        "generateDataset": GeneratedVersion(
            passages=1, candidates=1, dropped=(), not_drawn=0, rows=1, made_by={"number": 1}, version=made
        ),
        "deleteDataset": DeletedVersions(deleted=(kept,)),
    }
