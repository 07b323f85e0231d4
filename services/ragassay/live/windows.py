"""What jobs found of the requests of an hour, summed up in windows, and compared with the windows before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from ragassay.analysis.difference import Contrast, Difference, known_metric, outcome_of
from ragassay.core.models import Result
from ragassay.core.statistics import Estimate
from ragassay.evaluation.aggregate import distribution, ratio_sums, share_of
from ragassay.live.models import Counts, LiveWindow, WorstRow, kind_of
from ragassay.live.store import ChosenRow, Figures
from ragassay.metrics.failures import failure
from ragassay.metrics.metric import Metric
from ragassay.stats.intervals import Floats, mean_interval
from ragassay.stats.ratio import Stratum, cost_per_accurate
from ragassay.stats.tests import correct, never_zero, p_of_t

LEVEL = 0.95
MIN_ROWS = 30  # on each side of a comparison
_MEASURES = ("latency_ms", "cost_usd", "refused")
LOOK_AGAIN = 1.5  # times the rows of the look before


def figures_of(rows: Mapping[str, ChosenRow], results: Iterable[Result]) -> Figures:
    """The columns of a job's rows, as a window keeps them; a row without a result is left out."""
    evaluated = [one for one in results if one.query_id in rows]
    metrics = sorted({name for one in evaluated for name in one.scores})
    scores = {name: [one.scores.get(name) for one in evaluated] for name in metrics}
    spent = [one.evaluation.cost_usd for one in evaluated] + [one.waste.cost_usd for one in evaluated]
    return {
        "traces": [one.query_id for one in evaluated],
        "sampled": [rows[one.query_id].cause == "sampled" for one in evaluated],
        "metrics": {name: [score and score.value for score in of] for name, of in scores.items()},
        "reasons": {
            name: [None if score is None or score.value is not None else [score.missing, score.reason] for score in of]
            for name, of in scores.items()
        },
        "latency_ms": [one.latency_ms for one in evaluated],
        "cost_usd": [one.cost_usd for one in evaluated],
        "refused": [one.verdict.refusal if one.verdict else None for one in evaluated],
        "failures": [failure(one) for one in evaluated],
        "judging_usd": None if None in spent else sum(cost or 0.0 for cost in spent),
    }


class Part(NamedTuple):
    """What one job found of the requests of an hour."""

    hour: str
    job: str
    figures: Figures


