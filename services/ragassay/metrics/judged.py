"""Metrics of a verdict. The judge says what holds of each sentence and fact; the arithmetic is all here.

A unit that the judge left unanswered makes the metrics that need it missing; it never shrinks a denominator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragassay.core.formatting import listed
from ragassay.core.models import FactVerdict, Score, SentenceVerdict, Verdict
from ragassay.judges.verdict import COVERED, STEP_WORTH, SUPPORT, context_number, is_of_history
from ragassay.metrics.metric import UNIT, metric

EMPTY = "the answer is empty"
UNANSWERABLE = "the query can't be answered"
RIGHT_REFUSAL = "a right refusal: the query can't be answered"
WRONG_REFUSAL = "wrong refusal: the query can be answered, as far as is known"
ANSWERED_UNANSWERABLE = "answered the unanswerable"
MAX_REASONS = 5
QUESTIONS = {
    "faithfulness": "Do the contexts support what the answer says?",
    "correctness": "Does the answer agree with what is expected?",
    "completeness": "Does the answer cover the key facts?",
    "relevance": "Does the answer address the question?",
    "accurate": "Is the answer accurate?",
}
"""What people are asked, by metric: those whose meaning a person can answer at a glance."""


@metric(better="higher", needs=("answer", "contexts", "verdict"), bounds=UNIT)
def faithfulness(verdict: Verdict) -> Score:
    """Share of the answer's sentences that the retrieved contexts, or earlier turns, support; partly counts half."""
    if not verdict.has_contexts:
        return _no_contexts()
    if not verdict.sentences:
        return Score.absent(EMPTY)
    if rightly_refuses(verdict):
        return Score.absent(RIGHT_REFUSAL)
    support = {s.id: s.support for s in verdict.sentences}
    if (left := _unanswered(support)) is not None:
        return left
    worth = (SUPPORT[s.support] if s.support_score is None else s.support_score for s in verdict.sentences if s.support)
    by_history = sum(any(map(is_of_history, s.evidence)) for s in verdict.sentences)
    return Score(
        value=_mean(worth),
        reason=_reasons((s.id, s.why) for s in verdict.sentences if s.support != "supported"),
        details={
            "sentences": len(support),
            **_counts(support.values(), SUPPORT),
            **({"by_history": by_history} if by_history else {}),
        },
    )


@metric(better="higher", needs=("answer", "contexts", "verdict"), bounds=UNIT)
def context_faithfulness(verdict: Verdict) -> Score:
    """Faithfulness to the contexts of this turn alone: a sentence that rests on earlier turns only counts 0, on both half."""
    sentences = [_by_contexts(sentence) for sentence in verdict.sentences]
    return faithfulness(verdict.model_copy(update={"sentences": tuple(sentences)}))


def _by_contexts(sentence: SentenceVerdict) -> SentenceVerdict:
    """The sentence as the contexts alone support it."""
    turns = [label for label in sentence.evidence if is_of_history(label)]
    if not turns or sentence.support not in ("supported", "partly"):
        return sentence
    contexts = tuple(label for label in sentence.evidence if label not in turns)
    share = 0.5 if contexts else 0.0
    score = None if sentence.support_score is None else sentence.support_score * share
    change = {"support": "partly" if contexts else "not_found", "support_score": score, "evidence": contexts}
    return sentence.model_copy(update=change | {"why": f"it rests on {', '.join(turns)}"})


@metric(better="higher", needs=("answer", "truth", "verdict"), bounds=UNIT)
def completeness(verdict: Verdict) -> Score:
    """Share of the ground truth's key facts that the answer covers; partly counts half."""
    if not verdict.facts:
        return _no_truth(verdict)
    if not verdict.sentences:
        return Score(value=0.0, reason=EMPTY)
    covered = {f.id: f.covered for f in verdict.facts}
    if (left := _unanswered(covered)) is not None:
        return left
    return Score(
        value=_mean(
            COVERED[f.covered] if f.covered_score is None else f.covered_score for f in verdict.facts if f.covered
        ),
        reason=_reasons((f.id, f.why) for f in verdict.facts if f.covered != "yes"),
        details={"facts": len(covered), **_counts(covered.values(), COVERED)},
    )


@metric(better="higher", needs=("answer", "verdict"), bounds=UNIT)
def relevance(verdict: Verdict) -> Score:
    """How far the answer addresses the query, in five steps: none, barely, partly, mostly, full."""
    if not verdict.sentences:
        return Score(value=0.0, reason=EMPTY)
    if rightly_refuses(verdict):
        return Score.absent(RIGHT_REFUSAL)
    if verdict.relevance is None:
        return Score.absent("the judge did not say how far the answer addresses the query", "failed")
    marks = ["the answer refuses"] if verdict.refusal else []
    return Score(
        value=STEP_WORTH[verdict.relevance],
        reason="; ".join(dict.fromkeys([*marks, *([verdict.why] if verdict.why else [])])) or None,
        details={"step": verdict.relevance, "refusal": verdict.refusal},
    )


