"""One chunk of rows: respond, judge, score, account. Each row becomes one Result; what fails for a row is a reason in its scores.

Knows nothing of queues or HTTP; the command line, Python and the workers call the same functions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ragassay.core.aio import together
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Rating, Result, Sample, Score
from ragassay.core.protocols import Embedder, Journal, System
from ragassay.core.text import is_answerable
from ragassay.judges.combine import combine
from ragassay.judges.panel import Panel
from ragassay.judges.verdict import with_recent_turns
from ragassay.llm import Prices
from ragassay.llm.journal import CallScope
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.composite import custom_metrics
from ragassay.metrics.metric import OPERATIONAL, Metric, parse
from ragassay.metrics.scoring import scores as scores_of
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord
from ragassay.storage.runs import Run

logger = logging.getLogger("ragassay")
_FROM_RESPONSE = ("answer", "retrieved_doc_ids", "error", "model", "timing", *OPERATIONAL)


@dataclass(frozen=True)
class ScoringConfig:
    """All that decides the ratings and scores of a row, every name resolved: made once for a run.

    ``metrics`` are reported; others are computed where these or the rule of accuracy read them. ``no_embedder`` is the
    reason where ``embedder`` is None.
    """

    spec: RunConfig
    metrics: tuple[Metric, ...]
    panel: Panel
    embedder: Embedder | None = None
    no_embedder: str = "no embedding model is set up"

    @cached_property
    def prices(self) -> Prices:
        """Those of the specification, then the bundled ones."""
        return Prices(self.spec.prices)

    @cached_property
    def rule(self) -> AccuracyRule:
        """When an answer is accurate."""
        return AccuracyRule.parse(self.spec.accurate, self._custom)

    @cached_property
    def order(self) -> tuple[Metric, ...]:
        """All metrics to compute: each after those that it is made of or that ``accurate`` reads."""
        return tuple({metric.name: metric for metric in self._in_order(self.metrics, self.rule)}.values())

    @cached_property
    def fallbacks(self) -> frozenset[str]:
        """Those that only later alternatives of the rule read: computed for rows that its first does not decide."""
        needed = {metric.name for metric in self._in_order(self.metrics, self.rule.first)}
        return frozenset(metric.name for metric in self.order) - needed

    def _in_order(self, metrics: Sequence[Metric], rule: AccuracyRule) -> Iterator[Metric]:
        for metric in metrics:
            yield from self._in_order(metric.parts, rule)
            if metric.family == "accurate":
                yield from self._in_order([parse(name, self._custom) for name in rule.metrics], rule)
            yield metric

    @cached_property
    def asks_accuracy(self) -> bool:
        """Is ``accurate`` reported, or part of what is?"""
        return any(metric.reads("accurate") for metric in self.metrics)

    @property
    def min_grade(self) -> float | None:
        """The grade from which a document is relevant; ungraded, what is relevant counts 1."""
        return self.spec.relevant_from if self.spec.graded else None

    @cached_property
    def _custom(self) -> Mapping[str, Metric]:
        return custom_metrics(self.spec)


async def work(
    run: Run, chunk: ChunkId, config: ScoringConfig, journal: Journal, system: System | None = None
) -> Outcome:
    """Evaluate one chunk of one system and commit it; ``last`` when the run needs no further chunk.

    ``system``: one that answers now; otherwise the responses are in the run. Raises BudgetReached, and errors of
    configuration that every sample would meet.
    """
    samples = run.samples(chunk)
    if system is not None:
        samples = await respond(samples, system)
    timed_here = run.record.systems[chunk.system].answers
    return run.commit(chunk, await evaluate(samples, chunk.system, config, journal, timed_here=timed_here))


async def respond(samples: Sequence[Sample], system: System) -> list[Sample]:
    """The samples with what the system answers now."""
    responses = await together([system.respond(sample) for sample in samples])
    return [
        sample.model_copy(update={"response": response}) for sample, response in zip(samples, responses, strict=True)
    ]


async def evaluate(
    samples: Sequence[Sample], system: str, config: ScoringConfig, journal: Journal, *, timed_here: bool = False
) -> list[Result]:
    """One result for each sample and its response, in order. ``timed_here``: its latency counts as time of this run.

    Raises BudgetReached, and errors of configuration (a wrong key, an unknown model) that would fail every sample.
    """
    spec = config.spec
    samples = samples if spec.graded else [_ungraded(sample, spec.relevant_from) for sample in samples]
    answered = [_with_cost(sample, config.prices) for sample in samples]
    chunk = Chunk(
        answered,
        embedder=config.embedder,
        no_embedder=config.no_embedder,
        bertscore_model=spec.bertscore_model,
        max_grade=spec.max_grade if spec.graded else 1.0,
        relevant_from=config.min_grade,
        rule=config.rule.decide,
    )
    # beside the calls of judges; the rest, fallbacks too, needs what they say
    early = [metric for metric in config.order if metric.embeds and metric.name not in config.fallbacks]
    embedding = asyncio.create_task(_score(early, chunk, config))
    try:
        ratings = await _rate(answered, config, CallScope(journal, system))
    except BaseException:  # tells what to do next, as the embedding's own error would not
        await asyncio.gather(embedding, return_exceptions=True)
        raise
    embedding_s = await embedding
    began = time.perf_counter()
    combined = [combine(of) if of else None for of in ratings]
    chunk = replace(chunk, ratings=combined)
    await _score([metric for metric in config.order if metric not in early], chunk, config)
    ratings = await _with_scores(ratings, chunk, config)
    share_ms = (embedding_s + time.perf_counter() - began) * 1000 / max(len(samples), 1)
    results = [
        _result(
            one,
            system,
            {metric.name: chunk.scores[metric.name][n] for metric in config.metrics},
            ratings[n],
            combined[n] or Rating(),
            priced=one.response is not samples[n].response,
            took_ms=share_ms + (one.response.latency_ms or 0.0 if timed_here and one.response else 0.0),
            min_grade=config.min_grade,
        )
        for n, one in enumerate(answered)
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


def _with_cost(sample: Sample, prices: Prices) -> Sample:
    response = sample.response
    if response is None or response.cost_usd is not None:
        return sample
    cost = prices.cost(response.model, response.input_tokens, response.output_tokens)
    if cost is None:
        return sample
    return sample.model_copy(update={"response": response.model_copy(update={"cost_usd": cost})})


def to_judge(samples: Sequence[Sample], config: ScoringConfig) -> dict[int, Sample]:
    """By its place, each sample for which at least one judged metric has its input, with the turns that a judge reads.

    An answer to what can't be answered is accurate if it refuses, which the judge has to say.
    """
    judged = [metric for metric in config.order if metric.input_type == "Verdict"]
    return {
        n: with_recent_turns(sample, config.spec.history_tokens)
        for n, sample in enumerate(samples)
        if any(metric.missing_input(sample) is None for metric in judged)
        or (config.asks_accuracy and sample.answer is not None and is_answerable(sample) is False)
    }


async def _with_scores(ratings: Sequence[list[Rating]], chunk: Chunk, config: ScoringConfig) -> list[list[Rating]]:
    """The ratings of rows that have several, each with what its row would score by it alone.

    That is also by what the rule falls back on, for a rating that leaves its first alternative undecided.
    """
    judged = [metric for metric in config.order if metric.uses_judge or metric.name in config.fallbacks]
    shown = [metric.name for metric in judged if metric in config.metrics]
    scored = [list(of_row) if len(of_row) > 1 else [] for of_row in ratings]
    for n in range(max(map(len, scored), default=0)):
        rows = [row for row, of_row in enumerate(scored) if n < len(of_row) and of_row[n].verdict]
        alone = replace(chunk.only(rows), ratings=[scored[row][n] for row in rows])
        for metric in judged:
            alone.scores[metric.name] = await _scores(metric, alone, config)
        for place, row in enumerate(rows):
            values = {name: alone.scores[name][place].value for name in shown}
            known = {name: value for name, value in values.items() if value is not None}
            scored[row][n] = scored[row][n].model_copy(update={"scores": known})
    return scored


async def _rate(samples: Sequence[Sample], config: ScoringConfig, journal: Journal) -> list[list[Rating]]:
    """The ratings of each sample; none for those that no judge has to see."""
    ratings: list[list[Rating]] = [[] for _ in samples]
    if judged := to_judge(samples, config):
        rated = await config.panel.rate(list(judged.values()), journal)
        for n, of_row in zip(judged, rated, strict=True):
            ratings[n] = of_row
    return ratings


async def _score(metrics: Sequence[Metric], chunk: Chunk, config: ScoringConfig) -> float:
    """Score the chunk by these metrics; the seconds that it took."""
    began = time.perf_counter()
    for metric in metrics:
        chunk.scores[metric.name] = await _scores(metric, chunk, config)
    return time.perf_counter() - began


async def _scores(metric: Metric, chunk: Chunk, config: ScoringConfig) -> list[Score]:
    """One score per row; of a fallback only for the rows that the rule's first alternative does not decide."""
    unneeded: frozenset[int] = frozenset()
    if metric.name in config.fallbacks:
        rows = range(len(chunk.samples))
        decided = (config.rule.first.decide({name: of[n] for name, of in chunk.scores.items()}) for n in rows)
        unneeded = frozenset(n for n, score in zip(rows, decided, strict=True) if score.value is not None)
    performance = config.spec.performance
    return await scores_of(
        metric, chunk, at_once=performance.concurrency, timeout_s=performance.timeout_s, unneeded=unneeded
    )


