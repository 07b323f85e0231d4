"""One job from submission to report, as the OpenAPI document shows it; made of the real documents, so never stale."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ragassay import comparison, gates, trends
from ragassay.documents import (
    Aggregate,
    Bounds,
    CostPerAccurate,
    Distribution,
    Evaluation,
    Job,
    JobPage,
    Progress,
    Provenance,
    Refusals,
    Report,
    ResultPage,
    RunInfo,
    Source,
    SystemReport,
)
from ragassay.models import JobSpec, Result, Score, SentenceVerdict, Usage, Verdict
from ragassay.stats import Interval

JOB = "b1946ac92492d2347c6235b4d2611184"
_BEGAN, _ENDED = "2026-03-02T09:15:00.125+00:00", "2026-03-02T09:15:01.940+00:00"
_DIGEST = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
_METRICS = ("mrr", "faithfulness")
SUBMISSION: dict[str, Any] = {
    "name": "nightly",
    "dataset": "rivers",
    "judge": "local",
    "metrics": list(_METRICS),
    "samples": [
        {
            "query_id": "q1",
            "query": "Where does the Seine flow into the sea?",
            "ground_truth_answer": "At Le Havre.",
            "relevant_doc_ids": ["seine"],
            "response": {
                "answer": "It reaches the sea at Le Havre.",
                "contexts": ["The Seine flows through Paris and into the sea at Le Havre."],
                "retrieved_doc_ids": ["seine", "rhone"],
                "latency_ms": 412.5,
                "cost_usd": 0.0007,
            },
        }
    ],
}


def responses() -> dict[str, dict[str, Any]]:
    """{operation id: example of its successful answer}."""
    queued = Job(
        id=JOB,
        name="nightly",
        status="queued",
        created_at=_BEGAN,
        judge="local",
        metrics=_METRICS,
        progress=Progress(rows=1, done=0, failed=0),
    )
    finished = queued.model_copy(
        update={
            "status": "finished",
            "started_at": _BEGAN,
            "ended_at": _ENDED,
            "progress": Progress(rows=1, done=1, failed=0),
        }
    )
    cancelled = queued.model_copy(update={"status": "cancelled", "ended_at": _ENDED})
    report = _report()
    other = report.model_copy(update={"run": report.run.model_copy(update={"id": JOB[::-1]})})
    documents: dict[str, BaseModel] = {
        "submitJob": queued,
        "getJob": finished,
        "listJobs": JobPage(jobs=(finished,), next=None),
        "getReport": report,
        "getGates": gates.check(report, [gates.Gate(metric="mrr", min=0.7)]),
        "compareJobs": comparison.compare(comparison.entrants([(report, None), (other, None)]), metrics=["mrr"]),
        "getTrend": trends.trend([other, report], "mrr"),
        "listResults": ResultPage(results=(_result(),), next=None),
        "cancelJob": cancelled,
        "deleteJob": cancelled,
        "resumeJob": queued.model_copy(update={"status": "running", "started_at": _BEGAN}),
    }
    return {operation: document.model_dump(mode="json") for operation, document in documents.items()}


def _result() -> Result:
    sentence = SentenceVerdict(id="A1", text="It reaches the sea at Le Havre.", support="supported", evidence=("C1.1",))
    return Result(
        query_id="q1",
        system="default",
        query="Where does the Seine flow into the sea?",
        answer="It reaches the sea at Le Havre.",
        ground_truth_answer=("At Le Havre.",),
        retrieved_doc_ids=("seine", "rhone"),
        relevant=1,
        latency_ms=412.5,
        cost_usd=0.0007,
        scores={"mrr": Score(value=1.0), "faithfulness": Score(value=1.0)},
        verdict=Verdict(judge="local", sentences=(sentence,), has_contexts=True, has_truth=True),
        duration_ms=1.1,
    )


def _report() -> Report:
    source = Source(name="rivers", digest=_DIGEST, rows=1)
    return Report(
        run=RunInfo(id=JOB, status="finished", created_at=_BEGAN, finished_at=_ENDED, duration_s=1.815),
        provenance=Provenance(
            ragassay="0.1.0",
            code_digest=_DIGEST,
            python="3.12.4",
            packages={"numpy": "2.1.0"},
            dataset=source,
            systems={"default": source.model_copy(update={"name": "default"})},
            judge={"name": "local"},
            embeddings=None,
            metrics=_METRICS,
            configuration=JobSpec(name="nightly", metrics=_METRICS),
            configuration_digest=_DIGEST,
        ),
        systems={"default": _system()},
    )


def _system() -> SystemReport:
    one, none = _interval("t"), Distribution(n=0, missing=1)
    latency = Distribution(n=1, missing=0, mean=412.5, p50=412.5, p90=412.5, p95=412.5, p99=412.5, total=412.5)
    cost = Distribution(n=1, missing=0, mean=0.0007, p50=0.0007, p90=0.0007, p95=0.0007, p99=0.0007, total=0.0007)
    mean = Aggregate(
        kind="quality",
        better="higher",
        mean=1.0,
        n=1,
        missing=0,
        failed=0,
        reasons={},
        interval=one,
        bounds=Bounds(worst=1.0, best=1.0),
    )
    return SystemReport(
        queries=1,
        missing_from_run=0,
        failed_responses=0,
        queries_without_relevant=0,
        queries_without_hit=0,
        metrics={"mrr": mean.model_copy(update={"kind": "retrieval"}), "faithfulness": mean},
        slices={},
        latency_ms=latency,
        retrieval_latency_ms=none,
        generation_latency_ms=none,
        throughput_qps=None,
        input_tokens=none,
        output_tokens=none,
        cost_usd=cost,
        priced_by_us=0,
        cost_per_accurate_answer=CostPerAccurate(
            value=None,
            interval=_interval("bootstrap"),
            cost_usd=0.0,
            accurate=0,
            n=0,
            missing=1,
            reason="no row has both a known cost and an accuracy",
        ),
        refusals=Refusals(judged=1, refused=0, on_answerable=0, on_unanswerable=0, unanswerable=0),
        evaluation=Evaluation(usage=Usage(), waste=Usage(), evidence_dropped=0, support_withdrawn=0, suspicious=0),
        results=(_result(),),
    )


def _interval(method: str) -> Interval:
    return Interval(level=0.95, method=method, reason="an interval needs two values, there is 1")
