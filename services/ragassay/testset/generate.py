"""From candidate questions to rows: what is thrown away and why, which of the others are drawn, and how rows are marked."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragassay.core.errors import NothingToEvaluate
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.text import content, words
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.datasets.describe import normalised, similar_groups

SHORTEST, LONGEST = 4, 40  # words of a question
_POINTS_ELSEWHERE = frozenset(
    """it its they them their this that these those he she his her we our you your here there such neither anything otherwise
    therefore same former latter doubt""".split()
)
_EXAMPLES = 3


@dataclass(frozen=True)
class Candidate:
    """A question before it is checked. ``answer`` is empty where the passages hold none.

    ``about`` names its subject, empty where it is known to be clear; ``unfit``: why it was found to be of no use already.
    """

    question: str
    answer: str
    passages: tuple[Passage, ...]
    category: str
    difficulty: str
    made_by: str
    about: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    unfit: str | None = None


class DroppedQuestions(FrozenModel):
    """Candidates that were thrown away for one reason."""

    reason: str
    count: int
    examples: tuple[str, ...]


class GenerationReport(FrozenModel):
    """How many candidates there were, what became of them, and what was drawn, by who made it."""

    passages: int
    candidates: int
    dropped: tuple[DroppedQuestions, ...]
    not_drawn: int
    rows: int
    made_by: dict[str, int]


def draw(
    found: Iterable[Candidate],
    corpus: Corpus,
    count: int,
    *,
    seed: int,
    unanswerable: float = 0.1,
    marked: Mapping[str, Any],
) -> tuple[list[Sample], GenerationReport]:
    """``count`` questions in the order of a draw, fewer where there are not enough; the same on any machine.

    ``unanswerable`` is the share of questions without an answer, if a model writes them. Each row says in
    ``metadata.generated`` which generator made it (``marked`` is part of that) and from which passages. Raises
    NothingToEvaluate where no question is left.
    """
    candidates = sorted(found, key=lambda each: (_drawn(seed, each), each.question))
    kept, dropped = _filtered(candidates)
    open_, closed = [c for c in kept if c.answer], [c for c in kept if not c.answer]
    without = min(round(count * unanswerable), len(closed))
    chosen = [*open_[: count - without], *closed[:without]]
    if not chosen:
        most_common = max(dropped.items(), key=lambda item: len(item[1]), default=None)
        why = f": {most_common[0]} ({len(most_common[1])} of {len(candidates)} candidates)" if most_common else ""
        raise NothingToEvaluate(
            f"no question could be made of {len(corpus.passages)} passages{why}",
            hint="templates need English sentences that define, count or condition something; --model asks a model",
        )
    chosen.sort(key=lambda each: hashlib.sha256(_drawn(seed, each)).digest())  # those drawn first have the smallest
    report = GenerationReport(
        passages=len(corpus.passages),
        candidates=len(candidates),
        dropped=tuple(
            DroppedQuestions(reason=reason, count=len(questions), examples=tuple(questions[:_EXAMPLES]))
            for reason, questions in sorted(dropped.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
        not_drawn=len(kept) - len(chosen),
        rows=len(chosen),
        made_by=dict(sorted(Counter(each.made_by for each in chosen).items())),
    )
    width = len(str(len(chosen)))
    return [_row(f"G{n:0{width}d}", each, marked) for n, each in enumerate(chosen, 1)], report


def _drawn(seed: int, candidate: Candidate) -> bytes:
    return hashlib.sha256(f"{seed}\0{candidate.made_by}\0{candidate.question}".encode()).digest()


def _filtered(candidates: Sequence[Candidate]) -> tuple[list[Candidate], dict[str, list[str]]]:
    """Candidates that can stand alone, and the questions of the others by the reason."""
    dropped: defaultdict[str, list[str]] = defaultdict(list)
    sound: list[Candidate] = []
    for each in candidates:
        if why := _unfit(each):
            dropped[why].append(each.question)
        else:
            sound.append(each)
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for each in sound:
        answers[normalised(each.question)].add(normalised(each.answer))
    clear = []
    for each in sound:
        if len(answers[normalised(each.question)]) > 1:
            dropped["passages answer it differently"].append(each.question)
        else:
            clear.append(each)
    groups = similar_groups([normalised(each.question) for each in clear])
    later = {place for group in groups for place in group[1:]}
    for place in sorted(later):
        dropped["a similar question is there"].append(clear[place].question)
    return [each for place, each in enumerate(clear) if place not in later], dropped


def _unfit(each: Candidate) -> str | None:
    """Why a question can't be used; None for one that can."""
    if each.unfit:
        return each.unfit
    length = len(each.question.split())
    if not SHORTEST <= length <= LONGEST:
        return f"it has fewer than {SHORTEST} or more than {LONGEST} words"
    if not _POINTS_ELSEWHERE.isdisjoint(words(each.about)):
        return "it is not clear without its passage"
    if each.answer and content(each.answer) <= content(each.question):
        return "it holds its own answer"
    return None


def _row(query_id: str, each: Candidate, marked: Mapping[str, Any]) -> Sample:
    ids = tuple(passage.id for passage in each.passages)
    made = {**marked, "made_by": each.made_by, "passages": list(ids), **each.details}
    answered: dict[str, Any] = {
        "ground_truth_answer": (each.answer,),
        "relevant_doc_ids": ids,
        "primary_relevant": ids[0],
        "reference_contexts": tuple(passage.full for passage in each.passages),
    }
    return Sample(
        query_id=query_id,
        query=each.question,
        category=each.category,
        difficulty=each.difficulty,
        answerable=bool(each.answer),
        metadata={"generated": made},
        **(answered if each.answer else {}),
    )