@metric(better="higher", needs=("answer", "truth", "verdict"), bounds=UNIT)
def correctness(verdict: Verdict) -> Score:
    """F1 of the share of the answer's sentences that agree with the ground truth, and of completeness."""
    recall = completeness(verdict)
    if recall.value is None or not verdict.sentences:
        return recall
    truth = {s.id: s.truth for s in verdict.sentences}
    if (left := _unanswered(truth)) is not None:
        return left
    precision = _mean((s.truth == "agrees") if s.truth_score is None else s.truth_score for s in verdict.sentences)
    conflicts = (s for s in verdict.sentences if s.truth == "conflicts")
    conflicting = ((s.id, s.why or "conflicts with the ground truth") for s in conflicts)
    return Score(
        value=2 * precision * recall.value / (precision + recall.value) if precision + recall.value else 0.0,
        reason=_reasons([*conflicting, *((f.id, f.why) for f in verdict.facts if f.covered != "yes")]),
        details={
            "precision": precision,
            "recall": recall.value,
            **_counts(truth.values(), ("agrees", "conflicts", "absent")),
        },
    )


@metric(better="higher", needs=("contexts", "verdict"), bounds=UNIT)
def context_precision(verdict: Verdict) -> Score:
    """Average precision of the contexts that were needed, in retrieved order.

    Needed are those that hold a fact of the ground truth; without ground truth, those that a supported or partly
    supported sentence of the answer rests on. Undefined when none was.
    """
    if not verdict.has_contexts:
        return _no_contexts()
    if not verdict.answerable:
        return _no_truth(verdict)
    resting: Sequence[SentenceVerdict | FactVerdict]
    if verdict.facts:
        left = _unanswered({f.id: f.covered for f in verdict.facts})
        resting, what = verdict.facts, "no context holds a fact of the ground truth"
    else:
        left = _unanswered({s.id: s.support for s in verdict.sentences})
        resting = [s for s in verdict.sentences if s.support in ("supported", "partly")]
        what = "no sentence rests on a context"
    if left is not None:
        return left
    needed = sorted({context_number(one) for unit in resting for one in unit.evidence if not is_of_history(one)})
    if not needed:
        return Score.absent(what if verdict.facts or verdict.sentences else EMPTY)
    value = _mean(hit / rank for hit, rank in enumerate(needed, 1))
    return Score(value=value, details={"needed": needed, "by": "facts" if verdict.facts else "sentences"})


@metric(better="higher", needs=("contexts", "truth", "verdict"), bounds=UNIT)
def context_recall(verdict: Verdict) -> Score:
    """Share of the ground truth's facts that the retrieved contexts hold."""
    if not verdict.has_contexts:
        return _no_contexts()
    if not verdict.facts:
        return _no_truth(verdict)
    if (left := _unanswered({f.id: f.covered for f in verdict.facts})) is not None:
        return left
    lacking = [f.id for f in verdict.facts if not f.evidence]
    return Score(
        value=1 - len(lacking) / len(verdict.facts),
        reason=f"not in the contexts: {listed(lacking, MAX_REASONS)}" if lacking else None,
        details={"facts": len(verdict.facts), "found": len(verdict.facts) - len(lacking)},
    )


def rightly_refuses(verdict: Verdict) -> bool:
    """Does the answer refuse a query that can't be answered?"""
    return not verdict.answerable and verdict.refusal is True


def _no_contexts() -> Score:
    return Score.absent("the response has no contexts", "no_input")


def _no_truth(verdict: Verdict) -> Score:
    if not verdict.answerable:
        return Score.absent(RIGHT_REFUSAL if rightly_refuses(verdict) else UNANSWERABLE)
    return Score.absent("the query has no ground truth", "no_input")


def _unanswered(answers: Mapping[str, str | None]) -> Score | None:
    """A missing score that names the units without an answer; None when all have one."""
    left = [unit for unit, answer in answers.items() if answer is None]
    return Score.absent(f"the judge left {listed(left, MAX_REASONS)} unanswered", "failed") if left else None


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _counts(answers: Iterable[str | None], kinds: Iterable[str]) -> dict[str, int]:
    counted = Counter(answers)
    return {kind: counted[kind] for kind in kinds}


def _reasons(notes: Iterable[tuple[str, str]]) -> str | None:
    """The first few reasons, each after the id it belongs to; None when there is none."""
    reasons = [f"{unit}: {why}" for unit, why in notes if why]
    more = [f"and {len(reasons) - MAX_REASONS} more"] if len(reasons) > MAX_REASONS else []
    return "; ".join(reasons[:MAX_REASONS] + more) or None
