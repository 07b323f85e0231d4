"""Questions from the wording of English sentences: needs no model, and gives the same questions for the same passages.

definition   "An access token is a signed JWT ..."    What is an access token?
number       "Clocks may differ by 60 seconds."       Clocks may differ by how many seconds?
condition    "If an old token turns up, ..."          What happens if an old token turns up?
purpose      "Use keys for unattended jobs ..."       What should keys be used for?
comparison   two definitions                          What is the difference between an access token and an API key?
unanswerable a subject, and a unit that no passage has beside it    How many days does an API key have?
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from ragassay.judges.text import content, is_lead_in, sentences
from ragassay.strategies.corpus import Corpus, Passage
from ragassay.synthesis.generate import Candidate

VERSION = "1"
_THING = r"(?:[A-Za-z][\w'-]*|`[^`]+`)(?: (?!is\b|are\b|and\b|or\b|that\b|which\b|of\b|in\b|for\b|on\b|with\b|to\b)[\w'`.-]+){0,3}"
_DEFINITION = re.compile(rf"(?P<thing>An? {_THING}) is (?P<what>(?:an?|the) [a-z].{{12,}})")
_CONDITION = re.compile(r"(?P<word>If|When) (?P<condition>[^,;:]{8,120}), (?P<then>[^?]{8,})")
_PURPOSE = re.compile(rf"Use (?P<thing>(?:an? |the )?{_THING}) (?:for|to) (?P<what>.{{8,}})")
_NUMBER = re.compile(
    r"(?P<before>[A-Z][^.;:()\d]{6,120}?[^,]) (?P<number>\d[\d,.]*\d|\d) "
    r"(?P<unit>[a-z][a-z-]+s(?: per [a-z]+)?(?: (?:ago|ahead"
    r"|apart|away|later|earlier|old|long)\b)?)(?! (?:after|before)\b)(?!['’\w])"
)
_NO_UNIT = frozenset("is was has does as this its less plus".split())
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|can|may|must|will|should|comes?|takes?|lasts?|lives?|holds?|accepts?|allows?|costs?"
    r"|counts?|keeps?|kept|expires?|needs?|includes?|contains?|sends?|waits?|starts?|ends?|brings?|gives?|gets?|uses?|runs?"
    r"|stops?|exceeds?|supports?|offers?|returns?|requires?|reads?|writes?|stores?|processes?)\b"
)
_CLAUSE = re.compile(r"\b(?:when|if|because|who|which|what|that)\b|,")
_DO = frozenset(
    "add ask branch call change check close contact copy create delete drop enable disable find follow give halt keep let look "
    "make move open put read remove replace report restart restore revoke rotate run send set start stop switch take tell try "
    "turn use wait write".split()
)
_LETTERS = re.compile(r"[A-Za-z]")


def candidates(corpus: Corpus) -> Iterator[Candidate]:
    """All questions that the templates find, unchecked, in the order of the passages."""
    defined: list[Candidate] = []
    counted: list[tuple[str, Passage]] = []
    for passage in corpus.passages:
        for sentence in sentences(passage.text):
            if is_lead_in(sentence) or len(_LETTERS.findall(sentence)) < 15:
                continue
            for each in _of_sentence(sentence, passage):
                if each.made_by == "definition":
                    defined.append(each)
                elif each.made_by == "number":
                    counted.append((str(each.details["unit"]), passage))
                yield each
    yield from _comparisons(defined)
    yield from _unanswerable(defined, counted, corpus)


def _of_sentence(sentence: str, passage: Passage) -> Iterator[Candidate]:
    one = (passage,)
    if found := _DEFINITION.match(sentence):
        thing = _in_lower_case(found["thing"])
        yield Candidate(f"What is {thing}?", sentence, one, "conceptual", "easy", "definition", thing)
    if found := _NUMBER.match(sentence):
        before, unit = found["before"], found["unit"]
        if unit not in _NO_UNIT and _VERB.search(_CLAUSE.split(before)[-1]):
            question = f"{before} how many {unit}?"
            yield Candidate(question, sentence, one, "factual", "easy", "number", before, {"unit": unit})
    if found := _CONDITION.match(sentence):
        condition = found["condition"]
        what = "should be done" if found["then"].split()[0].lower() in _DO else "happens"
        question = f"What {what} {found['word'].lower()} {condition}?"
        yield Candidate(question, sentence, one, "procedural", "medium", "condition", condition)
    if found := _PURPOSE.match(sentence):
        thing = found["thing"]
        yield Candidate(f"What should {thing} be used for?", sentence, one, "procedural", "medium", "purpose", thing)


def _in_lower_case(thing: str) -> str:
    return thing[0].lower() + thing[1:]


def _comparisons(defined: list[Candidate]) -> Iterator[Candidate]:
    """Definitions whose things share a word, such as two kinds of tokens, one after the other."""
    kinds: dict[str, list[Candidate]] = {}
    for each in defined:
        kinds.setdefault(each.about.split()[-1], []).append(each)
    for alike in kinds.values():
        for one, other in pairwise(alike):
            if one.passages == other.passages or one.about == other.about:
                continue
            question = f"What is the difference between {one.about} and {other.about}?"
            answer = f"{one.answer} {other.answer}"
            about = f"{one.about} {other.about}"
            yield Candidate(
                question, answer, (*one.passages, *other.passages), "comparative", "hard", "comparison", about
            )


def _unanswerable(defined: list[Candidate], counted: list[tuple[str, Passage]], corpus: Corpus) -> Iterator[Candidate]:
    """Things with units that stand beside them in no passage, so that no passage can say how many there are."""
    stems = [content(passage.full) for passage in corpus.passages]
    stems_of = {unit: content(unit) for unit, _ in counted}
    units = list(stems_of)
    for n, each in enumerate(defined):
        thing = content(each.about)
        beside = frozenset().union(*(of for of in stems if thing <= of))
        for unit in (*units[n % max(len(units), 1) :], *units[: n % max(len(units), 1)]):
            if stems_of[unit].isdisjoint(beside):
                question = f"How many {unit} does {each.about} have at the most?"
                yield Candidate(question, "", each.passages, "factual", "hard", "unanswerable", each.about)
                break
