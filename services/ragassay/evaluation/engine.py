"""One chunk: samples x metrics -> results. Respond, judge, score, account; each once per sample.

Knows nothing of queues, stores or HTTP; the command line and the workers both end up here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragassay.core.models import LiveResponse, Rating, Result, Sample, Score
from ragassay.core.options import PerformanceOptions
from ragassay.core.protocols import Embedder, Journal, System
from ragassay.core.text import is_answerable
from ragassay.judges.combine import combine
from ragassay.judges.panel import Panel
from ragassay.llm import Prices, together
from ragassay.llm.journal import CallScope
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.metric import OPERATIONAL, Metric, parse
from ragassay.metrics.scoring import Chunk
from ragassay.metrics.scoring import scores as scores_of
from ragassay.systems.base import Recorded

logger = logging.getLogger("ragassay")
_FROM_RESPONSE = ("answer", "retrieved_doc_ids", "error", "model", "first_call_ms", *OPERATIONAL)


@dataclass(frozen=True)
class Plan:
    """What to compute for every sample. ``metrics`` are reported; others are computed where a rule needs them.

    ``own``: the run's own.
    """

    metrics: tuple[Metric, ...]
    rule: AccuracyRule
    relevant_from: float | None = None
    max_grade: float = 3.0
    graded: bool = True
    concurrency: int = PerformanceOptions.concurrency
    timeout_s: float = PerformanceOptions.timeout_s
    own: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def bar(self) -> float | None:
        """The grade from which a document is relevant; ungraded, what is relevant counts 1 and needs no bar."""
        return self.relevant_from if self.graded else None

    @property
    def order(self) -> tuple[Metric, ...]:
        """All metrics to compute: those asked for, each after those that it is made of or that ``accurate`` reads."""
        ordered: dict[str, Metric] = {}

        def add(metric: Metric) -> None:
            rule = (parse(name, self.own) for name in self.rule.metrics) if metric.family == "accurate" else ()
            for read in (*metric.parts, *rule):
                add(read)
            ordered.setdefault(metric.name, metric)

        for metric in self.metrics:
            add(metric)
        return tuple(ordered.values())

    @property
    def asks_accuracy(self) -> bool:
        """Is ``accurate`` reported, or part of what is?"""
        return any(metric.reads("accurate") for metric in self.metrics)


@dataclass(frozen=True)
class Tools:
    """What an evaluation is plugged into. ``no_embedder`` is the reason given where ``embedder`` is None."""

    panel: Panel
    journal: Journal
    prices: Prices
    embedder: Embedder | None = None
    no_embedder: str = "no embedding model is set up"
    bertscore_model: str | None = None


async def evaluate(samples: Sequence[Sample], system: System, plan: Plan, tools: Tools) -> list[Result]:
    """One result for each sample, in order. What fails for a sample is a reason in its scores.

    Raises BudgetReached, and errors of configuration (a wrong key, an unknown model) that would fail every sample.
    """
    return await assess(await respond(samples, system, plan, tools), system.name, plan, tools)


async def respond(samples: Sequence[Sample], system: System, plan: Plan, tools: Tools) -> list[Answered]:
    """The samples with the system's responses, in order: all that is timed of the system."""
    given = samples if plan.graded else [_ungraded(sample, plan.relevant_from) for sample in samples]
    asked = [_respond(sample, system, tools.prices) for sample in given]
    # Recorded responses are there at once, so tasks would only cost time.
    return [await one for one in asked] if isinstance(system, Recorded) else await together(asked)


async def assess(answered: Sequence[Answered], system: str, plan: Plan, tools: Tools) -> list[Result]:
    """Judge and score what was answered; raises as ``evaluate`` does."""
    samples = [one.sample for one in answered]
    ratings = await _rate(samples, system, plan, tools)
    combined = [combine(of) if of else None for of in ratings]
    scoring = time.perf_counter()
    chunk = Chunk(
        samples,
        combined,
        embedder=tools.embedder,
        no_embedder=tools.no_embedder,
        bertscore_model=tools.bertscore_model,
        max_grade=plan.max_grade if plan.graded else 1.0,
        relevant_from=plan.bar,
        rule=plan.rule,
    )
    for metric in plan.order:
        chunk.scores[metric.name] = await _scored(metric, chunk, plan)
    ratings = await _with_scores(ratings, chunk, plan)
    share_ms = (time.perf_counter() - scoring) * 1000 / max(len(answered), 1)
    names = [metric.name for metric in plan.metrics]
    by_row = [{name: chunk.scores[name][n] for name in names} for n in range(len(answered))]
    results = [
        _account(one, system, of, rating, row, share_ms, plan.bar)
        for one, of, rating, row in zip(answered, ratings, combined, by_row, strict=True)
    ]
    _log(results)
    return results


def _ungraded(sample: Sample, relevant_from: float | None) -> Sample:
    """The sample with every grade made 1 where it says relevant, 0 where not; what is negative stays unjudged."""
    if sample.judgments is None:
        return sample
    bar = relevant_from or 0.0
    grades = {
        doc: float(grade >= bar and grade > 0) if grade >= 0 else grade for doc, grade in sample.judgments.items()
    }
    return sample.model_copy(update={"relevance_scores": grades})


def rows_to_judge(samples: Sequence[Sample], plan: Plan) -> list[int]:
    """Places of the samples, with their responses, for which at least one judged metric has its input.

    An answer to what can't be answered is accurate if it refuses, which the judge has to say.
    """
    judged = [metric for metric in plan.order if metric.sees == "Verdict"]
    return [
        n
        for n, sample in enumerate(samples)
        if any(metric.lacks(sample) is None for metric in judged)
        or (plan.asks_accuracy and sample.answer is not None and is_answerable(sample) is False)
    ]


