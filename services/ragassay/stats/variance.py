"""What scores differ by: the query, the answer that was generated for it, and the judging of that answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragassay.stats.columns import Floats, Values, generator, numbers, share_of
from ragassay.stats.distributions import normal_quantile
from ragassay.stats.intervals import MOST_UNITS, clustered_intervals
from ragassay.stats.results import VariancePart, VarianceSplit

FEWEST_QUERIES = 2
_TOGETHER = "query and generation"


def variance_split(
    values: Values,
    sizes: Sequence[int],
    queries: Sequence[int],
    *,
    averaged: bool = True,
    exact: bool = False,
    level: float = 0.95,
    resamples: int = 999,
    seed: int = 0,
) -> VarianceSplit:
    """Components of variance of a nested random-effects model: queries, answers within these, judgings within those.

    ``values`` has the judgings, answer after answer; ``sizes``, shape (answers,), how many each has, and ``queries`` the
    number of its query. ``averaged``: an answer's score is the mean of its judgings, so that more of them make it surer.
    ``exact``: the judge has no noise by construction, and each answer is judged once. Intervals are of the bootstrap over
    queries.

    Method of moments: each level's mean square is equated with its expectation, which takes unequal numbers of answers
    and judgings. An estimate below 0 counts as 0. Without a second judging of some answer there are no parts.
    Source: Searle, Casella and McCulloch, "Variance components" (1992), chapter 3.
    """
    x, level = numbers(values, "values"), share_of(level, "level")
    n, of = np.asarray(sizes, dtype=np.float64), np.asarray(queries, dtype=np.intp)
    places = np.unique(of, return_inverse=True)[1]
    rows, queries_seen = len(n), len(np.unique(of))
    found = VarianceSplit(rows=rows, queries=queries_seen, judgings=len(x), exact=exact)
    if queries_seen < FEWEST_QUERIES:
        what = f"{FEWEST_QUERIES} queries with a score are needed, there are {queries_seen}"
        return found.model_copy(update={"reason": what})
    if not exact and len(x) == rows:
        return found.model_copy(update={"reason": "no answer was judged twice"})
    nested = rows > queries_seen
    sums = _sums(x - x.mean(), n, places)
    names = ("query", "generation", "judge") if nested else (_TOGETHER, "judge")

    def measure(weights: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            estimates = _estimates(weights @ sums, nested=nested, exact=exact)
            kept = np.maximum(estimates, 0.0)
            return np.concatenate([kept, kept / kept.sum()])

    estimates = _estimates(sums.sum(axis=0), nested=nested, exact=exact)
    if np.isnan(estimates).any():
        return found.model_copy(update={"reason": "too few answers to tell the query from its answers"})
    if len(sums) > MOST_UNITS:
        blocks = generator(seed).permutation(len(sums)) % MOST_UNITS
        sums = np.stack([np.bincount(blocks, weights=column) for column in sums.T], axis=1)
    intervals = clustered_intervals(measure, range(len(sums)), level=level, resamples=resamples, seed=seed)
    kept = np.maximum(estimates, 0.0)
    total = float(kept.sum())
    parts = {
        name: VariancePart(
            estimate=float(estimates[k]),
            variance=float(kept[k]),
            interval=intervals[k],
            share=float(kept[k]) / total if total else None,
            share_interval=intervals[len(names) + k],
        )
        for k, name in enumerate(names)
    }
    of_judge = judge_error(float(kept[-1]), sizes if averaged else [1] * rows)
    of_queries = float((np.bincount(places) ** 2).sum()) / rows**2
    drawn = float(kept[0]) * of_queries + (float(kept[1]) / rows if nested else 0.0)
    error = math.sqrt(drawn + of_judge**2)
    told = {"error": error, "judge_error": of_judge}
    told["least_difference"] = normal_quantile((1 + level) / 2) * math.sqrt(2) * of_judge
    if averaged and error and not exact:
        twice = drawn + of_judge**2 / 2
        told["narrower"] = 1 - math.sqrt(twice) / error
        told["rows_instead"] = math.ceil(rows * (error**2 / twice - 1) - 1e-9)
    return found.model_copy(update={"parts": parts, **told})


def judge_error(variance: float, sizes: Sequence[int]) -> float:
    """Standard error that judgings of such a ``variance`` give to the mean over answers; ``sizes``: how many each has."""
    return math.sqrt(variance * math.fsum(1 / size for size in sizes)) / max(len(sizes), 1)


def _sums(x: Floats, n: Floats, places: npt.NDArray[np.intp]) -> Floats:
    """For each query, what the mean squares and their expectations are sums of; shape (queries, 10)."""
    ends = np.cumsum(n).astype(np.intp)
    of_answer = np.add.reduceat(x, ends - n.astype(np.intp))
    squares = np.add.reduceat(x**2, ends - n.astype(np.intp))
    total, judgings = np.bincount(places, weights=of_answer), np.bincount(places, weights=n)
    answers = np.bincount(places)
    n_squared = np.bincount(places, weights=n**2)
    columns = (
        np.ones(len(answers)),
        answers,
        judgings,
        judgings**2,
        n_squared,
        n_squared / judgings,
        total,
        total**2 / judgings,
        np.bincount(places, weights=of_answer**2 / n),
        np.bincount(places, weights=squares),
    )
    return np.stack(columns, axis=1).astype(np.float64)


def _estimates(sums: Floats, *, nested: bool, exact: bool) -> Floats:
    """The components; NaN where they can't be told. Shape (3,) with generation, (2,) without."""
    queries, answers, judgings, q_squared, a_squared, a_within, total, between_q, between_a, all_squares = sums
    judge = 0.0 if exact else (all_squares - between_a) / (judgings - answers)
    mean_square = (between_q - total**2 / judgings) / (queries - 1)
    per_query = (judgings - q_squared / judgings) / (queries - 1)
    if not nested:
        return np.array([(mean_square - judge) / per_query, judge])
    within = (between_a - between_q) / (answers - queries)
    generation = (within - judge) * (answers - queries) / (judgings - a_within)
    per_answer = (a_within - a_squared / judgings) / (queries - 1)
    return np.array([(mean_square - judge - per_answer * generation) / per_query, generation, judge])
