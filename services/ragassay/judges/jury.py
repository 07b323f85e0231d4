"""Several models as one judge: each judges every sample, and what most of them say counts.

The vote is by unit and field: the label that most members gave; where two have as many, the more sceptical one, in the
order of ``SUPPORT``, ``TRUTH`` and ``COVERED``. Of steps it is the median, the lower one of two in the middle. What fewer
than half of the members answered is unanswered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

from ragassay.core.errors import BadSettings, ProviderDown
from ragassay.core.models import CriterionVerdict, FactVerdict, Judgement, Sample, SentenceVerdict, Step, Usage, Verdict
from ragassay.core.protocols import Journal, Judge, digest
from ragassay.core.settings import NEVER_SENT, Settings
from ragassay.core.specification import JobSpec
from ragassay.judges.registered import JUDGES
from ragassay.judges.reply import STEPS
from ragassay.judges.verdict import COVERED, SUPPORT, TRUTH
from ragassay.llm import missing_keys, together
from ragassay.llm.journal import given_up

Label = TypeVar("Label", bound=str)


def check_jury(spec: JobSpec) -> None:
    """Raise BadSettings for a jury that the local judge is in, or a model twice, or that is to judge several times."""
    if not spec.jury:
        return
    names = [name.strip().removeprefix("llm:").strip() for name in spec.judges]
    if "local" in names:
        raise BadSettings(
            "the local judge takes no part in a jury: it is a triage, its vote would count as much as a model's",
            where="jury",
            hint="name models: judge: MODEL and jury: [MODEL, ...]; beside the local judge: judge_share",
        )
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise _same(twice, twice)
    if spec.repeat > 1:
        what = "repeat measures the noise of one judge, and the report of a jury says how far its members differ"
        raise BadSettings(what, where="repeat", hint="leave repeat or jury out")


def check_keys(spec: JobSpec, settings: Settings) -> None:
    """Raise BadSettings where RAGASSAY_API_KEY would stand in for the missing keys of several providers."""
    if settings.api_key in (None, NEVER_SENT) or spec.api_base or settings.api_base:
        return
    models = [name.removeprefix("llm:") for name in spec.judges if name not in JUDGES]
    missing = dict.fromkeys(" ".join(missing_keys(model)) for model in models)
    if len(missing.keys() - {""}) > 1:
        raise BadSettings(
            "RAGASSAY_API_KEY would be sent to several providers",
            where="jury",
            hint=f"give each its own: {', '.join(filter(None, missing))}",
        )


def _same(a: str, b: str) -> BadSettings:
    what = f"{a} is named twice" if a == b else f"{a} and {b} are the same model"
    return BadSettings(f"{what}; its vote would count twice", where="jury", hint="leave one of them out")


class JuryJudge:
    """Judges with all ``members`` at once. Raises BadSettings where two of them are the same under different names."""

    def __init__(self, members: Sequence[Judge]) -> None:
        self._members = {member.name: member for member in members}
        known: dict[str, str] = {}
        for name, member in self._members.items():
            if (other := known.setdefault(digest(dict(member.settings)), name)) != name:
                raise _same(other, name)

    @property
    def name(self) -> str:
        """``jury of`` its members."""
        return f"jury of {', '.join(self._members)}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that determines the verdicts of each member."""
        return {"judge": "jury", "members": [{"name": name, **one.settings} for name, one in self._members.items()]}

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Judgement]:
        """One judgement for each sample, in order, and within it that of each member.

        Where a member's provider is down, its calls that are not answered yet fail, and the others vote; ProviderDown
        is raised where fewer than half are left. Other errors that every sample would meet are raised as they come.
        """
        members = self._members.values()
        given = await together([_tried(member, samples, journal) for member in members])
        down = [error for _, error in given if error]
        if down and not self._enough(len(given) - len(down)):
            raise down[0]
        told = [
            await member.judge(samples, given_up(journal, str(error))) if error else judgements
            for member, (judgements, error) in zip(members, given, strict=True)
        ]
        return [self._of_all(of) for of in zip(*told, strict=True)]

    def _enough(self, answered: int) -> bool:
        return 2 * answered >= len(self._members)

    def _of_all(self, given: Sequence[Judgement]) -> Judgement:
        verdicts = [one.verdict for one in given if one.verdict]
        verdict = voted(verdicts, len(given), self.name) if self._enough(len(verdicts)) else None
        return Judgement(
            verdict=verdict,
            reason=None if verdict else self._why_none(given),
            usage=Usage.total(one.usage for one in given),
            waste=Usage.total(one.waste for one in given),
            left_out=tuple(dict.fromkeys(what for one in given for what in one.left_out)),
            members=dict(zip(self._members, given, strict=True)),
        )

    def _why_none(self, given: Sequence[Judgement]) -> str:
        reasons = {name: one.reason for name, one in zip(self._members, given, strict=True) if not one.verdict}
        if len(reasons) == len(given) and len(set(reasons.values())) == 1:
            return next(iter(reasons.values())) or "the jury gave no verdict"
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        return f"{len(reasons)} of {len(given)} members of the jury gave no verdict: {told}"


async def _tried(
    member: Judge, samples: Sequence[Sample], journal: Journal
) -> tuple[list[Judgement], ProviderDown | None]:
    try:
        return await member.judge(samples, journal), None
    except ProviderDown as down:
        return [], down


def voted(verdicts: Sequence[Verdict], members: int, judge: str) -> Verdict:
    """What most of ``members`` say of one sample; ``verdicts`` are those that there are, all on the same units.

    Evidence is that of all who gave the label that won. Of a fact it is a question of its own: do the contexts hold it?
    Probabilities are the mean; a member's scores by probabilities (probes) are not kept.
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
            "evidence_dropped": sum(verdict.evidence_dropped for verdict in verdicts),
            "support_withdrawn": sum(verdict.support_withdrawn for verdict in verdicts),
            "suspicious": tuple(dict.fromkeys(label for verdict in verdicts for label in verdict.suspicious)),
            "probability": {metric: fmean(chances) for metric, chances in of_metric.items()},
        }
    )


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
