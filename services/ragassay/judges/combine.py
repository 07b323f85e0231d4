"""One verdict from several ratings of a row: those of one judge's samples first, then those of several judges.

The vote is by unit and field: the label that most gave; where two have as many, the more sceptical one. Of steps it is the
median, the lower one of two in the middle. What fewer than half answered is unanswered. Of an even number of verdicts that
samples of one judge gave, the first votes twice.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, TypeVar

from ragassay.core.models import CriterionVerdict, FactVerdict, Rating, SentenceVerdict, Usage, Verdict
from ragassay.judges.verdict import COVERED, STEPS, SUPPORT, TRUTH, labels

Label = TypeVar("Label")
Unit = TypeVar("Unit", SentenceVerdict, FactVerdict, CriterionVerdict)
_ORDERS = {
    "support": tuple(SUPPORT),
    "truth": tuple(TRUTH),
    "covered": tuple(COVERED),
    "step": STEPS,
}  # most sceptical first


def combine(ratings: Sequence[Rating]) -> Rating:
    """What a row's ratings make together: the verdict of its judges, and all that the ratings spent.

    What a reference judge marks as suspicious is marked; else its verdict does not count.
    """
    if len(ratings) == 1:
        return ratings[0]
    judges = list(by_judge(ratings).values())
    combined = judges[0] if len(judges) == 1 else _elect(judges, f"jury of {', '.join(one.rater for one in judges)}")
    change: dict[str, Any] = {"left_out": tuple(dict.fromkeys(what for one in ratings for what in one.left_out))}
    if combined.verdict:
        marked = [combined.verdict, *(one.verdict for one in ratings if one.role == "reference" and one.verdict)]
        change["verdict"] = combined.verdict.model_copy(
            update={"suspicious": _joined(one.suspicious for one in marked)}
        )
    return combined.model_copy(update={**change, **_spent(ratings)})


def by_judge(ratings: Iterable[Rating]) -> dict[str, Rating]:
    """One rating of each judge that rated a row, by its name: what its samples make together. Without reference judges."""
    samples: dict[str, list[Rating]] = {}
    for one in ratings:
        if one.role == "judge":
            samples.setdefault(one.rater, []).append(one)
    return {name: _elect(of, name) for name, of in samples.items()}


def disagreements(ratings: Iterable[Rating]) -> Iterator[str]:
    """A line for each unit and field of which judges gave different labels: how many gave each."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for rating in by_judge(ratings).values():
        for unit, label in labels(rating.verdict).items() if rating.verdict else ():
            counts[unit][label] += 1
    for unit, counted in counts.items():
        if len(counted) > 1:
            yield f"{unit}: {', '.join(f'{label} {count}' for label, count in counted.most_common())}"


def spread(draws: Iterable[Sequence[float]]) -> float | None:
    """The standard deviation of one draw, pooled over the groups; None where no group has two. The mean is its group's."""
    groups = [group for group in draws if len(group) > 1]
    if not groups:
        return None
    squares = math.fsum((value - math.fsum(group) / len(group)) ** 2 for group in groups for value in group)
    return math.sqrt(squares / sum(len(group) - 1 for group in groups))


def _elect(ratings: Sequence[Rating], rater: str) -> Rating:
    """The ratings of one judge's draws, or of several judges, as one rating by ``rater``.

    Of an even number of draws the first votes twice, so that it decides a tie: the sceptical label would make two draws
    score lower than one (decision 10).
    """
    if len(ratings) == 1:
        return ratings[0]
    verdicts, verdict, reason = [one.verdict for one in ratings if one.verdict], None, None
    names = {one.rater for one in ratings}
    if 2 * len(verdicts) >= len(ratings):
        is_even = len(names) == 1 and len(verdicts) % 2 == 0
        verdict = voted([verdicts[0], *verdicts] if is_even else verdicts, len(ratings) + is_even, rater)
    elif len(reasons := {one.reason or "no verdict" for one in ratings if not one.verdict}) == 1 and not verdicts:
        (reason,) = reasons
    else:
        failed = [(one.rater if len(names) > 1 else f"sample {one.sample}", one) for one in ratings if not one.verdict]
        of = "judges" if len(names) > 1 else f"samples of {rater}"
        listed = "; ".join(f"{name}: {one.reason}" for name, one in failed)
        reason = f"{len(failed)} of {len(ratings)} {of} gave no verdict: {listed}"
    return Rating(rater=rater, verdict=verdict, reason=reason, **_spent(ratings))


