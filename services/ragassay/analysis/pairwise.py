"""Two systems, answer by answer: a model says which answer is better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ragassay.analysis.rows import match
from ragassay.analysis.sides import LabelledSystem
from ragassay.core.aio import ignore, together
from ragassay.core.errors import NothingToEvaluate
from ragassay.core.models import Chance, FrozenModel, Result, Usage
from ragassay.core.protocols import Journal
from ragassay.core.statistics import Estimate
from ragassay.judges.preference import Preference, PreferenceJudge
from ragassay.stats.intervals import mean_interval

_WORTH = {"b": 1.0, None: 0.5, "a": 0.0}


class PreferredRow(FrozenModel):
    """One query with both answers, and the preference."""

    query_id: str
    query: str
    answer_a: str
    answer_b: str
    preference: Preference


class PreferenceReport(FrozenModel):
    """System ``b`` against ``a`` on the queries that both answered.

    ``win_rate``: wins and half of the ties over all pairs with a preference; ``missing`` counts the other pairs. ``p``: exact
    sign test over wins and losses. ``flipped``: pairs for which the model named the same place in both orders, of ``asked``.
    """

    schema_version: Literal[1] = 1
    kind: Literal["preference"] = "preference"
    a: str
    b: str
    judge: str
    wins: int
    ties: int
    losses: int
    win_rate: Estimate
    p: Chance
    asked: int
    flipped: int
    usage: Usage
    waste: Usage
    rows: tuple[PreferredRow, ...]


@dataclass(frozen=True)
class Contest:
    """The pairs of answers of two systems to the same queries."""

    a: str
    b: str
    pairs: Sequence[tuple[Result, Result]]

    @classmethod
    def of(cls, a: LabelledSystem, b: LabelledSystem, limit: int | None = None) -> Contest:
        """Of the first ``limit`` queries that both answered; raises NothingToEvaluate without one."""
        places = match(a.rows((), 0), b.rows((), 0))
        results = a.report.results_of(a.system), b.report.results_of(b.system)
        pairs = []
        for one, other in zip(*(column.tolist() for column in places), strict=True):
            pair = results[0][one], results[1][other]
            if pair[0].answer is not None and pair[1].answer is not None:
                pairs.append(pair)
            if len(pairs) == limit:
                break
        if not pairs:
            hint = "rows are matched by id and text of the query"
            raise NothingToEvaluate(f"{a.label} and {b.label} share no query that both answered", hint=hint)
        return cls(a.label, b.label, pairs)

    async def judged(
        self, judge: PreferenceJudge, journal: Journal, done: Callable[[str], object] = ignore
    ) -> list[Preference]:
        """The preference for each pair, in order; ``done`` is called with the query's id. Raises what ``prefer`` does."""

        async def one(row: Result, other: Result) -> Preference:
            answers = row.answer or "", other.answer or ""
            truths, history = row.ground_truth_answer, row.history
            preference = await judge.prefer(row.query_id, row.query, truths, answers, journal, history=history)
            done(row.query_id)
            return preference

        return await together([one(*pair) for pair in self.pairs])

    def report(self, judge: PreferenceJudge, preferences: Sequence[Preference], level: float) -> PreferenceReport:
        """The preferences, one for each pair, as a report."""
        from scipy.stats import binomtest  # slow to import, and few commands need it

        settled = [one for one in preferences if one.reason is None]
        counts = Counter(one.better for one in settled)
        decided = counts["a"] + counts["b"]
        worth = [_WORTH[one.better] for one in settled]
        missing = Counter(one.reason for one in preferences if one.reason is not None)
        return PreferenceReport(
            a=self.a,
            b=self.b,
            judge=judge.name,
            wins=counts["b"],
            ties=counts[None],
            losses=counts["a"],
            win_rate=Estimate(
                value=sum(worth) / len(worth) if worth else None,
                n=len(worth),
                missing=dict(sorted(missing.items())),
                failed=missing.total(),
                interval=mean_interval(worth, level=level, bounds=(0, 1)),
                reason=None if worth else "no pair could be judged",
            ),
            p=float(binomtest(counts["b"], decided).pvalue) if decided else 1.0,
            asked=sum(bool(one.choices) for one in settled),
            flipped=sum(one.flipped for one in settled),
            usage=Usage.total(one.usage for one in preferences),
            waste=Usage.total(one.waste for one in preferences),
            rows=tuple(
                PreferredRow(
                    query_id=row.query_id,
                    query=row.query,
                    answer_a=row.answer or "",
                    answer_b=other.answer or "",
                    preference=preference,
                )
                for (row, other), preference in zip(self.pairs, preferences, strict=True)
            ),
        )
