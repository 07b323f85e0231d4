"""``b`` against ``a`` by one figure: the only type of a difference between two systems, and its only calculation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragassay.analysis.rows import MatchedRows
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.formatting import p_value
from ragassay.core.models import FrozenModel
from ragassay.core.statistics import Interval
from ragassay.metrics.metric import OPERATIONAL, Better, Metric, parse
from ragassay.stats.intervals import Floats, Questions, averaged, difference_interval, differences
from ragassay.stats.ppi import corrected_difference
from ragassay.stats.tests import cohens_d, randomisation, smallest_p, stars, t_test, welch

Outcome = Literal["better", "worse", "no difference shown", "can't tell"]
NO_SHARED_QUESTION = "they share no question"
NOT_TESTED = "left out: statistics.tests is false"


class Difference(FrozenModel):
    """``b`` against ``a`` by one metric on one dataset; ``delta`` is mean b - mean a.

    ``n`` rows were scored on both sides (0 if no query is shared), ``n_a`` and ``n_b`` on each; ``missing_a`` and
    ``missing_b`` count the others by reason. Paired figures cover the matched rows only. Several answers to one question
    are averaged before means, tests and intervals. ``interval`` is that of the delta, at level 1 - alpha, not corrected; a
    gate goes by the same one. ``p`` is that of the randomisation test, of Welch's if unpaired; ``p_adjusted`` takes the
    primary metrics of all systems into account and decides ``outcome``. If it finds nothing and ``interval`` leaves out 0,
    the outcome is "can't tell", with the ``reason``. An ``exploratory`` one is not among these: its outcome goes by its own
    p; one without p, such as that of a slice, has none. ``wins`` are questions on which b is better, whichever direction is
    good. ``mde`` is the minimum detectable effect: what as many rows show with a chance of 80 % at that many tests. Second
    opinions, which decide nothing: p of the ``t_test``, paired or Welch's, ``cohens_d`` and, of primary metrics, a
    ``bootstrap`` interval; ``sd`` is the standard deviation of the differences, and without one the first two are null.
    ``corrected_by``: how many labels on both sides correct delta, interval and p, if they are enough; ``uncorrected`` is the
    delta by the judge's own scores then, as the means are. Too few labels are a caveat of the interval.
    """

    metric: str
    dataset: str
    a: str
    b: str
    better: Better
    n: int
    n_a: int
    n_b: int
    missing_a: dict[str, int] = {}  # noqa: RUF012 - a default of a model
    missing_b: dict[str, int] = {}  # noqa: RUF012 - a default of a model
    mean_a: float | None
    mean_b: float | None
    delta: float | None = None
    interval: Interval
    p: float | None = None
    p_adjusted: float | None = None
    outcome: Outcome = "can't tell"
    exploratory: bool = False
    reason: str | None = None
    wins: int | None = None
    losses: int | None = None
    ties: int | None = None
    mde: float | None = None
    sd: float | None = None
    cohens_d: float | None = None
    t_test: float | None = None
    bootstrap: Interval | None = None
    corrected_by: int | None = None
    uncorrected: float | None = None

    @property
    def paired(self) -> bool:
        """Do the systems share questions?"""
        return self.wins is not None

    @property
    def changed(self) -> int:
        """On how many questions b is better or worse."""
        return (self.wins or 0) + (self.losses or 0)

    @property
    def questions(self) -> int:
        """How many questions are compared."""
        return self.changed + (self.ties or 0)

    @property
    def stars(self) -> str:
        """``*``, ``**`` or ``***`` by the adjusted p."""
        return stars(self.p_adjusted) if self.paired and not self.exploratory else ""

    @property
    def ratio(self) -> float | None:
        """Mean b over mean a."""
        return self.mean_b / self.mean_a if self.mean_a and self.mean_b is not None else None

    @property
    def shown(self) -> bool | None:
        """Does the interval leave out 0? None if so few queries differ that no test could show a difference.

        Equal differences have no spread: their number decides.
        """
        is_known = self.interval.low is not None
        if self.corrected_by is not None:
            return not self.interval.contains(0.0) if is_known else None
        if smallest_p(self.changed) > 1 - self.interval.level:
            return None
        return not is_known or self.interval.method == "constant values" or not self.interval.contains(0.0)


@dataclass(frozen=True)
class Contrast:
    """The two systems, and what all differences between them share.

    ``custom``: metrics that the runs define themselves. Without ``tests`` no difference has a p, and none is decided.
    """

    a: str
    b: str
    dataset: str
    alpha: float = 0.05
    seed: int = 0
    custom: Mapping[str, Metric] = field(default_factory=dict)
    tests: bool = True

    def paired(
        self,
        metric: str,
        a: Floats,
        b: Floats,
        *,
        better: Better,
        questions: Questions = None,
        labels: Floats | None = None,
        failed: str | None = None,
        tested: bool = True,
    ) -> Difference:
        """The difference of rows that have the scores ``a`` and ``b``, shape (rows,), before any correction.

        ``questions``: the number of each row's question. ``labels``: what people say of b - a on each row, NaN where they
        don't; they correct the difference, unless ``failed`` says why they may be no random part of the rows.
        ``tested``: with a p value; without one it is exploratory.
        """
        first, second = averaged(a, questions), averaged(b, questions)
        changes, level, known = differences(first, second), 1 - self.alpha, known_metric(metric, self.custom)
        up, down = int((changes > 0).sum()), int((changes < 0).sum())
        is_binary = True if known and known.binary else False if metric in OPERATIONAL else None
        bounds = known.bounds if known else None
        interval = difference_interval(first, second, level=level, bounds=bounds, binary=is_binary)
        delta = float(changes.mean()) if len(changes) else None
        figures: dict[str, Any] = {"delta": delta, "interval": interval, "exploratory": not tested}
        if tested:
            figures |= {
                "reason": _too_few(len(changes), self.alpha) if self.tests else NOT_TESTED,
                "sd": float(changes.std(ddof=1)) if len(changes) > 1 else None,
                "cohens_d": cohens_d(changes),
            }
        if tested and self.tests:
            figures |= {"p": randomisation(changes, seed=self.seed), "t_test": t_test(changes)}
        if labels is not None:
            by_labels, p = corrected_difference(labels, b - a, questions, level=level, failed=failed)
            if by_labels.value is None:
                figures["interval"] = interval.model_copy(update={"reason": f"not corrected: {by_labels.reason}"})
            else:
                figures |= {"delta": by_labels.value, "interval": by_labels.interval, "uncorrected": delta}
                figures["corrected_by"] = by_labels.corrected_by
                if self.tests:
                    figures |= {"p": p if tested else None, "reason": None}
        wins, losses = (up, down) if better == "higher" else (down, up)
        counts = {"wins": wins, "losses": losses, "ties": len(changes) - up - down, "n": len(a)}
        return self._difference(metric, better, (first, second), n_a=len(a), n_b=len(a), **counts, **figures)

    def of_rows(
        self,
        metric: str,
        rows: MatchedRows,
        *,
        better: Better,
        max_failed: float,
        tested: bool = True,
        by_labels: bool = True,
    ) -> Difference:
        """``paired`` on the matched rows that have a score on both sides.

        Labels correct it unless a reference judge failed on more than a share ``max_failed`` of its rows.
        """
        scored = rows.scored(metric)
        labels = scored.labels(metric) if by_labels else None
        return self.paired(
            metric,
            *scored.values(metric),
            better=better,
            questions=scored.questions,
            labels=labels,
            failed=None if labels is None else scored.too_many_failed(max_failed),
            tested=tested,
        )

    def unpaired(self, metric: str, a: Floats, b: Floats, *, better: Better) -> Difference:
        """The difference of systems that share no question; a and b are means of questions."""
        known = known_metric(metric, self.custom)
        p, interval = welch(a, b, alpha=self.alpha, bounds=known.bounds if known else None)
        about: dict[str, Any] = {"interval": interval, "reason": NOT_TESTED}
        if self.tests:
            about |= {"p": p, "reason": interval.reason, "t_test": p}
        if len(a) and len(b):
            about["delta"] = float(b.mean()) - float(a.mean())
        return self._difference(metric, better, (a, b), n=0, n_a=len(a), n_b=len(b), **about)

    def decided(self, difference: Difference, p: float | None, tests: int) -> Difference:
        """The difference with its ``p`` adjusted for so many ``tests``, and the outcome.

        An exploratory one is not adjusted: its outcome goes by its own p.
        """
        if difference.exploratory:
            p, tests = difference.p, 1
        outcome, reason = outcome_of(difference, p, self.alpha, tests)
        if not difference.paired:  # one of them may have had the easier questions
            outcome, reason = "can't tell", reason or NO_SHARED_QUESTION
        adjusted = None if difference.exploratory else p
        return difference.model_copy(update={"p_adjusted": adjusted, "outcome": outcome, "reason": reason})

    def _difference(self, metric: str, better: Better, values: tuple[Floats, Floats], **more: Any) -> Difference:
        a, b = (float(column.mean()) if len(column) else None for column in values)
        about = {"metric": metric, "dataset": self.dataset, "a": self.a, "b": self.b, "better": better}
        return Difference(**about, mean_a=a, mean_b=b, **more)


def outcome_of(
    difference: Difference, p_adjusted: float | None, alpha: float, tests: int
) -> tuple[Outcome, str | None]:
    """What follows from a difference, and the reason if nothing does; ``p_adjusted`` is its p among so many ``tests``.

    An interval that leaves out 0 is no "no difference shown", even if the test finds nothing.
    """
    size, p = difference.delta, difference.p
    if difference.reason or p is None or p_adjusted is None or size is None:
        return "can't tell", difference.reason
    if p_adjusted <= alpha:
        return ("better" if (size > 0) is (difference.better == "higher") else "worse"), None
    if difference.interval.contains(0.0):
        return "no difference shown", None
    adjusted = f", {p_value(p_adjusted)} corrected for {tests} tests" if tests > 1 else ""
    return "can't tell", f"the interval leaves out 0, but p is {p_value(p)}{adjusted}"


def known_metric(name: str, custom: Mapping[str, Metric]) -> Metric | None:
    """The metric of that name; None for one that is not registered here."""
    try:
        return parse(name, custom)
    except (UnknownName, BadSettings):
        return None


def _too_few(n: int, alpha: float) -> str | None:
    """Why so few pairs can't show anything: even if all differed in one direction, p would be 2 / 2^n."""
    if n < 2:
        return "1 pair shows no spread" if n else "0 pairs: nothing to compare"
    least = smallest_p(n)
    return f"{n} pairs: p can't be below {least:.3g}" if least > alpha else None
