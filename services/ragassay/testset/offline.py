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
_TEMPLATES = (  # a sentence, its question, its category and difficulty
    (
        re.compile(r"(?P<an>An?) (?P<about>[\w'-]+(?: (?!is\b)[\w'-]+){0,3}) is (?:an?|the) [a-z].{12,}"),
        "What is {an} {about}?",
        "conceptual",
        "easy",
    ),
    (
        re.compile(r"(?P<word>If|When) (?P<about>[^,;:]{8,120}), .{8,}"),
        "What happens {word} {about}?",
        "procedural",
        "medium",
    ),
    (
        re.compile(
            r"(?P<about>[A-Z][^.;:()\d]{6,120}?[^,]) \d(?:[\d,.]*\d)? (?P<unit>[a-z]+s(?: per [a-z]+)?)"
            r"(?=[.,;]| (?!after|before))"
        ),
        "{about} how many {unit}?",
        "factual",
        "easy",
    ),
)


def candidates(corpus: Corpus) -> Iterator[Candidate]:
    """All questions that the templates find, unchecked, in the order of the passages; one of a sentence."""
    for passage in corpus.passages:
        for sentence in sentences(passage.text):
            for pattern, question, category, difficulty in _TEMPLATES:
                if match := pattern.match(sentence):
                    parts = {
                        name: part.lower() if name in ("an", "word") else part
                        for name, part in match.groupdict().items()
                    }
                    yield Candidate(
                        question.format(**parts), sentence, passage, category, difficulty, about=match["about"]
                    )
                    break
