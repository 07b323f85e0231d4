"""Questions from the wording of English sentences, for tests and demos: no model, the same questions everywhere.

definition   "An access token is a signed JWT ..."    What is an access token?
number       "Clocks may differ by 60 seconds."       Clocks may differ by how many seconds?
condition    "If an old token turns up, ..."          What happens if an old token turns up?
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragassay.core.text import sentences
from ragassay.datasets.corpus import Corpus
from ragassay.testset.generate import Candidate

VERSION = "2"
_DEFINITION = re.compile(r"(?P<thing>An? [\w'-]+(?: (?!is\b)[\w'-]+){0,3}) is (?:an?|the) [a-z].{12,}")
_NUMBER = re.compile(
    r"(?P<before>[A-Z][^.;:()\d]{6,120}?[^,]) \d(?:[\d,.]*\d)? (?P<unit>[a-z]+s(?: per [a-z]+)?)(?=[.,;]| (?!after|before))"
)
_CONDITION = re.compile(r"(?P<word>If|When) (?P<condition>[^,;:]{8,120}), .{8,}")


def candidates(corpus: Corpus) -> Iterator[Candidate]:
    """All questions that the templates find, unchecked, in the order of the passages."""
    for passage in corpus.passages:
        for sentence in sentences(passage.text):
            if found := _DEFINITION.match(sentence):
                thing = found["thing"][0].lower() + found["thing"][1:]
                made = (f"What is {thing}?", "conceptual", "easy", "definition", thing)
            elif found := _CONDITION.match(sentence):
                condition = found["condition"]
                made = (
                    f"What happens {found['word'].lower()} {condition}?",
                    "procedural",
                    "medium",
                    "condition",
                    condition,
                )
            elif found := _NUMBER.match(sentence):
                made = (f"{found['before']} how many {found['unit']}?", "factual", "easy", "number", found["before"])
            else:
                continue
            question, category, difficulty, kind, about = made
            yield Candidate(question, sentence, (passage,), category, difficulty, kind, about)
