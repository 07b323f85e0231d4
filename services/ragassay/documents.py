"""The documents that ragassay writes. Each is versioned; a field that is unknown is null and says why beside it."""

from __future__ import annotations

import re
from typing import Any, Literal

from ragassay.models import JobSpec, Noun, Result, Usage
from ragassay.stats import Interval

JOB_ID = re.compile("[0-9a-f]{32}")


class Bounds(Noun):
    """What a mean would be if every missing score were the worst, or the best, that the metric can give."""

    worst: float
    best: float


class Aggregate(Noun):
    """One metric over many rows. A mean never travels alone.

    ``n`` rows were scored, ``missing`` were not: ``failed`` of those had all the input that was needed. ``reasons``
    counts the missing rows by reason. ``bounds`` is null for metrics without a least and a greatest value.
    """

    kind: str
    better: Literal["higher", "lower"]
    mean: float | None
    n: int
    missing: int
    failed: int
    reasons: dict[str, int]
    interval: Interval
    bounds: Bounds | None = None
    sd: float | None = None


class Distribution(Noun):
    """Mean and percentiles (linear interpolation) over the ``n`` rows that reported a value."""

    n: int
    missing: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    total: float | None = None


class CostPerAccurate(Noun):
    """Total cost of the system over the number of accurate answers, over rows where both are known.

    The sums are kept, so that figures over several runs can be made when the rows are gone.
    """

    value: float | None
    interval: Interval
    cost_usd: float
    accurate: int
    n: int
    missing: int
    reason: str | None = None


class Slice(Noun):
    """The rows that share one value of a field."""

    n: int
    metrics: dict[str, Aggregate]
    cost_per_accurate_answer: CostPerAccurate


class Refusals(Noun):
    """How often the system declined to answer, split by whether the query can be answered from the documents."""

    judged: int
    refused: int
    on_answerable: int
    on_unanswerable: int
    unanswerable: int


class Evaluation(Noun):
    """What the evaluation itself spent; ``waste`` was paid for replies that could not be used."""

    usage: Usage
    waste: Usage
    evidence_dropped: int
    support_withdrawn: int
    suspicious: int


class SystemReport(Noun):
    """One system on one dataset."""

    queries: int
    missing_from_run: int
    failed_responses: int
    queries_without_relevant: int
    queries_without_hit: int
    metrics: dict[str, Aggregate]
    slices: dict[str, dict[str, Slice]]
    latency_ms: Distribution
    retrieval_latency_ms: Distribution
    generation_latency_ms: Distribution
    throughput_qps: float | None
    input_tokens: Distribution
    output_tokens: Distribution
    cost_usd: Distribution
    priced_by_us: int
    cost_per_accurate_answer: CostPerAccurate
    refusals: Refusals
    evaluation: Evaluation
    results: tuple[Result, ...]


class Built(Noun):
    """What a system was made of that ragassay ran itself. Its latencies are in its part of the report."""

    configuration: dict[str, Any]
    corpus: str
    corpus_digest: str
    passages: int
    models: tuple[str, ...] = ()
    index_bytes: int | None = None


class Source(Noun):
    """Where data came from: a name, a digest of its content, wherever it lay, and its number of rows.

    ``built``: for a system that ragassay ran itself; the digest is that of its configuration and corpus.
    """

    name: str
    digest: str
    rows: int
    built: Built | None = None


class Provenance(Noun):
    """What has to be the same for the numbers to be the same."""

    ragassay: str
    code_digest: str
    python: str
    packages: dict[str, str]
    dataset: Source
    systems: dict[str, Source]
    judge: dict[str, Any]
    embeddings: str | None
    metrics: tuple[str, ...]
    configuration: JobSpec
    configuration_digest: str


class RunInfo(Noun):
    """The run itself. Times are UTC, ISO 8601."""

    id: str
    status: Literal["finished", "incomplete"]
    created_at: str
    finished_at: str
    duration_s: float


class Stopped(Noun):
    """Judging ended early because a rule was satisfied: ``rows`` of each system were evaluated, ``rows_left`` were not.

    ``calls_saved`` are the judge calls that the rows left would have taken, repairs not counted; 0 for the local judge.
    ``intervals``, by system and metric, are of the means (``of`` "scores") or of system - baseline ("differences"). They
    hold although one looked at them after every chunk and stopped; the usual intervals would not, so that in a report
    the watched means carry these.
    """

    rule: str
    reason: str
    of: Literal["scores", "differences"]
    rows: int
    rows_left: int
    calls_saved: int
    intervals: dict[str, dict[str, Interval]]


class Report(Noun):
    """A combined report: retrieval, answer quality, latency and cost of every system, and how sure each number is.

    Everything outside ``run`` and the measured evaluation durations is the same for the same inputs.
    """

    schema_version: Literal[1] = 1
    kind: Literal["report"] = "report"
    run: RunInfo
    provenance: Provenance
    stopped: Stopped | None = None
    systems: dict[str, SystemReport]


JobStatus = Literal["queued", "running", "paused", "finalizing", "finished", "failed", "cancelled"]
ENDED: tuple[JobStatus, ...] = ("finished", "failed", "cancelled")


class Progress(Noun):
    """How far a job is, in rows (one per query and system). ``failed`` rows lack a score because something broke."""

    rows: int
    done: int
    failed: int


class Alert(Noun):
    """A gate that a job missed, or with only a reason: why its gates could not be checked."""

    gate: str | None = None
    metric: str | None = None
    value: float | None = None
    threshold: float | None = None
    reason: str


class Job(Noun):
    """A submitted evaluation. Times are UTC, ISO 8601; ``uncertain_calls`` may have been paid and were lost.

    ``alerts`` come with the report: one for each gate that was missed.
    """

    id: str
    name: str | None
    status: JobStatus
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    judge: str
    metrics: tuple[str, ...]
    progress: Progress
    uncertain_calls: int = 0
    alerts: tuple[Alert, ...] = ()
    error: str | None = None


class JobPage(Noun):
    """Jobs, newest first; ``next`` asks for the following page, null on the last one."""

    jobs: tuple[Job, ...]
    next: str | None


class ResultPage(Noun):
    """Results in the dataset's order; ``next`` asks for the following page, null on the last one."""

    results: tuple[Result, ...]
    next: str | None