@dataclass(frozen=True)
class Answered:
    """A sample with its response. ``priced``: its cost was worked out here; ``took_ms``: what this system's work took."""

    sample: Sample
    priced: bool = False
    took_ms: float = 0.0


async def _respond(sample: Sample, system: System, prices: Prices) -> Answered:
    began = time.perf_counter()
    response = await system.respond(sample)
    took_ms = (time.perf_counter() - began) * 1000
    if response is None:
        return Answered(sample.model_copy(update={"response": None}), took_ms=took_ms)
    if response.latency_ms is not None and (not isinstance(system, Recorded) or system.measured):
        took_ms = response.latency_ms  # without the wait for its turn among the chunk's other queries
    cost = response.cost_usd
    if cost is None:
        cost = prices.cost(response.model, response.input_tokens, response.output_tokens)
    priced = cost is not None and response.cost_usd is None
    answered = sample.model_copy(update={"response": response.model_copy(update={"cost_usd": cost})})
    return Answered(answered, priced, took_ms)


async def _rate(samples: Sequence[Sample], system: str, plan: Plan, tools: Tools) -> list[list[Rating]]:
    """The ratings of each sample; none where no judged metric has its input."""
    rows = rows_to_judge(samples, plan)
    ratings: list[list[Rating]] = [[] for _ in samples]
    if rows:
        given = await tools.panel.rate([samples[n] for n in rows], CallScope(tools.journal, system))
        for n, of in zip(rows, given, strict=True):
            ratings[n] = of
    return ratings


async def _with_scores(ratings: Sequence[list[Rating]], chunk: Chunk, plan: Plan) -> list[list[Rating]]:
    """The ratings of rows that have several, each with what its row would score by it alone."""
    judged = [metric for metric in plan.order if metric.uses_judge]
    shown = [metric.name for metric in judged if metric in plan.metrics]
    scored = [list(of) if len(of) > 1 else [] for of in ratings]
    for n in range(max(map(len, scored), default=0)):
        rows = [row for row, of in enumerate(scored) if n < len(of) and of[n].verdict]
        alone = replace(chunk.only(rows), ratings=[scored[row][n] for row in rows])
        for metric in judged:
            alone.scores[metric.name] = await _scored(metric, alone, plan)
        for place, row in enumerate(rows):
            values = {name: alone.scores[name][place].value for name in shown}
            known = {name: value for name, value in values.items() if value is not None}
            scored[row][n] = scored[row][n].model_copy(update={"scores": known})
    return scored


async def _scored(metric: Metric, chunk: Chunk, plan: Plan) -> list[Score]:
    return await scores_of(metric, chunk, at_once=plan.concurrency, timeout_s=plan.timeout_s)


def _account(
    answered: Answered,
    system: str,
    ratings: Sequence[Rating],
    rating: Rating | None,
    scores: dict[str, Score],
    share_ms: float,
    relevant_from: float | None,
) -> Result:
    sample = answered.sample
    rating, response = rating or Rating(), sample.response
    spent = {name: getattr(response, name) for name in _FROM_RESPONSE} if response else {}
    result = Result(
        query_id=sample.query_id,
        system=system,
        query=sample.query,
        ground_truth_answer=sample.ground_truth_answer,
        category=sample.category,
        difficulty=sample.difficulty,
        metadata=sample.metadata,
        answerable=is_answerable(sample),
        number_of_results=None if sample.retrieved_doc_ids is None else len(sample.retrieved_doc_ids),
        responded=response is not None,
        priced_by_us=answered.priced,
        scores=scores,
        ratings=tuple(ratings),
        verdict=rating.verdict,
        evaluation=rating.usage,
        waste=rating.waste,
        left_out=rating.left_out,
        asking=response.asking if isinstance(response, LiveResponse) else None,
        duration_ms=answered.took_ms + rating.usage.latency_ms + rating.waste.latency_ms + share_ms,
        **spent,
        **_relevance(sample, relevant_from),
    )
    return result.with_labels(response.reference_labels) if response and response.reference_labels else result


def given_up(samples: Sequence[Sample], system: str, metrics: Sequence[str], reason: str) -> list[Result]:
    """Results without a score for samples that could not be evaluated at all."""
    scores = {name: Score.absent(reason, "failed") for name in metrics}
    return [_account(Answered(sample), system, (), None, scores, 0.0, None) for sample in samples]


def _relevance(sample: Sample, relevant_from: float | None) -> dict[str, Any]:
    """How many documents are relevant, and at which ranks they were retrieved; nothing where that is not known."""
    judgments = sample.judgments
    if judgments is None:
        return {}
    bar = relevant_from or 0.0
    relevant = {doc for doc, grade in judgments.items() if grade > 0 and grade >= bar}
    if sample.response and sample.retrieved_doc_ids is None:
        return {"relevant": len(relevant)}
    ranks = tuple(rank for rank, doc in enumerate(sample.retrieved_doc_ids or (), 1) if doc in relevant)
    return {"relevant": len(relevant), "relevant_ranks": ranks}


def _log(results: Sequence[Result]) -> None:
    debug = logger.isEnabledFor(logging.DEBUG)
    for row in results:
        if debug:
            number = row.number_of_results or 0
            took = {"results": number, "duration_ms": round(row.duration_ms, 3)}
            about = {"event": "query", "system": row.system, "query": row.query_id, **took}
            form = "%s: query %s: %d results in %.3f ms"
            logger.debug(form, row.system, row.query_id, number, row.duration_ms, extra=about)
        if row.relevant_ranks == ():
            about = {"event": "no_relevant_result", "system": row.system, "query": row.query_id}
            logger.warning("%s: query %s has no relevant result", row.system, row.query_id, extra=about)
