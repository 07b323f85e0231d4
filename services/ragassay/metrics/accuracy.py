"""Is an answer accurate? By the rule over other metrics, which a user may write, and by whether it rightly refuses."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import DEFAULTS
from ragassay.core.models import MissingCause, Rating, Sample, Score
from ragassay.core.text import is_answerable
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.judged import ANSWERED_UNANSWERABLE, EMPTY, RIGHT_REFUSAL, WRONG_REFUSAL
from ragassay.metrics.metric import Metric, metric, parse

OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_CONDITION = re.compile(r"([^\s<>=!(]+)\s*(>=|<=|>|<)\s*([^\s<>=!]+)")
_EXAMPLE = f"write, for example, {DEFAULTS.accurate}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A metric compared with a number."""

    metric: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.bound:g}"

    def holds(self, value: float) -> bool:
        """Does ``value`` meet the condition?"""
        return bool(OPERATORS[self.sign](value, self.bound))


@dataclass(frozen=True, slots=True)
class AccuracyRule:
    """Alternatives, tried in order; each a list of conditions that must all hold.

    An alternative decides when all its metrics have a value, or one that has a value fails; else the next is tried.
    Where a metric is missing because something broke, nothing is decided: rows that a judge's outage touched must not be
    measured by another rule than the rest.
    """

    alternatives: tuple[tuple[Condition, ...], ...]

    @classmethod
    def parse(cls, text: str, own: Mapping[str, Metric] = MappingProxyType({})) -> AccuracyRule:
        """The rule that ``NAME SIGN NUMBER [and ...] [else ...]`` spells, as in the default rule.

        ``own`` are the run's own metrics. Raises BadSettings that quotes the part that can't be read,
        UnknownName for an unknown metric.
        """
        return cls(
            tuple(
                tuple(_condition(part, text, own) for part in re.split(r"(?i) and ", alternative))
                for alternative in re.split(r"(?i) else ", " ".join(text.split()))
            )
        )

    def __str__(self) -> str:
        return " else ".join(" and ".join(map(str, conditions)) for conditions in self.alternatives)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Canonical names of the metrics that the rule reads, each once, in order."""
        return tuple(dict.fromkeys(c.metric for conditions in self.alternatives for c in conditions))

    def decide(self, scores: Mapping[str, Score]) -> Score:
        """1 or 0 and the condition that decided; missing, with every reason, where no alternative can decide."""
        for conditions in self.alternatives:
            values = [_value(scores, c) for c in conditions]
            failing = [
                f"{c.metric} is {value:.3g}, not {c.sign} {c.bound:g}"
                for c, value in zip(conditions, values, strict=True)
                if value is not None and not c.holds(value)
            ]
            details = {"rule": str(self), "decided_by": " and ".join(map(str, conditions))}
            if failing:
                return Score(value=0.0, reason="; ".join(failing), details=details)
            if None not in values:
                return Score(value=1.0, details=details)
            if any((score := scores.get(c.metric)) is not None and score.missing == "failed" for c in conditions):
                break
        return lacking({name: scores.get(name) for name in self.metrics})


@metric(better="higher", needs="answer", share=True)
def accurate(chunk: Chunk) -> list[Score]:
    """Is the answer accurate? A refusal is where the query can't be answered; else the rule of the run decides."""
    decide = chunk.rule or AccuracyRule.parse(DEFAULTS.accurate).decide
    return [
        _by_refusal(sample, rating) or decide({name: scores[n] for name, scores in chunk.scores.items()})
        for n, (sample, rating) in enumerate(
            zip(chunk.samples, chunk.ratings or [None] * len(chunk.samples), strict=True)
        )
    ]


def _by_refusal(sample: Sample, rating: Rating | None) -> Score | None:
    """Whether the answer is accurate where that depends on its being a refusal; None where the rule decides."""
    verdict = rating.verdict if rating else None
    if verdict is None or verdict.refusal is None:
        if is_answerable(sample) is not False:
            return None
        why = "no judge was asked" if rating is None else rating.reason or "the judge did not say"
        cause: MissingCause = "no_input" if rating is None else "failed"
        return Score.absent(f"whether the answer refuses is not known: {why}", cause)
    if verdict.answerable:
        return Score(value=0.0, reason=WRONG_REFUSAL) if verdict.refusal else None
    if verdict.refusal:
        return Score(value=1.0, reason=RIGHT_REFUSAL)
    return Score(value=0.0, reason=ANSWERED_UNANSWERABLE if verdict.sentences else EMPTY)


def lacking(scores: Mapping[str, Score | None]) -> Score:
    """No score, for want of those of these metrics that have none: with every reason, and the worst cause."""
    absent = {name: score for name, score in scores.items() if score is None or score.value is None}
    reasons = [f"{name}: {score.reason if score else 'was not computed'}" for name, score in absent.items()]
    causes = {score.missing if score else "no_input" for score in absent.values()}
    cause = next(cause for cause in ("failed", "no_input", "undefined") if cause in causes)
    return Score.absent("; ".join(reasons), cause)


def _value(scores: Mapping[str, Score], condition: Condition) -> float | None:
    score = scores.get(condition.metric)
    return None if score is None else score.value


def _condition(part: str, rule: str, own: Mapping[str, Metric]) -> Condition:
    match = _CONDITION.fullmatch(part.strip())
    if match is None:
        raise BadSettings(f"accuracy rule {rule!r}: can't read {part.strip()!r}", hint=_EXAMPLE)
    name, sign, bound = match.groups()
    try:
        number = float(bound)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise BadSettings(f"accuracy rule {rule!r}: {bound!r} is not a number", hint=_EXAMPLE)
    read = parse(name, own)
    if read.reads("accurate"):
        raise BadSettings(f"accuracy rule {rule!r}: accurate can't depend on itself", hint=_EXAMPLE)
    return Condition(read.name, sign, number)
