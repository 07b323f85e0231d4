"""From candidate questions to a version of a dataset: what is thrown away and why, which are drawn, how rows are marked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragassay.core.draws import draw_key
from ragassay.core.errors import BadSettings, NothingToEvaluate
from ragassay.core.models import FrozenModel, Sample, Usage
from ragassay.core.text import content, words
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.datasets.describe import normalised, similar_groups
from ragassay.datasets.versions import DatasetStore, DatasetVersion, Lineage, Origin

MAX_QUESTIONS = 100_000
SHORTEST, LONGEST = 4, 40  # words of a question
_POINTS_ELSEWHERE = frozenset(
    """it its they them their this that these those there he she his her we our you your here such neither anything otherwise
    therefore same former latter doubt""".split()
)
_EXAMPLES = 3


@dataclass(frozen=True)
class Candidate:
    """A question before it is checked.

    ``about`` names its subject, empty where it is known to be clear; ``unfit``: why it was found to be of no use already.
    """

    question: str
    answer: str
    passage: Passage
    category: str
    difficulty: str
    about: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    unfit: str | None = None


@dataclass(frozen=True)
class Written:
    """Candidates, who wrote them, what determined them and, if it was a model, what that took."""

    by: str
    candidates: Sequence[Candidate]
    options: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage | None = None


class DroppedQuestions(FrozenModel):
    """Candidates that were thrown away for one reason."""

    reason: str
    count: int
    examples: tuple[str, ...]


class GeneratedVersion(FrozenModel):
    """The version of the questions that were drawn, how many candidates there were, and what a model spent on them."""

    version: DatasetVersion
    passages: int
    candidates: int
    dropped: tuple[DroppedQuestions, ...]
    not_drawn: int
    rows: int
    usage: Usage | None = None


def check_count(count: int) -> None:
    """Raise BadSettings for a number of questions that can't be."""
    if not 1 <= count <= MAX_QUESTIONS:
        raise BadSettings(f"should be from 1 to {MAX_QUESTIONS:,}, is {count}", where="count")


def generate(
    store: DatasetStore,
    name: str,
    corpus: Corpus,
    written: Written,
    count: int,
    *,
    seed: int = 0,
    sources: Iterable[str] = (),
) -> GeneratedVersion:
    """Keep ``count`` questions with ground truth as a version, in the order of a draw, fewer where there are not enough.

    Each row says in ``metadata.generated`` who wrote it, and from which passage. Raises NothingToEvaluate where no question
    is left.
    """
    kept, dropped = _filtered(
        sorted(written.candidates, key=lambda each: (draw_key(seed, each.question), each.question))
    )
    if not kept:
        why = max(dropped, key=lambda reason: len(dropped[reason]), default="there is no candidate")
        hint = "templates need English sentences that define, count or condition something; --model asks a model"
        raise NothingToEvaluate(
            f"no question could be made of {len(corpus.passages)} passages: {why}",
            hint=f"the model took {calls_text(written.usage)}" if written.usage else hint,
        )
    marked = {"by": written.by, "seed": seed}
    width = len(str(min(count, len(kept))))
    samples = [_row(f"G{n:0{width}d}", each, marked) for n, each in enumerate(kept[:count], 1)]
    options = {**marked, "count": count, "corpus": corpus.digest, **written.options}
    origin = Origin(lineage=Lineage(action="generate", sources=tuple(sources), options=options))
    return GeneratedVersion(
        version=store.add(name, samples, lambda: origin),
        passages=len(corpus.passages),
        candidates=len(written.candidates),
        dropped=tuple(
            DroppedQuestions(reason=reason, count=len(questions), examples=tuple(questions[:_EXAMPLES]))
            for reason, questions in sorted(dropped.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
        not_drawn=len(kept) - len(samples),
        rows=len(samples),
        usage=written.usage,
    )


def calls_text(usage: Usage) -> str:
    """How many calls there were and what they cost."""
    cost = "of unknown cost" if usage.cost_usd is None else f"{usage.cost_usd:.4f} USD"
    lost = f", {usage.uncertain_calls} with an unknown outcome" if usage.uncertain_calls else ""
    return f"{usage.calls} calls{lost}, {usage.cache_hits} taken from earlier ones, {cost}"


def _filtered(candidates: Iterable[Candidate]) -> tuple[list[Candidate], dict[str, list[str]]]:
    """Candidates that can stand alone, and the questions of the others by the reason."""
    dropped: defaultdict[str, list[str]] = defaultdict(list)
    answers: defaultdict[str, set[str]] = defaultdict(set)
    sound: list[Candidate] = []
    for each in candidates:
        if why := _unfit(each):
            dropped[why].append(each.question)
        else:
            sound.append(each)
            answers[normalised(each.question)].add(normalised(each.answer))
    clear = [each for each in sound if len(answers[normalised(each.question)]) == 1]
    if unclear := [each.question for each in sound if len(answers[normalised(each.question)]) > 1]:
        dropped["passages answer it differently"] = unclear
    groups = similar_groups([normalised(each.question) for each in clear])
    later = {place for group in groups for place in group[1:]}
    if later:
        dropped["a similar question is there"] = [clear[place].question for place in sorted(later)]
    return [each for place, each in enumerate(clear) if place not in later], dropped


def _unfit(each: Candidate) -> str | None:
    if each.unfit:
        return each.unfit
    if not SHORTEST <= len(each.question.split()) <= LONGEST:
        return f"it has fewer than {SHORTEST} or more than {LONGEST} words"
    if not _POINTS_ELSEWHERE.isdisjoint(words(each.about)):
        return "it is not clear without its passage"
    if content(each.answer) <= content(each.question):
        return "it holds its own answer"
    return None


def _row(query_id: str, each: Candidate, marked: Mapping[str, Any]) -> Sample:
    return Sample(
        query_id=query_id,
        query=each.question,
        category=each.category,
        difficulty=each.difficulty,
        answerable=True,
        ground_truth_answer=(each.answer,),
        relevant_doc_ids=(each.passage.id,),
        primary_relevant=each.passage.id,
        reference_contexts=(each.passage.full,),
        metadata={"generated": {**marked, "passages": [each.passage.id], **each.details}},
    )
