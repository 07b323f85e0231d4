"""The comparison document: two or more systems, what differs between them, and what the data can't tell.

Everywhere ``a`` is the baseline and ``b`` the other system, and a delta is b - a. ``ragassay schema comparison`` prints
the JSON schema. A figure that is unknown is null, and a reason stands beside it.
"""

from __future__ import annotations

from typing import Literal

from ragassay.core.cost_sums import CostPerAccurate
from ragassay.core.models import FrozenModel
from ragassay.core.report import Distribution, Source
from ragassay.metrics.failures import Failures
from ragassay.stats import (
    CorrectedMean,
    Correction,
    IncrementalCost,
    Interval,
    NonInferiority,
    PairedTest,
    ParetoFront,
    UnpairedTest,
)

DeltaOutcome = Literal["better", "worse", "no difference shown", "can't tell"]


class ComparedSystem(FrozenModel):
    """One system of one run, under its name in this comparison."""

    run: str
    system: str
    dataset: Source
    responses: Source | None
    judge: str
    queries: int
    accuracy: float | None
    cost_usd: float | None
    latency_p50_ms: float | None
    cost_per_accurate_answer: CostPerAccurate
    failures: Failures


class Matching(FrozenModel):
    """How many rows of the two systems are about the same query; ``pairing.match`` defines that.

    ``only_a`` and ``only_b`` rows have no partner. ``different_text`` ids ask something else on the other side.
    ``different_truth`` matched rows have another ground truth or number of relevant documents. Of ``only_a``,
    ``repeated`` rows ask what b asks too, more than once on either side, so that which belong together can't be told, and
    ``other_ids`` what b asks under another id of its own.
    """

    method: Literal["paired", "unpaired"]
    same_dataset: bool
    rows_a: int
    rows_b: int
    paired: int
    only_a: int
    only_b: int
    different_text: int
    different_truth: int
    repeated: int = 0
    other_ids: int = 0


class Delta(FrozenModel):
    """One metric of b against a.

    ``n`` rows were scored on both sides (0 where no query is shared), ``n_a`` and ``n_b`` on each; ``missing_a`` and
    ``missing_b`` count the others by reason. Paired figures cover the matched rows only. ``interval`` is that of the
    delta, at level 1 - alpha, not corrected; a gate on this difference tests the same one. ``p`` is that of the
    randomisation test, of Welch's where unpaired; ``p_corrected`` takes the primary metrics of all systems into account and
    decides ``outcome`` and ``mark``. If it finds nothing and ``interval`` leaves out 0, the outcome is "can't tell", with the
    ``reason``. An ``exploratory`` metric is not among these: its outcome goes by its own p. Several answers to one question
    are averaged before means, tests and intervals. ``wins`` are questions on which b is better, whichever direction is good.
    ``detectable`` is the least true difference that as many rows show with a chance of 80 % at that many tests;
    ``not_worse`` asks whether b is at most a margin worse. ``by_labels``: the delta as labels on both sides correct it; where
    it has a mean, ``p`` is its own, and nothing is said of ``detectable`` and ``not_worse``, which go by the judge's scores.
    """

    kind: str
    better: Literal["higher", "lower"]
    n: int
    n_a: int
    n_b: int
    missing_a: dict[str, int]
    missing_b: dict[str, int]
    mean_a: float | None
    mean_b: float | None
    delta: float | None
    interval: Interval
    p: float | None
    p_corrected: float | None
    mark: Literal["", "*", "**", "***"]
    outcome: DeltaOutcome
    exploratory: bool = False
    reason: str | None = None
    wins: int | None = None
    losses: int | None = None
    ties: int | None = None
    detectable: float | None = None
    not_worse: NonInferiority | None = None
    paired: PairedTest | None = None
    unpaired: UnpairedTest | None = None
    by_labels: CorrectedMean | None = None

    @property
    def decided(self) -> tuple[float | None, Interval]:
        """The delta that the outcome is about, and its interval: by labels, where there are enough, else the judge's own."""
        if self.by_labels and self.by_labels.mean is not None:
            return self.by_labels.mean, self.by_labels.interval
        return self.delta, self.interval

    @property
    def labels(self) -> int | None:
        """How many labels decide; None where the judge's own scores do."""
        return self.by_labels.labels if self.by_labels and self.by_labels.mean is not None else None


class SliceDelta(FrozenModel):
    """One metric within one slice. Exploratory: nothing corrects for the number of slices looked at."""

    n: int
    mean_a: float | None
    mean_b: float | None
    delta: float | None
    interval: Interval


class RowDelta(FrozenModel):
    """One query on which b scores worse than a, with both answers and the reasons given with either score.

    ``query_id`` is a's; ``query_id_b`` is another one where rows without ids of their own were matched on their text.
    ``worse`` has both scores of each compared metric that is worse on this query.
    """

    query_id: str
    query_id_b: str
    query: str
    a: float
    b: float
    delta: float
    worse: dict[str, tuple[float, float]]
    answer_a: str | None = None
    answer_b: str | None = None
    reason_a: str | None = None
    reason_b: str | None = None


class OperationalDelta(FrozenModel):
    """Latency, tokens or cost. ``a`` and ``b`` are over all rows of a system, the rest over ``n`` pairs that report it.

    Where the systems share no query ``n`` is 0, and the rest is over all rows. ``ratio`` is mean b / mean a.
    """

    a: Distribution
    b: Distribution
    n: int
    delta: float | None
    ratio: float | None
    interval: Interval
    percentiles: dict[str, float]


class Pair(FrozenModel):
    """The baseline ``a`` against one other system ``b``. ``corrected_by``: what figures are by that are not the judge's own."""

    a: str
    b: str
    matching: Matching
    metrics: dict[str, Delta]
    measured: dict[str, OperationalDelta]
    incremental_cost: IncrementalCost
    slices: dict[str, dict[str, dict[str, SliceDelta]]]
    regressions: dict[str, tuple[RowDelta, ...]]
    verdict: tuple[str, ...]
    corrected_by: str = "labels"


class Pareto(FrozenModel):
    """Which systems are Pareto-optimal on ``axes``; an axis that no system reports is left out."""

    axes: tuple[str, ...]
    systems: ParetoFront


class Comparison(FrozenModel):
    """Systems compared with a baseline. The ``family`` p values of the ``primary`` metrics were corrected together."""

    schema_version: Literal[1] = 1
    kind: Literal["comparison"] = "comparison"
    ragassay: str
    baseline: str
    sides: dict[str, ComparedSystem]
    metrics: tuple[str, ...]
    primary: tuple[str, ...]
    alpha: float
    correction: Correction
    family: int
    seed: int
    warnings: tuple[str, ...]
    pairs: tuple[Pair, ...]
    pareto: Pareto
    verdict: tuple[str, ...]
