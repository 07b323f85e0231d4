"""Decisions: is the answer accurate, which route, whether to retrieve at all, the reranking, and what users clicked."""

from __future__ import annotations

from collections.abc import Sequence

from ragassay.metrics.accuracy import DEFAULT_RULE, AccuracyRule
from ragassay.metrics.base import BEFORE, LARGEST_K, UNIT, metric
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.ranked import Ranked
from ragassay.metrics.retrieval import ndcg
from ragassay.models import Sample, Score


@metric(better="higher", needs="answer", share=True)
def accurate(chunk: Chunk) -> list[Score]:
    """Is the answer accurate, by the rule of the run? Its mean is the share of accurate answers."""
    rule = chunk.rule or AccuracyRule.parse(DEFAULT_RULE)
    return [rule.decide({name: scores[n] for name, scores in chunk.scores.items()}) for n in range(len(chunk.samples))]


@metric(better="higher", needs=("best_route", "route"), kind="retrieval", share=True)
def routing_accuracy(sample: Sample) -> Score:
    """1 where the system chose the route that is labelled best. Its mean is the share of such queries."""
    chosen = sample.response.route if sample.response else None
    return Score(value=float(chosen == sample.best_route), details={"chosen": chosen, "best": sample.best_route})


@metric(better="higher", needs=("retrieval_needed", "retrieved"), kind="retrieval", share=True)
def gate_efficiency(sample: Sample) -> Score:
    """1 where retrieval was rightly skipped. Its mean is the share of all queries for which it was."""
    response = sample.response
    skipped = response is not None and not (response.retrieved_doc_ids or response.contexts or response.error)
    rightly = skipped and not sample.retrieval_needed
    return Score(value=float(rightly), details={"needed": sample.retrieval_needed, "skipped": skipped})


@metric(better="higher", needs=("judgments", BEFORE), kind="retrieval")
def reranking_improvement(chunk: Chunk, k: int | None = None) -> list[Score]:
    """Relative change of ndcg@k (of the whole list without k) by reranking; undefined where it was 0 before."""
    before = [_before(sample) for sample in chunk.samples]
    earlier = Ranked.build(
        [ids if isinstance(ids, list) else () for ids in before], [s.judgments or {} for s in chunk.samples]
    )
    depth = k or LARGEST_K
    pairs = zip(before, ndcg(earlier, depth).tolist(), ndcg(chunk.ranked, depth).tolist(), strict=True)
    return [Score.absent(ids, "no_input") if isinstance(ids, str) else _change(old, new) for ids, old, new in pairs]


@metric(better="higher", needs="primary_relevant", kind="retrieval", bounds=UNIT)
def mrr_primary(sample: Sample, k: int | None = None) -> Score:
    """Reciprocal rank of the one primary document (within k); 0 where it was not retrieved."""
    ids = (sample.retrieved_doc_ids or ())[:k]
    rank = ids.index(sample.primary_relevant) + 1 if sample.primary_relevant in ids else None
    return Score(value=1 / rank if rank else 0.0, details={"k": k, "primary_rank": rank})


@metric(better="higher", needs=("clicks", "retrieved_doc_ids"), kind="retrieval", bounds=UNIT)
def ctr(sample: Sample, k: int) -> Score:
    """Click-through rate: share of the documents shown, the first k, that were clicked."""
    shown = (sample.retrieved_doc_ids or ())[:k]
    if not shown:
        return Score.absent("nothing was shown, so nothing could be clicked")
    clicked = len(set(shown).intersection((sample.response.clicks if sample.response else None) or ()))
    return Score(value=clicked / len(shown), details={"k": k, "clicked": clicked, "shown": len(shown)})


@metric(better="higher", needs="dwell_ms", kind="retrieval")
def dwell_ms(sample: Sample) -> float | None:
    """Time in ms that the user stayed with what was clicked."""
    return sample.response.dwell_ms if sample.response else None


def _before(sample: Sample) -> list[str] | str:
    """The ranking before reranking, or why there is none that could be scored."""
    if sample.response is None:
        return "the system gave no response"
    ids = sample.response.metadata.get(BEFORE)
    if not isinstance(ids, Sequence) or isinstance(ids, str) or not all(isinstance(each, str) for each in ids):
        return f"{BEFORE} in the response's metadata is no list of document ids"
    return list(ids) if len(set(ids)) == len(ids) else f"{BEFORE} in the response's metadata lists a document twice"


def _change(old: float, new: float) -> Score:
    if not old:
        return Score.absent("ndcg was 0 before reranking, so there is no relative change")
    return Score(value=(new - old) / old, details={"ndcg_before": old, "ndcg_after": new})
