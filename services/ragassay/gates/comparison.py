"""How much worse a figure is than in the baseline, on the queries that both runs scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragassay.gates.figures import Figure
from ragassay.gates.rule import Gate
from ragassay.gates.scope import Scope, matched
from ragassay.models import JobSpec
from ragassay.stats import Interval, paired

TestName = Literal["randomisation", "t", "wilcoxon"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A figure before and now on ``n`` matched queries of the baseline's ``rows``.

    ``drop`` is positive where the figure got worse, whichever way is better; ``interval`` is that of the drop.
    """

    n: int
    rows: int
    before: float | None = None
    now: float | None = None
    drop: float | None = None
    interval: Interval | None = None
    p: float | None = None
    reason: str | None = None

    @property
    def coverage(self) -> float:
        """Share of the baseline's queries that are scored in both runs."""
        return self.n / self.rows if self.rows else 0.0


def compare(gate: Gate, scope: Scope, spec: JobSpec, *, alpha: float, test: TestName) -> Comparison:
    """The figure of ``gate`` before and now. Swapping both runs turns the sign of the drop and leaves p as it is."""
    if scope.before is None:
        return Comparison(0, 0, reason=f"the baseline has no system {scope.system!r}")
    figure = Figure.parse(gate.metric)
    pairs = [
        (then, now)
        for then, now in matched(scope)
        if figure.values(then) is not None and figure.values(now) is not None
    ]
    rows = len(scope.before)
    if not pairs:
        return Comparison(0, rows, reason=f"none of the baseline's {rows} queries is scored in both runs")
    before = figure.measure([then for then, _ in pairs], spec)
    now = figure.measure([now for _, now in pairs], spec)
    if before.value is None or now.value is None:
        what = f"in the baseline {before.reason}" if before.value is None else f"now {now.reason}"
        return Comparison(len(pairs), rows, before.value, now.value, reason=what)
    drop = before.value - now.value if figure.better == "higher" else now.value - before.value
    found = Comparison(len(pairs), rows, before.value, now.value, drop)
    if not (gate.significant or gate.on == "interval"):
        return found
    first = [values[0] for then, _ in pairs if (values := figure.values(then))]
    second = [values[0] for _, now in pairs if (values := figure.values(now))]
    worse = (second, first) if figure.better == "higher" else (first, second)
    tested = paired(*worse, alpha=alpha, seed=spec.seed, bounds=figure.metric.bounds)
    p = {"randomisation": tested.randomisation, "t": tested.t, "wilcoxon": tested.wilcoxon}[test].p
    return Comparison(len(pairs), rows, before.value, now.value, drop, tested.interval, p)


def too_few(n: int, tests: int, alpha: float) -> bool:
    """Could no drop on ``n`` queries be found, even one on every query? The least p of n signs is 2 / 2**n."""
    return n < 60 and 2.0 ** (1 - n) * tests > alpha
