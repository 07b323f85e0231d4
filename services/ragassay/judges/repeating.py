"""A judge that judges each sample several times, by calls of their own: how far these judgings differ is its noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragassay.core.models import Judgement, Sample, Score, Usage, Verdict
from ragassay.core.protocols import Journal, Judge, Reply
from ragassay.llm import ChatModel, together
from ragassay.llm.capabilities import Messages
from ragassay.llm.journal import sample_scope


class RepeatedJudgement(Judgement):
    """The first verdict that there is, and those of all judgings that gave one, in their order."""

    judgings: tuple[Verdict, ...] = ()


class RepeatingJudge:
    """Has each of ``judges`` judge all samples. They are one judge, whose models may draw with seeds of their own.

    Name and settings are those of a single judging: what determines a verdict is the same however often it is given.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self.judges = tuple(judges)

    @property
    def name(self) -> str:
        """That of the judge."""
        return self.judges[0].name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the judge."""
        return self.judges[0].settings

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Judgement]:
        """One judgement for each sample, in order, with what all judgings spent. Raises what the judge raises."""
        journals = [sample_scope(journal, number) for number in range(1, len(self.judges) + 1)]
        rounds = await together([one.judge(samples, own) for one, own in zip(self.judges, journals, strict=True)])
        return [_as_one(of) for of in zip(*rounds, strict=True)]


def repeated(judge_with: Callable[[ChatModel], Judge], llm: ChatModel, times: int) -> Judge:
    """The judge that asks a model; where it is to judge several times, the same with other seeds as well."""
    models = [llm, *(Replicate(llm, shift) for shift in range(1, times))]
    return judge_with(llm) if times == 1 else RepeatingJudge([judge_with(one) for one in models])


def _as_one(given: Sequence[Judgement]) -> Judgement:
    """All judgings of one sample as one judgement."""
    verdicts = tuple(one.verdict for one in given if one.verdict)
    return RepeatedJudgement(
        verdict=verdicts[0] if verdicts else None,
        reason=None if verdicts else given[0].reason,
        usage=Usage.total(one.usage for one in given),
        waste=Usage.total(one.waste for one in given),
        left_out=tuple(dict.fromkeys(what for one in given for what in one.left_out)),
        judgings=verdicts,
    )


class Replicate:
    """A model that draws with a seed ``shift`` above its own, where its provider takes one; all else is the model's."""

    def __init__(self, llm: ChatModel, shift: int) -> None:
        self._llm, self._shift = llm, shift

    @property
    def model(self) -> str:
        """As the model's."""
        return self._llm.model

    @property
    def settings(self) -> Mapping[str, Any]:
        """As the model's: the seed is the one that it is counted from."""
        return self._llm.settings

    @property
    def endpoint(self) -> str:
        """As the model's."""
        return self._llm.endpoint

    @property
    def context_window(self) -> int | None:
        """Not told again: the first judging warns of rows that are too long."""
        return None

    def warm_up(self) -> None:
        """As the model's."""
        self._llm.warm_up()

    async def complete(self, messages: Messages, *, seed_shift: int = 0, **asked: Any) -> Reply:
        """As the model's, with the other seed."""
        return await self._llm.complete(messages, seed_shift=self._shift + seed_shift, **asked)


def averaged(of: Sequence[Score]) -> Score:
    """The first of a row's scores, one for each judging, with their mean as its value; without one, it stays without."""
    values = [score.value for score in of if score.value is not None]
    if of[0].value is None:
        return of[0]
    return with_judgings(of[0].model_copy(update={"value": math.fsum(values) / len(values)}), of)


def majority(of: Sequence[Score]) -> Score:
    """Of a row's scores that are 1 or 0, one for each judging, the first that says what most say; of two halves, the first."""
    known = [score for score in of if score.value is not None]
    if of[0].value is None:
        return of[0]
    yes = sum(score.value == 1.0 for score in known)
    said = of[0].value if 2 * yes == len(known) else float(2 * yes > len(known))
    return with_judgings(next(score for score in known if score.value == said), of)


def with_judgings(score: Score, of: Sequence[Score]) -> Score:
    """A row's score with what it would be by each judging alone, in ``details``."""
    values = [one.value for one in of if one.value is not None]
    if score.value is None or not values:
        return score
    return score.model_copy(update={"details": {**(score.details or {}), "judgings": values}})