def _result(
    sample: Sample,
    system: str,
    scores: dict[str, Score],
    ratings: Sequence[Rating] = (),
    rating: Rating = Rating(),  # noqa: B008 - frozen
    *,
    priced: bool = False,
    took_ms: float = 0.0,
    min_grade: float | None = None,
) -> Result:
    """The row when it is done. ``rating``: what its judges' ratings make together."""
    response = sample.response
    result = Result(
        query_id=sample.query_id,
        system=system,
        query=sample.query,
        history=sample.history,
        conversation_id=sample.conversation_id,
        ground_truth_answer=sample.ground_truth_answer,
        category=sample.category,
        difficulty=sample.difficulty,
        metadata=sample.metadata,
        answerable=is_answerable(sample),
        number_of_results=None if sample.retrieved_doc_ids is None else len(sample.retrieved_doc_ids),
        responded=response is not None,
        priced_by_us=priced,
        scores=scores,
        ratings=tuple(ratings),
        verdict=rating.verdict,
        evaluation=rating.usage,
        waste=rating.waste,
        left_out=rating.left_out,
        duration_ms=took_ms + rating.usage.latency_ms + rating.waste.latency_ms,
        **({name: getattr(response, name) for name in _FROM_RESPONSE} if response else {}),
        **_relevance(sample, min_grade),
    )
    return result.with_labels(response.reference_labels) if response and response.reference_labels else result


