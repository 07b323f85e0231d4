"""``/metrics``, for Prometheus: what this API answered, and what all workers did. The only importer of prometheus_client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from redis.exceptions import RedisError

from ragassay.api.problems import Refused
from ragassay.api.security import Operator, bearer, is_secret, unauthorized
from ragassay.core.settings import Settings
from ragassay.service.counters import COUNTERS, PROVIDER_SECONDS, buckets, read
from ragassay.service.health import health
from ragassay.service.jobs import Jobs
from ragassay.service.redis import RedisStore

KEPT_S = 2.0  # several scrapers at once ask Redis once
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PREFIX = "ragassay_"
# name and meaning, by the field of ServiceHealth
_HEALTH = {
    "chunks_waiting": ("chunks_waiting", "Chunks of queued and running jobs that no worker has."),
    "chunks_leased": ("chunks_leased", "Chunks, and reports in the making, that workers have."),
    "chunk_age_s": ("chunk_age_seconds", "Since the oldest job with waiting chunks was submitted."),
    "unclaimed_s": ("unclaimed_seconds", "Longest time that a job with waiting chunks has got no worker."),
    "jobs_waiting": ("jobs_waiting", "Jobs that wait for a provider which is down."),
    "outage_s": ("outage_seconds", "Longest time that a job has waited for its provider."),
    "workers": ("workers", "Workers that sent a heartbeat in the last 30 s."),
    "processes": ("worker_processes", "Processes that they have for chunks."),
    "beats": ("beats", "Schedulers that sent a heartbeat in the last 60 s."),
    "schedule_overdue_s": ("schedule_overdue_seconds", "Longest time that a due schedule has waited for a scheduler."),
}
_REDIS = {  # by the field of RedisServer
    "used_bytes": ("redis_memory_bytes", "Memory that it uses."),
    "limit_bytes": ("redis_memory_limit_bytes", "Memory that it may use; 0: no limit."),
    "problems": ("redis_problems", "Findings about its configuration that /readyz names: what could lose jobs."),
}
_REDIS_UP = ("redis_up", "1 where the Redis of the jobs answers.")


class Requests:
    """What this process of the API answered; others have their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        about = "Requests that were answered, by the template of their route."
        self._answered = Counter(
            f"{_PREFIX}http_requests", about, ("route", "method", "status"), registry=self.registry
        )
        about = "Seconds until the answer began."
        self._seconds = Histogram(
            f"{_PREFIX}http_request_seconds",
            about,
            ("route", "method"),
            buckets=_REQUEST_SECONDS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one."""
        self._answered.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)


class StoreCollector(Collector):
    """Numbers from Redis, the same in every API process; read again after two seconds."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._known: tuple[float, list[Metric]] = (-KEPT_S, [])

    def describe(self) -> Iterable[Metric]:
        """Nothing: to be registered, a collector is not asked for its numbers."""
        return []

    def collect(self) -> Iterable[Metric]:
        """All metrics; while Redis is away, only that it is."""
        with self._lock:
            if time.monotonic() - self._known[0] > KEPT_S:
                metrics = self._read()  # may take seconds while Redis hangs
                self._known = time.monotonic(), metrics
            return self._known[1]

    def _read(self) -> list[Metric]:
        try:
            return [*_counter_metrics(self._jobs.store), *_health_metrics(self._jobs.store)]
        except RedisError:
            return [_gauge(*_REDIS_UP, 0)]


def _counter_metrics(store: RedisStore) -> list[Metric]:
    """What scripts and workers counted since the first job."""
    known = read(store.redis)
    metrics: list[Metric] = []
    for family in COUNTERS:
        counter = CounterMetricFamily(_PREFIX + family.name, family.about, labels=family.labels)
        values = known.get(family.name, {} if family.labels else {(): 0.0})
        for labels, value in values.items():
            if len(labels) == len(family.labels):
                counter.add_metric(labels, value)
        metrics.append(counter)
    seconds = HistogramMetricFamily(
        _PREFIX + PROVIDER_SECONDS.name, PROVIDER_SECONDS.about, labels=PROVIDER_SECONDS.labels
    )
    sums = known.get(f"{PROVIDER_SECONDS.name}_sum", {})
    for model, amounts in buckets(known.get(PROVIDER_SECONDS.name, {})):
        seconds.add_metric([model], amounts, sums.get((model,), 0.0))
    return [*metrics, seconds]


def _health_metrics(store: RedisStore) -> list[Metric]:
    """What waits, who works on it, whether nightly runs begin, and the Redis of the jobs."""
    now = health(store)
    about = "Jobs that have not ended; paused: the budget is reached."
    by_status = GaugeMetricFamily(f"{_PREFIX}jobs", about, labels=("status",))
    for status, number in now.jobs.items():
        by_status.add_metric([status], number)
    (server,) = now.redis
    redis = {**server.model_dump(), "limit_bytes": server.limit_bytes or 0, "problems": len(server.problems)}
    return [
        by_status,
        *(_gauge(*named, getattr(now, field)) for field, named in _HEALTH.items()),
        _gauge(*_REDIS_UP, 1),
        *(_gauge(*named, redis[field]) for field, named in _REDIS.items()),
    ]


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, about, value=value)


async def _metrics_key(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> None:
    settings: Settings = request.app.state.settings
    if not is_secret(given.credentials if given else None, settings.metrics_key or ""):
        raise unauthorized(of=", with the value of RAGASSAY_METRICS_KEY")


async def _operator(caller: Operator) -> None:
    if not caller.everywhere:
        hint = "use RAGASSAY_METRICS_KEY, or the bootstrap key"
        raise Refused(403, "forbidden", "a project's key may not read the numbers of all projects", hint=hint)


def router(settings: Settings) -> APIRouter:
    """``/metrics``, which is of all projects: for the holder of the key for it, else for the service's operator."""
    routes = APIRouter(tags=["health"], dependencies=[Depends(_metrics_key if settings.metrics_key else _operator)])
    routes.add_api_route("/metrics", prometheus_metrics, response_class=PlainTextResponse)
    return routes


def prometheus_metrics(request: Request) -> Response:
    """Numbers of all jobs in the text format of Prometheus. For the key RAGASSAY_METRICS_KEY, else the bootstrap key."""
    requests: Requests = request.app.state.requests
    return Response(generate_latest(requests.registry), media_type=CONTENT_TYPE_LATEST)
