"""Two systems beside each other, answer by answer: a judge says which is better, in both orders."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from ragassay.analysis.rows import match, queries
from ragassay.core.aio import together
from ragassay.core.errors import BudgetReached, NothingToEvaluate
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Chance, FrozenModel, Result, Sample, Usage
from ragassay.core.protocols import Journal
from ragassay.core.settings import Settings
from ragassay.core.statistics import Interval
from ragassay.evaluation.outage import through_outages
from ragassay.judges.preference import AnswerPair, Basis, Preference, PreferenceJudge
from ragassay.stats.intervals import mean_interval
from ragassay.storage.journal import CallCache, FolderJournal
from ragassay.storage.run_ids import new_run_id

Outcome = Literal["win", "tie", "loss"]
_OUTCOMES: dict[str | None, Outcome] = {"b": "win", None: "tie", "a": "loss"}
_WORTH = {"win": 1.0, "tie": 0.5, "loss": 0.0}
_BOTH_ASKED: tuple[Basis, ...] = ("both orders", "one order", "flipped", "same")


@dataclass(frozen=True)
class Contender:
    """A system by its name, and its rows."""

    name: str
    rows: Sequence[Result]


class PreferredRow(FrozenModel):
    """One query: what became of b's answer beside a's, None where that could not be judged, and the preference."""

    query_id: str
    query_id_b: str
    query: str
    answer_a: str
    answer_b: str
    outcome: Outcome | None
    preference: Preference


class PositionBias(FrozenModel):
    """Of the pairs that the judge was asked about, those of which it named the same place in both orders.

    ``p``: chance of so uneven a split between the places where it favours neither; exact, two-sided.
    """

    pairs: int
    first: int
    second: int
    share: Chance | None
    p: Chance


class PreferenceReport(FrozenModel):
    """System ``b`` against ``a``: on ``pairs`` queries both have an answer, ``judged`` of these have an outcome.

    ``win_rate``: wins and half of the ties over ``judged``. ``p``: of the exact sign test over wins and losses. ``basis``
    counts what the outcomes rest on, ``unjudged`` by reason the pairs without one. ``only_a``, ``only_b``: queries that
    only one has; ``unanswered``: such as one of the two has no answer to.
    """

    schema_version: Literal[1] = 1
    kind: Literal["preference"] = "preference"
    a: str
    b: str
    judge: dict[str, Any]
    pairs: int
    judged: int
    wins: int
    ties: int
    losses: int
    win_rate: Chance | None
    interval: Interval
    p: Chance
    basis: dict[str, int]
    position: PositionBias
    unjudged: dict[str, int]
    only_a: int
    only_b: int
    unanswered: int
    suspicious: int
    usage: Usage
    waste: Usage
    rows: tuple[PreferredRow, ...]


class Contest:
    """The answers of two systems to the same queries, the first ``limit`` of them; raises NothingToEvaluate without one."""

    def __init__(self, a: Contender, b: Contender, limit: int | None = None) -> None:
        places = zip(*(places.tolist() for places in match(queries(a.rows), queries(b.rows))), strict=True)
        matched = [(a.rows[place], b.rows[other]) for place, other in places]
        answered = [(row, other) for row, other in matched if row.answer is not None and other.answer is not None]
        if not answered:
            why = "share no query" if not matched else "have no query that both answered"
            raise NothingToEvaluate(f"{a.name} and {b.name} {why}", hint="rows are matched by id and text of the query")
        self._a, self._b, self._matched = a, b, len(matched)
        self._unanswered = len(matched) - len(answered)
        self._rows = answered[:limit]

    @property
    def pairs(self) -> list[AnswerPair]:
        """What there is to judge."""
        return [
            AnswerPair(row.query_id, row.query, row.ground_truth_answer, row.answer or "", other.answer or "")
            for row, other in self._rows
        ]

    def report(self, judge: PreferenceJudge, found: Sequence[Preference], level: float) -> PreferenceReport:
        """What the preferences, one for each pair, add up to."""
        rows = tuple(
            PreferredRow(
                query_id=row.query_id,
                query_id_b=other.query_id,
                query=row.query,
                answer_a=row.answer or "",
                answer_b=other.answer or "",
                outcome=_OUTCOMES[one.better] if one.basis else None,
                preference=one,
            )
            for (row, other), one in zip(self._rows, found, strict=True)
        )
        outcomes = [row.outcome for row in rows if row.outcome]
        counted, basis = Counter(outcomes), Counter(one.basis for one in found if one.basis)
        worth = [_WORTH[outcome] for outcome in outcomes]
        places = Counter(one.choices[0] for one in found if one.basis == "flipped")
        asked = sum(basis[name] for name in _BOTH_ASKED)
        return PreferenceReport(
            a=self._a.name,
            b=self._b.name,
            judge={"name": judge.name, **judge.settings},
            pairs=len(rows),
            judged=len(outcomes),
            wins=counted["win"],
            ties=counted["tie"],
            losses=counted["loss"],
            win_rate=sum(worth) / len(worth) if worth else None,
            interval=mean_interval(worth, level=level, bounds=(0, 1)),
            p=_sign_test(counted["win"], counted["loss"]),
            basis=dict(basis),
            position=PositionBias(
                pairs=asked,
                first=places["first"],
                second=places["second"],
                share=basis["flipped"] / asked if asked else None,
                p=_sign_test(places["first"], places["second"]),
            ),
            unjudged=dict(sorted(Counter(one.reason for one in found if one.reason).items())),
            only_a=len(self._a.rows) - self._matched,
            only_b=len(self._b.rows) - self._matched,
            unanswered=self._unanswered,
            suspicious=len([one for one in found if one.suspicious]),
            usage=Usage.total(one.usage for one in found),
            waste=Usage.total(one.waste for one in found),
            rows=rows,
        )


def _sign_test(wins: int, losses: int) -> float:
    """Chance of so uneven a split where both sides are as likely; two-sided, exact."""
    from scipy.stats import binomtest  # slow to import, and few commands need it

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def answers_in(samples: Sequence[Sample]) -> list[Result]:
    """The answers that stand beside queries in a file, as rows of a system."""
    return [
        Result(
            query_id=sample.query_id,
            system="default",
            query=sample.query,
            answer=sample.answer,
            ground_truth_answer=sample.ground_truth_answer or tuple(filter(None, [" ".join(sample.key_facts)])),
        )
        for sample in samples
    ]


async def preferences(
    judge: PreferenceJudge, pairs: Sequence[AnswerPair], journal: Journal, done: Callable[[str], object] = str
) -> list[Preference]:
    """The preference for each pair, in order; ``done`` is told the query's id. Raises what ``prefer`` does."""

    async def one(pair: AnswerPair) -> Preference:
        found = await judge.prefer(pair, journal)
        done(pair.query_id)
        return found

    return await together([one(pair) for pair in pairs])


