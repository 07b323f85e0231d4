"""Cuts a sample into numbered units and checks a judge's reply about them.

A judge is asked once about all units of a sample: answer sentences ``A1 A2 ...``, key facts of the ground truth
``G1 G2 ...``, context sentences ``C1.1 C1.2 C2.1 ...`` (context, sentence; counted from 1), earlier turns of the
conversation ``H1 H2 ...`` and criteria in the user's words ``K1 K2 ...``. Because our code numbers the units, it can
tell a missing verdict from a negative one, and evidence that points nowhere from support.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ragassay.core.models import CriterionVerdict, FactVerdict, Message, Sample, SentenceVerdict, Step, Verdict
from ragassay.core.text import is_answerable, sentences, words

# What labels are worth; the most sceptical stands first, and wins where a jury is split evenly.
SUPPORT: Mapping[str, float] = {"contradicted": 0.0, "not_found": 0.0, "partly": 0.5, "supported": 1.0}
TRUTH: Mapping[str, float] = {"conflicts": 0.0, "absent": 0.0, "agrees": 1.0}
COVERED: Mapping[str, float] = {"no": 0.0, "partly": 0.5, "yes": 1.0}
STEP_WORTH: Mapping[Step, float] = {"none": 0.0, "barely": 0.25, "partly": 0.5, "mostly": 0.75, "full": 1.0}
STEPS = tuple(STEP_WORTH)
ECHO = "the answer only repeats the question"
INSTRUCTIONS = ("system", "developer")  # roles whose turns tell the system what to do, and are evidence of nothing
CHARACTERS_PER_TOKEN = 4
LEAST_ECHO = 3  # words: a keyword may well be its own answer


@dataclass(frozen=True, slots=True)
class Units:
    """The numbered units of one sample; each mapping keeps the order of the text. ``criteria``: their names."""

    answer: Mapping[str, str]
    facts: Mapping[str, str]
    contexts: Mapping[str, str]
    criteria: Mapping[str, str]
    has_contexts: bool
    has_truth: bool
    answerable: bool
    history: Mapping[str, str] = field(default_factory=dict)
    echo: bool = False  # the answer repeats the question, and says nothing by itself

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids that a judge must answer, each exactly once."""
        return (*self.answer, *self.facts, *self.criteria)


def number_units(sample: Sample, criteria: Iterable[str] = ()) -> Units:
    """Number the sample's units. Facts are ``key_facts``, else the sentences of the first ground truth that has any.

    A query that can't be answered has none. ``criteria`` are the names of those that an answer is to be judged by.
    """
    answer, answerable = sentences(sample.answer or ""), is_answerable(sample) is not False
    facts = [fact.strip() for fact in sample.key_facts if fact.strip()] if answerable else []
    if answerable and not facts:
        facts = next(filter(None, map(sentences, sample.ground_truth_answer)), [])
    contexts = {
        f"C{c}.{s}": text
        for c, context in enumerate(sample.contexts or (), 1)
        for s, text in enumerate(sentences(context), 1)
    }
    return Units(
        answer={f"A{n}": text for n, text in enumerate(answer, 1)},
        facts={f"G{n}": text for n, text in enumerate(facts, 1)},
        contexts=contexts,
        criteria={f"K{n}": name for n, name in enumerate(criteria, 1)} if answer else {},
        has_contexts=sample.contexts is not None,
        has_truth=bool(facts),
        answerable=answerable,
        history=turn_units(sample.history),
        echo=len(asked := words(sample.query)) >= LEAST_ECHO and asked == words(sample.answer or ""),
    )


def turn_units(history: Sequence[Message]) -> dict[str, str]:
    """Earlier turns as a judge reads them, by their labels; instructions are left out."""
    return {
        f"H{n}": f"{turn.role}: {turn.content}"
        for n, turn in enumerate(history, 1)
        if turn.role not in INSTRUCTIONS and turn.content.strip()
    }


def recent_turns(history: Sequence[Message], max_tokens: int) -> tuple[Message, ...]:
    """The last turns that have ``max_tokens`` together, about four characters each; the last one is cut if it is longer.

    Earlier turns are emptied and stay in their places, so that ``H3`` is the third turn whatever the limit.
    """
    left, turns = max_tokens * CHARACTERS_PER_TOKEN, list[Message]()
    for n, turn in enumerate(reversed(history)):
        fits = len(turn.content) <= left
        turns.append(turn if fits else turn.model_copy(update={"content": turn.content[:left] if n == 0 else ""}))
        left = left - len(turn.content) if fits else 0
    return tuple(reversed(turns))


