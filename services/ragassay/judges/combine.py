"""One verdict from several ratings of a row: those of one judge's samples first, then those of several judges.

The vote is by unit and field: the label that most gave; where two have as many, the more sceptical one, in the order of
``SUPPORT``, ``TRUTH`` and ``COVERED``. Of steps it is the median, the lower one of two in the middle. What fewer than half
answered is unanswered. Of an even number of verdicts that samples of one judge gave, the first votes twice.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from ragassay.core.models import CriterionVerdict, FactVerdict, Rating, SentenceVerdict, Step, Usage, Verdict
from ragassay.judges.verdict import COVERED, STEPS, SUPPORT, TRUTH, labels

Label = TypeVar("Label", bound=str)


def combine(ratings: Sequence[Rating]) -> Rating:
    """What a row's ratings make together: the verdict of its judges, and all that the ratings spent.

    What a reference judge marks as suspicious is marked; else its verdict does not count.
    """
    if len(ratings) == 1:
        return ratings[0]
    judges = list(by_judge(ratings).values())
    combined = judges[0] if len(judges) == 1 else _elect(judges, f"jury of {', '.join(one.rater for one in judges)}")
    if combined.verdict:
        verdicts = [combined.verdict, *(one.verdict for one in ratings if one.role == "reference" and one.verdict)]
        combined = combined.model_copy(update={"verdict": combined.verdict.model_copy(update=_marks(verdicts))})
    return combined.model_copy(
        update={
            "usage": Usage.total(one.usage for one in ratings),
            "waste": Usage.total(one.waste for one in ratings),
            "left_out": tuple(dict.fromkeys(what for one in ratings for what in one.left_out)),
        }
    )


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
    verdicts, verdict = [one.verdict for one in ratings if one.verdict], None
    if 2 * len(verdicts) >= len(ratings):
        is_even = len(verdicts) % 2 == 0 and len({one.rater for one in ratings}) == 1
        votes = [verdicts[0], *verdicts] if is_even else verdicts
        verdict = voted(votes, len(ratings) + is_even, rater).model_copy(
            update={
                "evidence_dropped": sum(one.evidence_dropped for one in verdicts),
                "support_withdrawn": sum(one.support_withdrawn for one in verdicts),
            }
        )
    return Rating(
        rater=rater,
        verdict=verdict,
        reason=None if verdict else _why_none(ratings),
        usage=Usage.total(one.usage for one in ratings),
        waste=Usage.total(one.waste for one in ratings),
    )


def _why_none(ratings: Sequence[Rating]) -> str:
    failed = [one for one in ratings if not one.verdict]
    if len(failed) == len(ratings) and len({one.reason for one in failed}) == 1:
        return failed[0].reason or "the judges gave no verdict"
    several = len({one.rater for one in ratings}) > 1
    reasons = "; ".join(f"{one.rater if several else f'sample {one.sample}'}: {one.reason}" for one in failed)
    of = "judges" if several else f"samples of {ratings[0].rater}"
    return f"{len(failed)} of {len(ratings)} {of} gave no verdict: {reasons}"


def voted(verdicts: Sequence[Verdict], members: int, judge: str) -> Verdict:
    """The vote of ``members`` on one row; ``verdicts`` are those that there are, all on the same units.

    Evidence is that of all who gave the label that won. Of a fact it is a question of its own: do the contexts hold it?
    Probabilities are the mean; scores by probabilities (``judge_mode: probe``) are not kept.
    """
    one = verdicts[0]
    refusals = [verdict.refusal for verdict in verdicts if verdict.refusal is not None]
    relevance = _median([verdict.relevance for verdict in verdicts], members)
    agree = [verdict for verdict in verdicts if verdict.relevance == relevance]
    of_metric: dict[str, list[float]] = defaultdict(list)
    for verdict in verdicts:
        for metric, probability in verdict.probability.items():
            of_metric[metric].append(probability)
    return one.model_copy(
        update={
            "judge": judge,
            "sentences": tuple(_sentence(of, members) for of in zip(*(v.sentences for v in verdicts), strict=True)),
            "facts": tuple(_fact(of, members) for of in zip(*(v.facts for v in verdicts), strict=True)),
            "criteria": tuple(_criterion(of, members) for of in zip(*(v.criteria for v in verdicts), strict=True)),
            "relevance": relevance,
            "refusal": _refuses(refusals, answerable=one.answerable) if 2 * len(refusals) >= members else None,
            "why": _why(agree),
            **_marks(verdicts),
            "probability": {metric: fmean(chances) for metric, chances in of_metric.items()},
        }
    )


def _marks(verdicts: Iterable[Verdict]) -> Mapping[str, tuple[str, ...]]:
    return {"suspicious": tuple(dict.fromkeys(label for verdict in verdicts for label in verdict.suspicious))}


def _sentence(of: Sequence[SentenceVerdict], members: int) -> SentenceVerdict:
    support = _elected([one.support for one in of], SUPPORT, members)
    agree = [one for one in of if one.support == support]
    truth = _elected([one.truth for one in of], TRUTH, members)
    return of[0].model_copy(
        update={
            "support": support,
            "evidence": _evidence(agree) if support else (),
            "truth": truth,
            "why": _why(agree if support else [one for one in of if one.truth == truth]),
            "support_score": None,
            "truth_score": None,
        }
    )


def _fact(of: Sequence[FactVerdict], members: int) -> FactVerdict:
    covered = _elected([one.covered for one in of], COVERED, members)
    answered = [one for one in of if one.covered]
    held = [one for one in answered if one.evidence]
    return of[0].model_copy(
        update={
            "covered": covered,
            "evidence": _evidence(held) if 2 * len(held) > len(answered) else (),
            "why": _why([one for one in of if one.covered == covered]),
            "covered_score": None,
        }
    )


def _criterion(of: Sequence[CriterionVerdict], members: int) -> CriterionVerdict:
    step = _median([one.step for one in of], members)
    return of[0].model_copy(update={"step": step, "why": _why([one for one in of if one.step == step])})


def _elected(given: Iterable[Label | None], order: Iterable[str], members: int) -> Label | None:
    """The label that most gave, of several the first in ``order``; None where fewer than half of the members gave any."""
    counted = Counter(label for label in given if label is not None)
    if 2 * counted.total() < members:
        return None
    places = list(order)
    return min(counted, key=lambda label: (-counted[label], places.index(label)))


def _median(given: Iterable[Step | None], members: int) -> Step | None:
    places = sorted(STEPS.index(step) for step in given if step is not None)
    return STEPS[places[(len(places) - 1) // 2]] if 2 * len(places) >= members else None


def _refuses(said: Sequence[bool], *, answerable: bool) -> bool:
    """As most say; split evenly, what is worse for the answer: a refusal, unless it would be right."""
    return 2 * sum(said) > len(said) or (2 * sum(said) == len(said) and answerable)


def _evidence(of: Iterable[SentenceVerdict | FactVerdict]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for one in of for label in one.evidence))


def _why(of: Iterable[SentenceVerdict | FactVerdict | CriterionVerdict | Verdict]) -> str:
    return next((one.why for one in of if one.why), "")
