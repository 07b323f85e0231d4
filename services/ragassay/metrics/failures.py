"""Why is an answer not accurate? One cause for each row, the first that holds in the order below.

The order follows the road of a query: first whether it was to be answered, then retrieval, then the answer.

answered_the_unanswerable  the query can't be answered, and the system answered
wrong_refusal    the query can be answered, as far as is known, and the system refused; "why" says what it had retrieved
retrieval_miss   there are relevant documents and none was retrieved; without judgments: no fact is in the contexts, or fewer
                 than half of them and the system refused
gold_suspect     sentences that the contexts support conflict with the ground truth: one of the two, or the judge, is wrong
ranking_miss     the first relevant document ranks too low, or the contexts lack facts although one was retrieved
off_topic        the answer hardly addresses the query and covers no fact
unfaithful       the contexts contradict a sentence, or support too little of the answer
contexts_unused  the contexts hold the facts and the answer covers few of them
incomplete       the answer leaves facts out
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ragassay.core.models import FrozenModel, Result, Score, Verdict
from ragassay.metrics.judged import completeness, context_recall, faithfulness, relevance

Cause = Literal[
    "answered_the_unanswerable",
    "wrong_refusal",
    "retrieval_miss",
    "gold_suspect",
    "ranking_miss",
    "off_topic",
    "unfaithful",
    "contexts_unused",
    "incomplete",
]
NEXT_STEPS: dict[Cause, str] = {
    "retrieval_miss": "Check that the document is in the index, then retrieve more or better: see recall and hit rate.",
    "ranking_miss": "Rerank, or pass more passages to the model: what it needs stands too low, see mrr and context_recall.",
    "wrong_refusal": "Loosen the instruction to refuse: these queries can be answered.",
    "answered_the_unanswerable": "Tell the model to say so if the passages have no answer, and test it on such queries.",
    "gold_suspect": "Read these rows: correct the ground truth where the passages are right.",
    "off_topic": "Read these answers: check query rewriting and the prompt, which lose the question.",
    "unfaithful": "Tell the model to use the passages alone, lower its temperature, or try a stronger model.",
    "contexts_unused": "Shorten or reorder the passages, and ask for every fact in them: the model overlooks what it is given.",
    "incomplete": "Ask for complete answers, and check limits on their length.",
}
"""What to do about each cause, in a sentence."""
FailureName = Literal[Cause, "not_attributed", "response_failed", "not_scored"]


class Attribution(FrozenModel):
    """Why one answer is not accurate. ``cause`` is null where that could not be found out; ``why`` says it in words."""

    cause: Cause | None
    why: str


LOWEST_GOOD_RANK = 3  # a first relevant document below this rank is a ranking miss
OFF_TOPIC_UP_TO = 0.25  # relevance "none" or "barely"
FAITHFUL_FROM = 0.8  # below it too little of the answer is supported
CONTEXTS_HOLD_FROM = 0.8  # context recall from which the contexts count as holding the facts
ANSWERABLE_FROM = 0.5  # context recall below which a refusal is the retriever's fault
USED_FROM = 0.5  # completeness below which contexts that hold the facts count as unused
COMPLETE_FROM = 1.0  # completeness below which an answer is incomplete


def attribute(row: Result) -> Attribution | None:
    """The primary cause of a row's failure; None for a row that is accurate or whose accuracy is unknown."""
    accurate = row.scores.get("accurate")
    if accurate is None or accurate.value is None or accurate.value > 0:
        return None
    cause, why = _cause(row)
    return Attribution(cause=cause, why=why)


def failure(row: Result) -> FailureName | None:
    """What went wrong with a row, one kind for each; None where nothing is known to.

    ``response_failed``: there is no answer; else the cause for which it is not accurate, or ``not_attributed``;
    ``not_scored``: nothing of that, and a score is missing because something broke.
    """
    if row.error is not None:
        return "response_failed"
    if found := attribute(row):
        return found.cause or "not_attributed"
    return "not_scored" if row.failed else None


def _cause(row: Result) -> tuple[Cause | None, str]:
    """The first cause that holds, and why; None if none of what was checked does."""
    verdict, rank, held = row.verdict, _first_rank(row), _value(row, "context_recall", context_recall)
    sentences = verdict.sentences if verdict else ()
    if row.answerable is False and verdict and verdict.refusal is not None:
        if sentences:
            return "answered_the_unanswerable", "answered the unanswerable"
        return None, "the query can't be answered, and the answer is empty instead of saying so"
    none_retrieved = f"none of {row.relevant} relevant documents was retrieved"
    if verdict and verdict.refusal:
        if rank == 0:
            return "retrieval_miss", f"the system refused: {none_retrieved}"
        if held is not None:
            retrieved = f"the contexts hold {held:.0%} of the facts"
        else:
            retrieved = (
                f"a relevant document is at rank {rank}" if rank else "the query can be answered, as far as is known"
            )
        if rank is None and held is not None and held < ANSWERABLE_FROM:
            return "retrieval_miss", f"the system refused: {retrieved}"
        return "wrong_refusal", f"wrong refusal: {retrieved}"
    if rank == 0:
        return "retrieval_miss", none_retrieved
    if rank is None and held == 0:
        return "retrieval_miss", "no fact of the ground truth is in the contexts"
    if verdict and (suspects := [s.id for s in sentences if s.support == "supported" and s.truth == "conflicts"]):
        whose = ": the local judge or the ground truth is wrong" if verdict.judge == "local" else ""
        return "gold_suspect", f"the contexts support {', '.join(suspects)}, which the ground truth contradicts{whose}"
    if rank and rank > LOWEST_GOOD_RANK:
        return "ranking_miss", f"the first relevant document is at rank {rank}"
    if rank and held is not None and held < 1:
        return (
            "ranking_miss",
            f"the contexts hold {held:.0%} of the facts, though a relevant document is at rank {rank}",
        )
    if denied := [s for s in sentences if s.support == "contradicted"]:
        by = "; ".join(f"{s.id} is contradicted by {', '.join(s.evidence) or 'the contexts'}" for s in denied)
        return "unfaithful", by
    addressed, covered = _value(row, "relevance", relevance), _value(row, "completeness", completeness)
    if addressed is not None and addressed <= OFF_TOPIC_UP_TO and not covered:
        return "off_topic", f"relevance is {addressed:.3g}"
    supported = _value(row, "faithfulness", faithfulness)
    if supported is not None and supported < FAITHFUL_FROM:
        return "unfaithful", f"faithfulness is {supported:.3g}"
    if covered is not None and covered < COMPLETE_FROM:
        if held is not None and held >= CONTEXTS_HOLD_FROM and covered < USED_FROM:
            why = f"the contexts hold {held:.0%} of the facts, the answer covers {covered:.0%}"
            return "contexts_unused", why
        return "incomplete", f"the answer covers {covered:.0%} of the facts"
    if verdict is None:
        return None, "there is no verdict on the answer"
    return None, "every part that was checked is fine, only the accuracy rule is not met"


def _first_rank(row: Result) -> int | None:
    """Rank of the first relevant document retrieved, 0 if none was; None if the query has no relevant document."""
    if not row.relevant or row.relevant_ranks is None:
        return None
    return row.relevant_ranks[0] if row.relevant_ranks else 0


def _value(row: Result, name: str, of: Callable[[Verdict], Score]) -> float | None:
    """A judged score, worked out from the verdict where the run did not ask for it."""
    if (score := row.scores.get(name)) is not None:
        return score.value
    return of(row.verdict).value if row.verdict else None
