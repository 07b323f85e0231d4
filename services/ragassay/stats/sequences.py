"""Intervals that may be looked at after every value, and rules that stop when they are narrow or decided enough."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from ragassay.errors import BadInput, BadSettings
from ragassay.models import FrozenModel
from ragassay.stats.columns import SAME, Bounds, Floats, Values, bounds_of, numbers, share_of
from ragassay.stats.ppi import FEWEST_LABELS
from ragassay.stats.results import Interval

STEPS = 1000  # candidate means between the bounds
CAP = 0.5  # largest share of the capital that one bet may lose
BLOCK = 64  # values whose gains are multiplied before a logarithm is taken
LEAST_SHARE = 0.8  # of the share of labels among all rows: with less, a single label would count for too much
METHOD = "betting confidence sequence"


class ConfidenceSequence:
    """An interval of a mean that holds at all times at once, so one may look after each value and stop at will.

    For each of 1,001 candidate means between ``bounds`` two gamblers bet on the next value, one that the mean is
    higher, one that it is lower; their stakes follow the variance seen so far. Were the candidate true, neither could
    ever multiply its money by 2 / (1 - level) but with probability (1 - level) / 2. Candidates against which one did
    are out, for good. The ends are moved out by one step of the grid: they err to the safe side by a thousandth.

    Needs values between ``bounds`` (differences of scores from 0..1: bounds (-1, 1)) that come in random order: rows
    sorted by topic or difficulty break it, and rows that share a group must be averaged first. The same values give
    the same ends in however many updates. No smallest n: at the start the interval is all that ``bounds`` allow.
    Single values may lie as far out as ``reach``, if only their mean is within ``bounds``.

    Raises BadSettings for a level or bounds that make no sense, BadInput for values outside the bounds.
    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", J. Royal Statistical
    Society B 86 (2024): the hedged capital process with predictable plug-in bets, capped at half of the capital.
    """

    def __init__(self, level: float = 0.95, bounds: Bounds = (0.0, 1.0), reach: Bounds | None = None) -> None:
        self.level, self.n = share_of(level, "level"), 0
        self.bounds: Bounds = bounds_of(bounds) or (0.0, 1.0)
        least, most = bounds_of(reach) or self.bounds
        low, high = self.bounds
        self._least, self._most = (least - low) / (high - low), (most - low) / (high - low)
        self._means = np.linspace(0.0, 1.0, STEPS + 1)
        with np.errstate(divide="ignore"):
            self._caps = np.stack([CAP / (self._means - self._least), CAP / (self._most - self._means)])
        self._goal = math.log(2.0 / (1.0 - self.level))
        self._wealth = np.zeros((2, STEPS + 1))  # logarithms, up to the last full block
        self._gain = np.ones((2, STEPS + 1))  # factors since
        spread = 0.25 * (self._most - self._least)
        self._total, self._mean, self._variance, self._squares = 0.0, 0.5, spread, spread
        self._first, self._last = 0, STEPS
        self._reason: str | None = None

    def update(self, values: Values) -> None:
        """Take further values into account, in the order in which they came."""
        low, high = self.bounds
        column = (numbers(values) - low) / (high - low)
        slack = SAME * (self._most - self._least)
        outside = (column < self._least - slack) | (column > self._most + slack)
        if outside.any():
            ends = f"{low + self._least * (high - low):g}..{low + self._most * (high - low):g}"
            raise BadInput(f"values[{int(outside.argmax())}] lies outside {ends}", hint="give the bounds of the values")
        column = column.clip(self._least, self._most)
        done = 0
        while done < len(column):
            taken = min(len(column) - done, BLOCK - self.n % BLOCK)
            self._bet(column[done : done + taken])
            done += taken

    def _bet(self, column: Floats) -> None:
        """At most up to the end of a block; products run on over calls, so that cutting differently changes nothing."""
        stakes = np.array([self._stake(float(value)) for value in column])[:, None]
        if self._reason:
            return
        live = slice(self._first, self._last + 1)
        away = column[:, None] - self._means[live]
        with np.errstate(over="ignore"):
            goal = np.exp(self._goal - self._wealth[:, live])
        beaten = np.zeros((2, len(column)), dtype=np.intp)  # how many candidates each side has put out by each value
        for side, sign in enumerate((1.0, -1.0)):
            factors = 1.0 + sign * np.minimum(stakes, self._caps[side, live]) * away
            factors[0] *= self._gain[side, live]
            gains = np.multiply.accumulate(factors, axis=0)
            beaten[side] = (np.maximum.accumulate(gains, axis=0) >= goal[side]).sum(axis=1)
            self._gain[side, live] = gains[-1]
        if self.n % BLOCK == 0:
            self._wealth[:, live] += np.log(self._gain[:, live])
            self._gain[:] = 1.0
        # who bets on more is the richer the lower the candidate, so that those who are out form a run at either end
        standing = beaten.sum(axis=0) <= self._last - self._first
        if not standing.all():
            self._reason = "later values contradict earlier ones: their order is not random"
        if standing[0]:
            low, high = beaten[:, int(standing.sum()) - 1]
            self._first, self._last = self._first + int(low), self._last - int(high)

    def _stake(self, value: float) -> float:
        """The bet on ``value``, from what came before it; then ``value`` joins what came before."""
        self.n += 1
        stake = math.sqrt(2.0 * self._goal / (self._variance * self.n * math.log(self.n + 1.0)))
        self._total += value
        self._mean = (0.5 + self._total) / (self.n + 1)
        self._squares += (value - self._mean) ** 2
        self._variance = self._squares / (self.n + 1)
        return stake

    @property
    def interval(self) -> Interval:
        """The interval now. It never widens. A ``reason`` says that the values were not in random order."""
        low, high = self.bounds
        ends = max(self._first - 1, 0) / STEPS, min(self._last + 1, STEPS) / STEPS
        bottom, top = (low + (high - low) * end for end in ends)
        return Interval(low=bottom, high=top, level=self.level, method=METHOD, reason=self._reason)


class CorrectedSequence:
    """A confidence sequence of the mean label of all rows, ``labels`` of which, at random among ``rows``, have one.

    A row adds a guess, and where it has a label (label - guess) / share as well, so that it adds the mean label on average,
    whatever was guessed. The guess is the line through earlier labels over the judge's scores (the score itself below 10
    labels, its slope within 0 and 1), the share that of labels among the rows still to come: both are known before the
    row. Rows late in a run, when that share has fallen below four fifths of the whole's, add nothing.

    Sources: Waudby-Smith and Ramdas (2024), as above; for the guess, known as augmented inverse probability weighting,
    Zrnic and Candes, "Active statistical inference" (2024), arXiv 2403.03208.
    """

    def __init__(self, level: float, bounds: Bounds, labels: int, rows: int) -> None:
        self.labels = 0
        self._labels_left, self._rows_left = labels, rows
        self._least_share = LEAST_SHARE * labels / rows
        beyond = (bounds[1] - bounds[0]) * (1 / self._least_share - 1)
        self._sequence = ConfidenceSequence(level, bounds, (bounds[0] - beyond, bounds[1] + beyond))
        self._sums = np.zeros(4)  # of labels, scores, scores squared and products

    @property
    def n(self) -> int:
        """How many rows count."""
        return self._sequence.n

    @property
    def interval(self) -> Interval:
        """The interval now, as that of ConfidenceSequence."""
        return self._sequence.interval

    def update(self, rows: Iterable[tuple[float | None, float | None, bool]]) -> None:
        """Take further rows into account: each its score, its label, and whether it was to have one.

        A row without a score, or without the label that it was to have, adds nothing.
        """
        values = []
        for score, label, expected in rows:
            share = self._labels_left / self._rows_left if self._rows_left > 0 else 0.0
            self._rows_left -= 1
            self._labels_left -= expected
            if score is None or (expected and label is None):
                continue
            guess = self._guess(score)
            if share >= self._least_share:
                values.append(guess if label is None else guess + (label - guess) / share)
            if label is not None:
                self.labels += 1
                self._sums += (label, score, score * score, score * label)
        self._sequence.update(values)

    def _guess(self, score: float) -> float:
        if self.labels < FEWEST_LABELS:
            return score
        label, usual, squares, products = self._sums / self.labels
        spread = squares - usual * usual
        slope = min(max((products - usual * label) / spread, 0.0), 1.0) if spread > SAME else 0.0
        low, high = self._sequence.bounds
        return float(min(max(label + slope * (score - usual), low), high))


class StopRule(FrozenModel):
    """When judging may end early. Made by ``stop_rule``; asked with the sequences that ``watches`` names.

    Every sequence must satisfy the rule; each interval holds at its own level. ``metrics`` are the names that the rule
    gives; none stands for all that the caller finds worth watching. Without a ``width`` it is about 0 being left out.
    """

    text: str
    width: float | None = None
    metrics: tuple[str, ...] = ()

    @property
    def watches(self) -> Literal["scores", "differences"]:
        """A sequence of scores for each metric, or of differences system - baseline."""
        return "differences" if self.width is None else "scores"

    def why_stop(self, sequences: Mapping[str, ConfidenceSequence | CorrectedSequence]) -> str | None:
        """Why judging may stop now; None while it must go on. Without sequences it goes on."""
        if not sequences or not all(self._satisfied_by(sequence.interval) for sequence in sequences.values()):
            return None
        intervals = (f"{name} {sequence.interval} after {sequence.n}" for name, sequence in sequences.items())
        return f"{self.text}: {'; '.join(intervals)}"

    def _satisfied_by(self, interval: Interval) -> bool:
        if self.width is None:
            return not interval.contains(0.0)
        return interval.width is not None and interval.width <= self.width


_RULE = re.compile(r"(?:(?P<names>[^<>]+?) )?(?:width ?<= ?(?P<width>\d+(?:\.\d+)?|\.\d+)|decided against baseline)")


def stop_rule(text: str) -> StopRule:
    """The rule written in ``text``: ``width <= 0.1`` or ``decided against baseline``, after the metrics it is about, if any.

    ``correctness, relevance width <= 0.1`` watches two metrics. Raises BadSettings, naming both forms, for anything else.
    """
    words = " ".join(text.lower().split())
    rule = _RULE.fullmatch(words)
    names = tuple(name.strip() for name in rule["names"].split(",")) if rule and rule["names"] else ()
    width = float(rule["width"]) if rule and rule["width"] else None
    if rule and all(names) and width != 0:
        condition = "decided against baseline" if width is None else f"width <= {width:g}"
        text = " ".join([", ".join(names), condition]).strip()
        return StopRule(text=text, width=width, metrics=names)
    raise BadSettings(
        f"no stop rule {text!r}",
        hint="write 'width <= 0.1' or 'decided against baseline', after the metrics it is about, if not all judged ones",
    )