class WindowRows:
    """The rows of some hours. Means and intervals are of the ``sampled`` ones: those chosen by the rate.

    ``custom``: metrics that the stream's evaluation defines itself (``custom_metrics``).
    """

    def __init__(
        self, by_hour: Mapping[str, Mapping[str, Figures]], custom: Mapping[str, Metric] = MappingProxyType({})
    ) -> None:
        """``by_hour``: for each job the figures of its rows, as ``figures_of`` gave them."""
        self.parts = [Part(hour, job, of) for hour, jobs in by_hour.items() for job, of in sorted(jobs.items())]
        self.custom = custom
        self.traces = self._joined("traces")
        self.sampled = np.array(self._joined("sampled"), bool)

    def _joined(self, name: str) -> list[Any]:
        return [value for part in self.parts for value in part.figures[name]]

    def _of_metric(self, kind: Literal["metrics", "reasons"], name: str) -> list[Any]:
        """A value for each row; None in the rows of a job that was not asked for the metric."""
        columns = (part.figures[kind].get(name) or [None] * len(part.figures["traces"]) for part in self.parts)
        return [value for column in columns for value in column]

    @property
    def metrics(self) -> list[str]:
        """The metrics that some row was asked for."""
        return sorted({name for part in self.parts for name in part.figures["metrics"]})

    def column(self, name: str) -> Floats:
        """A value for each sampled row: a metric or a measure; NaN where it has none."""
        raw = self._joined(name) if name in _MEASURES else self._of_metric("metrics", name)
        values: Floats = np.array(raw, np.float64)[self.sampled]
        return values

    def known(self, name: str) -> Floats:
        """The values that there are."""
        column = self.column(name)
        return column[np.isfinite(column)]

    def estimate(self, name: str) -> Estimate:
        """The mean of a metric, its interval, and why rows have none."""
        values, metric = self.known(name), known_metric(name, self.custom)
        reasons = zip(self._of_metric("reasons", name), self.sampled, strict=True)
        chosen = [reason for reason, sampled in reasons if sampled]
        missing = Counter(str(reason[1]) for reason in chosen if reason)
        return Estimate(
            value=float(values.mean()) if len(values) else None,
            n=len(values),
            missing=dict(sorted(missing.items())),
            failed=sum(bool(reason) and reason[0] == "failed" for reason in chosen),
            interval=mean_interval(
                values,
                level=LEVEL,
                bounds=metric.bounds if metric else None,
                binary=metric is not None and metric.binary,
            ),
            sd=float(values.std(ddof=1)) if len(values) > 1 else None,
            reason=None if len(values) else "no row was scored",
        )

    def worst(self, metric: str, limit: int) -> list[WorstRow]:
        """The rows with the worst scores, none with the best score that there is; of equal ones the newest first."""
        known, scores = known_metric(metric, self.custom), self._of_metric("metrics", metric)
        sign = -1.0 if known is not None and known.better == "lower" else 1.0
        best = max(sign * end for end in known.bounds) if known is not None and known.bounds else math.inf
        scored = [row for row, score in enumerate(scores) if score is not None and sign * score < best]
        sources = [(part.hour, part.job) for part in self.parts for _ in part.figures["traces"]]
        failures = self._joined("failures")
        worst = []
        for row in sorted(scored, key=lambda row: (sign * scores[row], -row))[:limit]:
            (hour, job), trace = sources[row], self.traces[row]
            worst.append(WorstRow(job=job, trace=trace, hour=hour, value=scores[row], failure=failures[row]))
        return worst

    def window(
        self, stream: str, name: str, counts: Counts, *, reference: Sequence[str] = (), drift: Sequence[Difference] = ()
    ) -> LiveWindow:
        """The figures of the window of that name."""
        cost, accurate = self.column("cost_usd"), self.column("accurate")
        sums, refused = ratio_sums(cost, accurate), self.known("refused")
        failures = zip(self._joined("failures"), self.sampled, strict=True)
        spent = [part.figures["judging_usd"] for part in self.parts]
        return LiveWindow(
            stream=stream,
            kind=kind_of(name),
            window=name,
            counts=counts,
            rows=int(self.sampled.sum()),
            always=len(self.traces) - int(self.sampled.sum()),
            metrics={metric: self.estimate(metric) for metric in self.metrics},
            latency_ms=distribution(self.column("latency_ms")),
            cost_usd=distribution(cost),
            cost_per_accurate_answer=cost_per_accurate(sums, [Stratum(sums, sums.n)], len(cost), level=LEVEL),
            judging_usd=None if None in spent else math.fsum(spent),
            refusals=share_of(int(refused.sum()), len(refused), level=LEVEL, undefined="no answer was judged"),
            failures=dict(Counter(kind for kind, sampled in failures if kind and sampled).most_common()),
            reference=tuple(reference),
            drift=tuple(drift),
        )


def drift(
    before: WindowRows, now: WindowRows, *, names: tuple[str, str], stream: str, alpha: float
) -> list[Difference]:
    """Each metric of two windows that has enough rows in both, the later against the earlier one, corrected by Holm over
    the metrics. What ``compare`` does with systems that share no question; here both are one system's traffic.
    """
    contrast = Contrast(*names, stream, alpha, custom=now.custom)
    differences = []
    for name in now.metrics:
        metric = known_metric(name, now.custom)
        a, b = before.known(name), now.known(name)
        if metric is not None and min(len(a), len(b)) >= MIN_ROWS:
            difference = contrast.unpaired(name, a, b, better=metric.better)
            differences.append(difference.model_copy(update=_as_one_distribution(difference, a, b)))
    decided = []
    for one, p in zip(differences, correct([one.p for one in differences], "holm"), strict=True):
        outcome, reason = outcome_of(one, p, alpha, len(differences))
        decided.append(one.model_copy(update={"p_adjusted": p, "outcome": outcome, "reason": reason}))
    return decided


def _as_one_distribution(difference: Difference, a: Floats, b: Floats) -> dict[str, Any]:
    """The p of no drift: that both windows are draws from one distribution. It is the larger of Welch's and of Student's with
    the spread of both together: a small window that happens to be constant has no spread to test against. If both are
    constant and differ, it is that of the only two among all permutations that part them so.
    """
    if difference.p is None:
        if float(a[0]) == float(b[0]):
            return {}
        return {"p": never_zero(2 / math.comb(len(a) + len(b), len(a))), "reason": None}
    spread = float(((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum())
    df = len(a) + len(b) - 2
    error = math.sqrt(spread / df * (1 / len(a) + 1 / len(b)))
    return {"p": max(difference.p, p_of_t(float(b.mean() - a.mean()) / error, df))}


def is_due(rows: int, last: int) -> bool:
    """Is it time for a look at a window that has so many rows? Few looks leave each the larger part of alpha."""
    return rows >= MIN_ROWS and rows >= LOOK_AGAIN * last


def alpha_of(look: int, alpha: float) -> float:
    """The part of alpha that the n-th look at a window may use, from 1: all looks together use no more than alpha."""
    return alpha / (look * (look + 1))