def with_recent_turns(sample: Sample, max_tokens: int) -> Sample:
    """The sample with the ``recent_turns`` of its history."""
    if not sample.history:
        return sample
    return sample.model_copy(update={"history": recent_turns(sample.history, max_tokens)})


def turn_sentences(sample: Sample) -> dict[str, list[str]]:
    """The sentences of earlier turns that state something, by their labels; what a user asks states nothing."""
    return {
        f"H{n}": [one for one in sentences(turn.content) if turn.role != "user" or not one.rstrip().endswith("?")]
        for n, turn in enumerate(sample.history, 1)
        if turn.role not in INSTRUCTIONS
    }


def sentence_labels(units: Units, turns: Mapping[str, Sequence[str]]) -> list[str]:
    """The label of each sentence of the contexts, then of each of ``turn_sentences``, in the order of a ``Source`` of both."""
    return [*units.contexts, *(label for label, texts in turns.items() for _ in texts)]


def is_of_history(label: str) -> bool:
    """Is it the label of an earlier turn, such as ``H2``?"""
    return label.startswith("H")


def context_number(label: str) -> int:
    """The context's rank, from 1, in a label such as ``C2.1``."""
    return int(label[1:].split(".")[0])


def check_verdict(raw: Verdict, units: Units, judge: str) -> Verdict:
    """The verdict on all units from what a judge answered: each unit once, in order, None where it is not answered.

    Evidence that points nowhere is dropped, support without evidence is withdrawn.

    An answer that only repeats the question states nothing, whatever the judge makes of it.
    """
    sentences_by_id = {one.id: one for one in raw.sentences}
    facts_by_id, criteria_by_id = {one.id: one for one in raw.facts}, {one.id: one for one in raw.criteria}
    kept_sentences, kept_facts = [], []
    sources = {**units.history, **units.contexts}
    for label, text in units.answer.items():
        sentence = sentences_by_id.get(label) or SentenceVerdict(id=label, text=text)
        evidence = _valid(sentence.evidence, sources)
        change: dict[str, object] = {"text": text, "evidence": evidence}
        if units.echo:
            sentence, evidence = SentenceVerdict(id=label, text=text, truth="absent", why=ECHO), ()
            change = {"support": "not_found"}
        if not units.has_truth:
            change.update(truth=None, truth_score=None)
        if not units.has_contexts:
            change.update(support=None, support_score=None, evidence=())
        elif sentence.support in ("supported", "partly") and not evidence:
            change.update(
                support="not_found",
                support_score=None,
                why=sentence.why or "the judge named no sentence that supports it",
            )
        kept_sentences.append(sentence.model_copy(update=change))
    for label, text in units.facts.items():
        fact = facts_by_id.get(label) or FactVerdict(id=label, text=text)
        if units.echo:
            fact = FactVerdict(id=label, text=text, covered="no", evidence=fact.evidence, why=ECHO)
        evidence = _valid(fact.evidence, units.contexts)
        kept_facts.append(fact.model_copy(update={"text": text, "evidence": evidence}))
    return Verdict(
        judge=judge,
        sentences=tuple(kept_sentences),
        facts=tuple(kept_facts),
        relevance="none" if units.echo else raw.relevance,
        refusal=False if units.echo else raw.refusal,
        criteria=tuple(
            criteria_by_id.get(label) or CriterionVerdict(id=label, name=name) for label, name in units.criteria.items()
        ),
        why=ECHO if units.echo else raw.why,
        answerable=units.answerable,
        has_contexts=units.has_contexts,
        has_truth=units.has_truth,
        probability={} if units.echo else raw.probability,
    )


def labels(verdict: Verdict) -> dict[str, str]:
    """What a judge said, by unit and kind (``A1 support``); what it was not asked, or left unanswered, is not in it."""
    refusal = None if verdict.refusal is None else "yes" if verdict.refusal else "no"
    given: list[tuple[str, str | None]] = []
    for sentence in verdict.sentences:
        given += [(f"{sentence.id} support", sentence.support), (f"{sentence.id} truth", sentence.truth)]
    given += [(f"{fact.id} covered", fact.covered) for fact in verdict.facts]
    given += [("relevance", verdict.relevance), ("refusal", refusal)]
    given += [(f"{one.id} criterion", one.step) for one in verdict.criteria]
    return {unit: label for unit, label in given if label is not None}


def _valid(evidence: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(label for label in dict.fromkeys(evidence) if label in known)
