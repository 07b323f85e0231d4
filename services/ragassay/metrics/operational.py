"""What a system reports of a response: time, tokens and cost, its decisions around retrieval, and what users clicked."""

from __future__ import annotations

from collections.abc import Callable

from ragassay.core.models import Sample, Score
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import UNIT, Better, Kind, metric
from ragassay.metrics.names import LARGEST_K
from ragassay.metrics.ranked import Ranked
from ragassay.metrics.retrieval import ndcg

REPORTED: tuple[tuple[str, Better, Kind, str], ...] = (
    ("latency_ms", "lower", "performance", "End-to-end latency in ms."),
    ("first_token_ms", "lower", "performance", "Time to the first token of an answer that is streamed, in ms."),
    ("retrieval_latency_ms", "lower", "performance", "Latency of retrieval in ms."),
    ("generation_latency_ms", "lower", "performance", "Latency of generation in ms."),
    ("input_tokens", "lower", "cost", "Tokens that the system sent to its model."),
    ("output_tokens", "lower", "cost", "Tokens that the system's model wrote."),
    ("dwell_ms", "higher", "retrieval", "Time in ms that the user stayed with what was clicked."),
)


def _reported(name: str) -> Callable[[Sample], float]:
    def reported(sample: Sample) -> float:
        value: float = getattr(sample.response, name)
        return value

    return reported


for _name, _better, _kind, _text in REPORTED:
    metric(better=_better, name=_name, kind=_kind, needs=_name, description=_text)(_reported(_name))


@metric(better="lower", kind="cost", needs="cost")
def cost_usd(sample: Sample) -> Score:
    """Cost of the answer in USD; unknown where the response neither gives it nor names a priced model and tokens."""
    response = sample.response
    if response is None or response.cost_usd is None:
        return Score.absent(f"the model {response.model if response else None!r} has no known price", "no_input")
    return Score(value=response.cost_usd)


@metric(better="higher", needs=("best_route", "route"), kind="retrieval", binary=True)
def routing_accuracy(sample: Sample) -> Score:
    """1 where the system chose the route that is labelled best. Its mean is the share of such queries."""
    chosen = sample.response.route if sample.response else None
    return Score(value=float(chosen == sample.best_route), details={"chosen": chosen, "best": sample.best_route})


@metric(better="higher", needs=("retrieval_needed", "retrieved"), kind="retrieval", binary=True)
def gate_efficiency(sample: Sample) -> Score:
    """1 where retrieval was rightly skipped. Its mean is the share of all queries for which it was."""
    response = sample.response
    skipped = response is not None and not (response.retrieved_doc_ids or response.contexts or response.error)
    rightly = skipped and not sample.retrieval_needed
    return Score(value=float(rightly), details={"needed": sample.retrieval_needed, "skipped": skipped})


@metric(better="higher", needs=("judgments", "doc_ids_before_reranking"), kind="retrieval")
def reranking_improvement(chunk: Chunk, k: int | None = None) -> list[Score]:
    """ndcg@k (of the whole list without k) after reranking minus before; a report divides its mean by that before."""
    before = [(s.response and s.response.doc_ids_before_reranking) or () for s in chunk.samples]
    earlier, depth = Ranked.build(before, [s.judgments or {} for s in chunk.samples]), k or LARGEST_K
    pairs = zip(chunk.samples, ndcg(earlier, depth).tolist(), ndcg(chunk.ranked, depth).tolist(), strict=True)
    return [
        Score(value=new - old, details={"ndcg_before": old, "ndcg_after": new})
        if sample.response
        else Score.absent("the system gave no response", "no_input")
        for sample, old, new in pairs
    ]


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
