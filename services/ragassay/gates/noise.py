"""Is a gate finer than the judge's noise? What a drop must be to tell it from judging the same answers anew."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragassay.compare.figures import Figure
from ragassay.compare.pairing import match
from ragassay.documents import Report
from ragassay.gates.drops import Baseline, Rows, Scope
from ragassay.gates.rules import Gate
from ragassay.limits import MOST_JUDGINGS
from ragassay.metrics.base import FIGURES
from ragassay.metrics.judged import is_judged
from ragassay.noise import judge_variance, judgings
from ragassay.render import number
from ragassay.stats.variance import judge_error


@dataclass(frozen=True, slots=True)
class Noise:
    """What the judge alone does to a figure, at ``z`` standard errors: to its mean, and to its drop on ``n`` queries.

    ``judgings``: the fewest of an answer; 0 where more of them do not make the figure surer.
    """

    n: int
    judgings: int
    of_mean: float
    of_drop: float

    def needed(self, drop: float) -> str:
        """What it would take to tell a drop of that size, in words."""
        if drop <= 0:
            return "no number of rows or judgings tells so small a drop; allow one, or use significant: true"
        times = (self.of_drop / drop) ** 2
        rows = f"{math.ceil(self.n * times):,} rows"
        if not self.judgings:
            return f"{rows} would tell it"
        repeat = math.ceil(self.judgings * times)
        most = f" (more than the {MOST_JUDGINGS} that there can be)" if repeat > MOST_JUDGINGS else ""
        return f"{rows}, or repeat: {repeat:,} in both runs{most}, would tell it"


def judge_noise(gate: Gate, scope: Scope, report: Report, baseline: Baseline | None, z: float) -> Noise | None:
    """The noise that the run has measured on all rows of the system; None where it has not, or the figure has none.

    Where the baseline has measured its own, that is taken for its side, else the run's.
    """
    figure, system = gate.figure, report.systems.get(scope.system)
    if system is None or figure.column in FIGURES or not is_judged(figure.metric):
        return None
    variance = judge_variance(system.results, figure.column)
    if not variance:
        return None
    whole = baseline.rows(scope.system, len(report.systems)) if baseline else None
    before = judge_variance(whole or (), figure.column)
    pairs = [(a, b) for a, b in match(scope.before or (), scope.rows) if figure.values(a) and figure.values(b)]
    now = _sizes(figure, [b for _, b in pairs])
    errors = (
        judge_error(variance, now),
        judge_error(variance if before is None else before, _sizes(figure, [a for a, _ in pairs])),
    )
    return Noise(
        n=len(pairs),
        judgings=min(now, default=0) if not figure.metric.share else 0,
        of_mean=z * judge_error(variance, _sizes(figure, scope.rows)),
        of_drop=z * math.hypot(*errors),
    )


def _sizes(figure: Figure, rows: Rows) -> list[int]:
    """How many judgings the score of each row is the mean of."""
    scored = [row for row in rows if figure.values(row)]
    return [1 if figure.metric.share else len(judgings(row.scores[figure.column])) or 1 for row in scored]


def undecidable(noise: Noise | None, size: float, bound: float) -> str | None:
    """Why a drop of ``size`` can't be held against ``bound``; None where it can: it is far enough from it, or noise is small."""
    if noise is None or bound >= noise.of_drop or abs(size - bound) > noise.of_drop:
        return None
    least = number(noise.of_drop)
    return (
        f"not decidable: the judge alone makes differences up to {least} between two runs on the same answers, so that is "
        f"the least drop that can be told on {noise.n} rows; {noise.needed(bound)}"
    )


def near(noise: Noise | None, value: float, bound: float) -> str:
    """A clause for a mean that lies nearer to its threshold than the judge's noise reaches."""
    if noise is None or abs(value - bound) >= noise.of_mean:
        return ""
    return f"; the judge's own noise is +- {number(noise.of_mean)}, so another judging may decide otherwise"
