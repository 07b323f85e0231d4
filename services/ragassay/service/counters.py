"""What is counted over all jobs, in Redis: by the scripts that change a job, so that nothing counts twice.

One hash, ``ra:counters``: a name, then the values of its labels. ``commit.lua`` counts rows, ``settle.lua`` what a worker
noted of its calls (``observability.count``) in the same step as the call. What a killed worker had not settled is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from ragassay.observability import BUCKETS_S, SEPARATOR

KEY = "ra:counters"
MAX_COUNTERS = 2000  # of different labels; models beyond them are "other"


class MetricFamily(NamedTuple):
    """A metric as ``/metrics`` has it, without the prefix ``ragassay_``. The first label is a model where there is one."""

    name: str
    labels: tuple[str, ...]
    about: str


COUNTERS = (
    MetricFamily("jobs_ended", ("status",), "Jobs that finished, failed or were cancelled."),
    MetricFamily("chunks", (), "Chunks whose results were kept."),
    MetricFamily("rows", (), "Rows whose results were kept."),
    MetricFamily("rows_failed", (), "Rows of them that have a score missing because something failed."),
    MetricFamily("leases_expired", (), "Chunks taken back because their worker was silent for as long as a lease."),
    MetricFamily("provider_requests", ("model", "outcome"), "Requests to models: answered, or the code of the error."),
    MetricFamily("provider_retries", ("model",), "Requests that were made again."),
    MetricFamily("provider_outages", ("model",), "Times that a worker took a provider for down."),
    MetricFamily("uncertain_calls", (), "Calls that may have been paid although no reply came."),
    MetricFamily(
        "tokens", ("model", "spent_on", "direction"), "Tokens by the provider's bill: judging, serving or waste."
    ),
    MetricFamily("cost_usd", ("model", "spent_on"), "What calls cost in USD, where the model has a price."),
    MetricFamily("unpriced_calls", ("model",), "Replies whose price is unknown, and not in the cost."),
    MetricFamily("cache_hits", (), "Calls that an earlier job had paid for."),
    MetricFamily("system_requests", ("outcome",), "Queries to systems that are called: answered, or failed."),
    MetricFamily("notifications", ("kind",), "Notifications, each counted once."),
    MetricFamily("deliveries", ("outcome",), "Notifications for a webhook: delivered, or failed after the last try."),
)
PROVIDER_SECONDS = MetricFamily("provider_seconds", ("model",), "How long a model took to reply, in seconds.")


def read(redis: Any) -> dict[str, dict[tuple[str, ...], float]]:
    """The value of each counter by its name and labels. A hash of another version may hold others."""
    read: dict[str, dict[tuple[str, ...], float]] = {}
    for field, amount in redis.hgetall(KEY).items():
        name, *labels = field.decode().split(SEPARATOR)
        read.setdefault(name, {})[tuple(labels)] = float(amount)
    return read


def buckets(counted: dict[tuple[str, ...], float]) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """For each first label of a histogram, its buckets as Prometheus has them: how many took so long or less."""
    for first in sorted({labels[0] for labels in counted}):
        bounds = (*map(str, BUCKETS_S), "+Inf")
        amounts = accumulate(counted.get((first, bound), 0.0) for bound in bounds)
        yield first, list(zip(bounds, amounts, strict=True))
