"""Two systems, answer by answer: which answer a model prefers, as the metric ``preference`` of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ragassay.analysis.comparison import compare
from ragassay.analysis.models import Comparison, Pairwise
from ragassay.analysis.rows import match
from ragassay.analysis.sides import LabelledSystem, Side
from ragassay.core.aio import ignore, together
from ragassay.core.errors import NothingToEvaluate
from ragassay.core.files import MappedRows
from ragassay.core.models import Result, Score, Usage
from ragassay.core.protocols import Journal
from ragassay.core.report import Aggregate
from ragassay.judges.preference import Preference, PreferenceJudge
from ragassay.stats.intervals import mean_interval

METRIC = "preference"


def answered_by_both(a: LabelledSystem, b: LabelledSystem, limit: int | None = None) -> Sequence[tuple[Result, Result]]:
    """The rows of the first ``limit`` queries that both systems answered; raises NothingToEvaluate without one."""
    places = match(a.rows(), b.rows())
    results, others = a.report.results_of(a.system), b.report.results_of(b.system)
    pairs = []
    for place, other in zip(*(column.tolist() for column in places), strict=True):
        pair = results[place], others[other]
        if pair[0].answer is not None and pair[1].answer is not None:
            pairs.append(pair)
        if len(pairs) == limit:
            break
    if not pairs:
        hint = "rows are matched by id and text of the query"
        raise NothingToEvaluate(f"{a.label} and {b.label} share no query that both answered", hint=hint)
    return pairs


async def preferences(
    pairs: Sequence[tuple[Result, Result]],
    judge: PreferenceJudge,
    journal: Journal,
    done: Callable[[str], object] = ignore,
) -> list[Preference]:
    """The preference for each pair, in order; ``done`` is called with the query's id. Raises what ``prefer`` does."""

    async def one(row: Result, other: Result) -> Preference:
        answers = row.answer or "", other.answer or ""
        truths, history = row.ground_truth_answer, row.history
        preference = await judge.prefer(row.query_id, row.query, truths, answers, journal, history=history)
        done(row.query_id)
        return preference

    return await together([one(*pair) for pair in pairs])


def compare_by_preference(
    a: LabelledSystem,
    b: LabelledSystem,
    pairs: Sequence[tuple[Result, Result]],
    found: Sequence[Preference],
    judge: str,
    **terms: Any,
) -> Comparison:
    """The comparison by ``preference`` alone: 1 for an answer that is preferred in both orders, else 0.

    ``found``: the preference for each of the ``pairs``. ``terms`` as ``compare`` has them.
    """
    sides = []
    for n, (one, letter) in enumerate(((a, "a"), (b, "b"))):
        rows = zip(pairs, found, strict=True)
        sides.append(_scored(one, {pair[n].query_id: _score(each, letter) for pair, each in rows}))
    settled = [one for one in found if one.reason is None]
    pairwise = Pairwise(
        judge=judge,
        asked=sum(bool(one.choices) for one in settled),
        flipped=sum(one.flipped for one in settled),
        usage=Usage.total(one.usage for one in found),
        waste=Usage.total(one.waste for one in found),
    )
    return compare(sides, metrics=[METRIC], **terms).model_copy(update={"pairwise": pairwise})


def _score(one: Preference, letter: str) -> Score:
    if one.reason is not None:
        return Score.absent(one.reason, "failed")
    why = "the answer is empty" if one.better and not one.choices else next(filter(None, one.why), None)
    return Score(value=float(one.better == letter), reason=why)


def _scored(system: LabelledSystem, scores: Mapping[str, Score]) -> Side:
    """The system alone, with these scores of its rows."""
    known = [float(score.value) for score in scores.values() if score.value is not None]
    mean = Aggregate(
        kind="quality",
        better="higher",
        value=sum(known) / len(known) if known else None,
        n=len(known),
        interval=mean_interval(known, bounds=(0.0, 1.0), binary=True),
    )
    part = system.part.model_copy(update={"metrics": {**system.part.metrics, METRIC: mean}})
    rows = MappedRows(system.report.results_of(system.system), partial(_with_score, scores))
    update = {"systems": {system.system: part}, "results": {system.system: rows}}
    return Side(system.report.model_copy(update=update), system.system, system.label)


def _with_score(scores: Mapping[str, Score], row: Result) -> Result:
    score = scores.get(row.query_id, Score.absent("it was not asked about", "no_input"))
    return row.model_copy(update={"scores": {**row.scores, METRIC: score}})