def _spent(ratings: Sequence[Rating]) -> dict[str, Any]:
    return {name: Usage.total(getattr(one, name) for one in ratings) for name in ("usage", "waste")}


def voted(verdicts: Sequence[Verdict], judge_count: int, judge: str) -> Verdict:
    """The vote of ``judge_count`` judges on one row; ``verdicts`` are those that there are, all on the same units.

    Probabilities are the mean; scores by probabilities (``judge_mode: probe``) are not kept. A refusal that as many say as
    deny is what is worse for the answer: a refusal, unless it would be right.
    """
    relevance = _elected([one.relevance for one in verdicts], STEPS, judge_count, median=True)
    refusals = (True, False) if verdicts[0].answerable else (False, True)
    probabilities: dict[str, list[float]] = defaultdict(list)
    for one in verdicts:
        for metric, probability in one.probability.items():
            probabilities[metric].append(probability)
    change: dict[str, Any] = {
        name: tuple(_voted_unit(of, judge_count) for of in zip(*(getattr(one, name) for one in verdicts), strict=True))
        for name in ("sentences", "facts", "criteria")
    }
    return verdicts[0].model_copy(
        update={
            **change,
            "judge": judge,
            "relevance": relevance,
            "refusal": _elected([one.refusal for one in verdicts], refusals, judge_count),
            "why": _why(one for one in verdicts if one.relevance == relevance),
            "suspicious": _joined(one.suspicious for one in verdicts),
            "probability": {metric: fmean(of_metric) for metric, of_metric in probabilities.items()},
        }
    )


def _voted_unit(of: Sequence[Unit], judge_count: int) -> Unit:
    """One unit of all verdicts. Its reason is that of the first who gave the label that won.

    Evidence is that of all who gave it. Of a fact it is a question of its own: do the contexts hold it?
    """
    given = {name: [getattr(one, name) for one in of] for name in _ORDERS if hasattr(of[0], name)}
    change: dict[str, Any] = {
        name: _elected(of_field, _ORDERS[name], judge_count, median=name == "step") for name, of_field in given.items()
    }
    field = next((name for name, label in change.items() if label), next(iter(change)))
    agree = [one for one in of if getattr(one, field) == change[field]]
    change |= {name: None for name in type(of[0]).model_fields if name.endswith("_score")}
    change["why"] = _why(agree)
    if isinstance(of[0], FactVerdict):
        answered = [one.evidence for one in of if isinstance(one, FactVerdict) and one.covered]
        is_held = 2 * sum(map(bool, answered)) > len(answered)
        change["evidence"] = _joined(answered) if is_held else ()
    elif isinstance(of[0], SentenceVerdict):
        supporting = [one.evidence for one in agree if isinstance(one, SentenceVerdict)]
        change["evidence"] = _joined(supporting) if change["support"] else ()
    return of[0].model_copy(update=change)


def _elected(
    given: Iterable[Label | None], order: Sequence[Label], judge_count: int, *, median: bool = False
) -> Label | None:
    """The label that most gave, of several the first in ``order``, or the median; None if fewer than half gave any."""
    votes = sorted(order.index(label) for label in given if label is not None)
    if not votes or 2 * len(votes) < judge_count:
        return None
    counted = Counter(votes)
    return order[votes[(len(votes) - 1) // 2] if median else min(counted, key=lambda place: (-counted[place], place))]


def _joined(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for of in lists for one in of))


def _why(of: Iterable[SentenceVerdict | FactVerdict | CriterionVerdict | Verdict]) -> str:
    return next((one.why for one in of if one.why), "")