def failed_results(samples: Sequence[Sample], system: str, metrics: Sequence[str], reason: str) -> list[Result]:
    """Results without a score for samples that could not be evaluated at all."""
    return [_result(sample, system, {name: Score.absent(reason, "failed") for name in metrics}) for sample in samples]


def _relevance(sample: Sample, min_grade: float | None) -> dict[str, Any]:
    """How many documents are relevant, and at which ranks they were retrieved; nothing where that is not known."""
    judgments = sample.judgments
    if judgments is None:
        return {}
    bar = min_grade or 0.0
    relevant = {doc for doc, grade in judgments.items() if grade > 0 and grade >= bar}
    if sample.response and sample.retrieved_doc_ids is None:
        return {"relevant": len(relevant)}
    ranks = tuple(rank for rank, doc in enumerate(sample.retrieved_doc_ids or (), 1) if doc in relevant)
    return {"relevant": len(relevant), "relevant_ranks": ranks}


def log_start(record: RunRecord, systems: Sequence[str]) -> None:
    """Log that an evaluation begins."""
    queries, names = record.dataset.rows, ", ".join(systems)
    about = {"event": "evaluation_started", "run": record.id, "queries": queries, "systems": names}
    logger.info("evaluation of %d queries starts: %s, systems %s", queries, record.id, names, extra=about)


def _log(results: Sequence[Result]) -> None:
    is_debug = logger.isEnabledFor(logging.DEBUG)
    for row in results:
        about = {"system": row.system, "query": row.query_id}
        if is_debug:
            number, took_ms = row.number_of_results or 0, round(row.duration_ms, 3)
            extra = {"event": "query", **about, "results": number, "duration_ms": took_ms}
            logger.debug("%s: query %s: %d results in %.3f ms", row.system, row.query_id, number, took_ms, extra=extra)
        if row.relevant_ranks == ():
            extra = {"event": "no_relevant_result", **about}
            logger.warning("%s: query %s has no relevant result", row.system, row.query_id, extra=extra)
