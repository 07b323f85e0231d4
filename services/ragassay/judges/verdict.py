"""Cuts a sample into numbered units and checks a judge's reply about them.

A judge is asked once about all units of a sample: answer sentences ``A1 A2 ...``, key facts of the ground truth
``G1 G2 ...`` and context sentences ``C1.1 C1.2 C2.1 ...`` (context, sentence; counted from 1). Because our code
numbers the units, it can tell a missing verdict from a negative one, and evidence that points nowhere from support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragassay.judges.text import sentences
from ragassay.models import FactVerdict, RelevanceStep, Sample, SentenceVerdict, Verdict


@dataclass(frozen=True, slots=True)
class Units:
    """The numbered units of one sample; each mapping keeps the order of the text."""

    answer: Mapping[str, str]
    facts: Mapping[str, str]
    contexts: Mapping[str, str]
    has_contexts: bool
    has_truth: bool

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids that a judge must answer, each exactly once."""
        return (*self.answer, *self.facts)


def number_units(sample: Sample) -> Units:
    """Number the sample's units. Facts are ``key_facts``, else the sentences of the first ground truth that has any."""
    facts = [fact.strip() for fact in sample.key_facts if fact.strip()]
    if not facts:
        facts = next(filter(None, map(sentences, sample.ground_truth_answer)), [])
    contexts = {
        f"C{c}.{s}": text
        for c, context in enumerate(sample.contexts or (), 1)
        for s, text in enumerate(sentences(context), 1)
    }
    return Units(
        answer={f"A{n}": text for n, text in enumerate(sentences(sample.answer or ""), 1)},
        facts={f"G{n}": text for n, text in enumerate(facts, 1)},
        contexts=contexts,
        has_contexts=sample.contexts is not None,
        has_truth=bool(facts),
    )


def context_number(label: str) -> int:
    """The context's rank, from 1, in a label such as ``C2.1``."""
    return int(label[1:].split(".")[0])


@dataclass(slots=True)
class RawVerdict:
    """What a judge answered, before it is checked against the units."""

    sentences: dict[str, SentenceVerdict] = field(default_factory=dict)
    facts: dict[str, FactVerdict] = field(default_factory=dict)
    relevance: RelevanceStep | None = None
    refusal: bool | None = None
    why: str = ""


def check_verdict(raw: RawVerdict, units: Units, judge: str) -> Verdict:
    """The verdict on all units: evidence that points nowhere is dropped, support without evidence is withdrawn."""
    dropped = withdrawn = 0
    kept_sentences, kept_facts = [], []
    for label, text in units.answer.items():
        sentence = raw.sentences.get(label) or SentenceVerdict(id=label, text=text)
        evidence = _valid(sentence.evidence, units)
        dropped += len(set(sentence.evidence)) - len(evidence)
        change: dict[str, object] = {"text": text, "evidence": evidence}
        if not units.has_truth:
            change["truth"] = None
        if not units.has_contexts:
            change.update(support=None, evidence=())
        elif sentence.support in ("supported", "partly") and not evidence:
            withdrawn += 1
            change.update(support="not_found", why=sentence.why or "the judge named no sentence that supports it")
        kept_sentences.append(sentence.model_copy(update=change))
    for label, text in units.facts.items():
        fact = raw.facts.get(label) or FactVerdict(id=label, text=text)
        evidence = _valid(fact.evidence, units)
        dropped += len(set(fact.evidence)) - len(evidence)
        kept_facts.append(fact.model_copy(update={"text": text, "evidence": evidence}))
    return Verdict(
        judge=judge,
        sentences=tuple(kept_sentences),
        facts=tuple(kept_facts),
        relevance=raw.relevance,
        refusal=raw.refusal,
        why=raw.why,
        has_contexts=units.has_contexts,
        has_truth=units.has_truth,
        evidence_dropped=dropped,
        support_withdrawn=withdrawn,
    )


def _valid(evidence: Sequence[str], units: Units) -> tuple[str, ...]:
    """The labels that exist, each once, in the order given."""
    return tuple(label for label in dict.fromkeys(evidence) if label in units.contexts)
