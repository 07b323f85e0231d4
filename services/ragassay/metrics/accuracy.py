"""Is an answer accurate? By the rule over other metrics, which a user may write, and by whether it rightly refuses."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import DEFAULTS
from ragassay.core.models import MissingCause, Rating, Sample, Score
from ragassay.core.text import is_answerable
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.judged import ANSWERED_UNANSWERABLE, EMPTY, RIGHT_REFUSAL, WRONG_REFUSAL
from ragassay.metrics.metric import Metric, metric, parse

OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
CAUSES: tuple[MissingCause, ...] = ("failed", "no_input", "undefined")  # the worst first
_CONDITION = re.compile(r"([^\s<>=!(]+)\s*(>=|<=|>|<)\s*([^\s<>=!]+)")
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"  # and no inf, nan or 1_000, as float() takes them
_NUMBER = re.compile(NUMBER, re.IGNORECASE)


class Condition(NamedTuple):
    """A metric compared with a number."""

    metric: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.bound:g}"


class AccuracyRule(NamedTuple):
    """Alternatives, tried in order; each a list of conditions that must all hold.

    An alternative decides when all its metrics have a value, or one that has a value fails; else the next is tried.
    Where a metric is missing because something broke, nothing is decided: rows that a judge's outage touched must not be
    measured by another rule than the rest.
    """

    alternatives: tuple[tuple[Condition, ...], ...]

    @classmethod
    def parse(cls, text: str, custom: Mapping[str, Metric] = MappingProxyType({})) -> AccuracyRule:
        """The rule that ``NAME SIGN NUMBER [and ...] [else ...]`` spells, as in the default rule.

        ``custom`` are the run's own metrics. Raises BadSettings that quotes the part that can't be read,
        UnknownName for an unknown metric.
        """

        def condition(part: str) -> Condition:
            match, problem = _CONDITION.fullmatch(part.strip()), f"can't read {part.strip()!r}"
            if match and _NUMBER.fullmatch(match[3]) and math.isfinite(float(match[3])):
                read = parse(match[1], custom)
                if not read.reads("accurate"):
                    return Condition(read.name, match[2], float(match[3]))
                problem = "accurate can't depend on itself"
            elif match:
                problem = f"{match[3]!r} is not a number"
            raise BadSettings(f"accuracy rule {text!r}: {problem}", hint=f"write, for example, {DEFAULTS.accurate}")

        alternatives = re.split(r"(?i) else ", " ".join(text.split()))
        return cls(tuple(tuple(map(condition, re.split(r"(?i) and ", one))) for one in alternatives))

    def __str__(self) -> str:
        return " else ".join(" and ".join(map(str, conditions)) for conditions in self.alternatives)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Canonical names of the metrics that the rule reads, each once, in order."""
        return tuple(dict.fromkeys(one.metric for conditions in self.alternatives for one in conditions))

    @property
    def first(self) -> AccuracyRule:
        """The first alternative alone."""
        return AccuracyRule(self.alternatives[:1])

    def decide(self, scores: Mapping[str, Score]) -> Score:
        """1 or 0 and the condition that decided; missing, with every reason, where no alternative can decide."""
        for conditions in self.alternatives:
            of_metrics = [scores.get(one.metric) for one in conditions]
            values = [score.value if score else None for score in of_metrics]
            failing = [
                f"{name} is {value:.3g}, not {sign} {bound:g}"
                for (name, sign, bound), value in zip(conditions, values, strict=True)
                if value is not None and not OPERATORS[sign](value, bound)
            ]
            details = {"rule": str(self), "decided_by": " and ".join(map(str, conditions))}
            if failing or None not in values:
                return Score(value=float(not failing), reason="; ".join(failing) or None, details=details)
            if any(score is not None and score.missing == "failed" for score in of_metrics):
                break
        return lacking({name: scores.get(name) for name in self.metrics})


@metric(better="higher", needs="answer", binary=True)
def accurate(chunk: Chunk) -> list[Score]:
    """Is the answer accurate? A refusal is where the query can't be answered; else the rule of the run decides."""
    decide = chunk.rule or AccuracyRule.parse(DEFAULTS.accurate).decide
    ratings = chunk.ratings or [None] * len(chunk.samples)
    return [
        _by_refusal(sample, rating) or decide({name: scores[n] for name, scores in chunk.scores.items()})
        for n, (sample, rating) in enumerate(zip(chunk.samples, ratings, strict=True))
    ]


def _by_refusal(sample: Sample, rating: Rating | None) -> Score | None:
    """Whether the answer is accurate where that depends on its being a refusal; None where the rule decides."""
    verdict = rating.verdict if rating else None
    if verdict is None or verdict.refusal is None:
        if is_answerable(sample) is not False:
            return None
        why = "no judge was asked" if rating is None else rating.reason or "the judge did not say"
        return Score.absent(f"whether the answer refuses is not known: {why}", "failed" if rating else "no_input")
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
    return Score.absent("; ".join(reasons), next(cause for cause in CAUSES if cause in causes))
