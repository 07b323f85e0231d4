"""The comparison document: two or more systems, what differs between them, and what the data can't tell.

Everywhere ``a`` is the baseline and ``b`` the other system, and a delta is b - a. ``ragassay info schema comparison`` prints
the JSON schema. A figure that is unknown is null, with a reason.
"""

from __future__ import annotations

from typing import Literal

from ragassay.analysis.difference import Difference
from ragassay.core.eval_config import Correction
from ragassay.core.models import FrozenModel, Usage
from ragassay.core.report import Distribution, FixFirst, Source
from ragassay.core.statistics import CostPerAccurate, IncrementalCost, ParetoFront


class ComparedSystem(FrozenModel):
    """One system of one run, under its name in this comparison. ``measured``: latency, tokens and cost over all its rows."""

    run: str
    system: str
    dataset: Source
    responses: Source | None
    judge: str
    queries: int
    accuracy: float | None
    cost_usd: float | None
    latency_p50_ms: float | None
    measured: dict[str, Distribution]
    cost_per_accurate_answer: CostPerAccurate
    fix_first: FixFirst | None


class Matching(FrozenModel):
    """How many rows of the two systems are about the same query; ``rows.match`` defines that.

    ``only_a`` and ``only_b`` rows have no partner. ``different_text`` ids ask something else on the other side.
    ``different_truth`` matched rows have another ground truth or number of relevant documents.
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


class Regression(FrozenModel):
    """One query on which b scores worse than a, with both answers and ``why``: the reason given with one of b's scores.

    ``query_id`` is a's; ``query_id_b`` is another one if rows without ids of their own were matched on their text.
    ``scores`` has a's and b's score of each compared metric that is worse on this query.
    """

    query_id: str
    query_id_b: str
    query: str
    scores: dict[str, tuple[float, float]]
    answer_a: str | None = None
    answer_b: str | None = None
    why: str | None = None


class Pair(FrozenModel):
    """The baseline ``a`` against one other system ``b``.

    ``measured`` differences are of latency, tokens and cost; they and those of ``slices`` are exploratory and untested.
    ``corrected_by``: what figures are by that are not the judge's own.
    """

    a: str
    b: str
    matching: Matching
    metrics: dict[str, Difference]
    measured: dict[str, Difference]
    incremental_cost: IncrementalCost
    slices: dict[str, dict[str, dict[str, Difference]]]
    regressions: tuple[Regression, ...]
    verdict: tuple[str, ...]
    corrected_by: str = "labels"


class Pairwise(FrozenModel):
    """The model that was asked which answer is better, in both orders for ``asked`` queries, and what that took.

    ``flipped``: for how many it named the same place in both, which is a tie.
    """

    judge: str
    asked: int
    flipped: int
    usage: Usage
    waste: Usage


class Comparison(FrozenModel):
    """Systems compared with a baseline. The ``family`` p values of the ``primary`` metrics were corrected together.

    ``pairwise``: if a model compared the answers, which is the metric ``preference``.
    With several datasets a side is ``SYSTEM on DATASET``, and a pair is of one dataset, which its differences name.
    """

    schema_version: Literal[2] = 2
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
    pareto: ParetoFront
    verdict: tuple[str, ...]
    pairwise: Pairwise | None = None