def judged(
    judge: PreferenceJudge,
    pairs: Sequence[AnswerPair],
    settings: Settings,
    spec: EvalConfig,
    *,
    done: Callable[[int], object],
    notice: Callable[[str], object],
) -> list[Preference]:
    """``preferences`` under the specification's budget, with its cache; outages are waited for. Raises BudgetReached."""
    with ExitStack() as opened:
        cache = None
        if spec.performance.cache:
            cache = CallCache(settings.home / "cache" / "calls.sqlite", lambda why: notice(f"warning: {why}"))
            opened.callback(cache.close)
        run = new_run_id("prefer")
        log = settings.home / "preferences" / f"{run}.jsonl"
        journal = FolderJournal(log, run=run, cache=cache, budget=spec.budget)
        opened.callback(journal.close)
        told: set[str] = set()

        def tell(query_id: str) -> None:
            if query_id not in told:  # after an outage all pairs are gone through again
                told.add(query_id)
                done(1)

        try:
            return asyncio.run(
                through_outages(
                    lambda used: preferences(judge, pairs, used, tell),
                    journal,
                    spec.performance.give_up_s,
                    lambda why: notice(f"waiting: {why}"),
                )
            )
        except BudgetReached as reached:
            reached.hint = "give the same command a higher one" + ("; answered calls are cached" if cache else "")
            raise
