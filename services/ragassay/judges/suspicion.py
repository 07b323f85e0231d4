"""Cheap signs that a verdict should be looked at by a person. They mark, they never change or drop a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ragassay.judges.verdict import Units
from ragassay.judges.words import content
from ragassay.models import Verdict

LEAST_OVERLAP = 0.1
_FEW_WORDS = 3
_TO_THE_JUDGE = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,30}\b(?:instructions?|rules|prompts?)\b"
    r"|\byou are (?:an? |the )?(?:impartial |strict )?(?:judge|grader|evaluator)\b"
    r"|\b(?:dear|attention|notes? (?:to|for)) (?:the |all )?(?:judges?|graders?|evaluators?)\b"
    r"|\b(?:rate|score|grade|mark|judge) (?:this|the|my|every|each|all)\b"
    r".{0,40}\b(?:as|full|highest|maximum|supported)\b"
    r"|\bsystem (?:prompt|override)\b|^\W*thought process\W*:"
    r'|"(?:support|covered|refusal|relevance)"\s*:|<\|\w+\|>|\[/?INST\]',
    re.IGNORECASE,
)


def suspicious(verdict: Verdict, asked: Units, deceiving: Iterable[str]) -> tuple[str, ...]:
    """Ids of units that speak to the judge or hide characters, and of sentences that share no word with their proof."""
    texts = {**asked.answer, **asked.contexts, **asked.facts}
    marked = dict.fromkeys(deceiving)
    marked.update(dict.fromkeys(label for label, text in texts.items() if _TO_THE_JUDGE.search(text)))
    for sentence in verdict.sentences:
        if sentence.support in ("supported", "partly"):
            evidence = " ".join(asked.contexts[label] for label in sentence.evidence)
            said = content(sentence.text)
            if len(said) >= _FEW_WORDS and len(said & content(evidence)) < LEAST_OVERLAP * len(said):
                marked.setdefault(sentence.id)
    return tuple(marked)
