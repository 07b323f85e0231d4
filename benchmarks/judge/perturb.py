"""Rows with a known label, made of texts: sentences that a context supports, and the same with one thing changed.

A change is another number, another name, a negation put in or taken out, the opposite word, another word of the context,
or the second half of another sentence. What is changed may by chance still be true; that is rare.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from ragassay.core.text import STOP_WORDS, sentences

LONGEST, SHORTEST = 45, 6  # words of a sentence that is used
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
_WORD = re.compile(r"[A-Za-z][a-z'-]{3,}")
_VERB = re.compile(r"\b(is|are|was|were|can|could|will|would|should|has|have|had|may|must|does|do|did)\b(?! not\b)")
_NOT = re.compile(r"\b(is|are|was|were|can|could|will|would|should|has|have|had|may|must|does|do|did) not\b|\bcannot\b")
_ASIDE = re.compile(r" \([^()]*\)|, (?:which|who|where|including|such as)[^,.;]*(?=[,.;])")
_OPPOSITES = """more less / most least / increase decrease / increased decreased / high low / higher lower / first last / before
after / always never / all no / large small / larger smaller / many few / open closed / won lost / old new /
early late / above below / north south / east west / began ended / rise fall / rose fell / male female / his her
/ father mother / good bad / best worst / same different / with without / possible impossible / allowed
forbidden / including except / up down"""
_OPPOSITE = {a: b for one in _OPPOSITES.split("/") for pair in [one.split()] for a, b in (pair, pair[::-1])}

Change = Callable[[str, Sequence[str], random.Random], str | None]


def another_number(text: str, others: Sequence[str], draw: random.Random) -> str | None:
    """One number replaced by one of the other sentences, or by a number near it."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return None
    old = draw.choice(found)
    known = [n for other in others for n in _NUMBER.findall(other) if n != old[0]]
    digits = re.sub(r"\D", "", old[0])[:6]
    near = str(int(digits) + draw.choice([-3, -2, -1, 1, 2, 3, 5, 10]))
    return _replaced(text, old, draw.choice(known) if known and draw.random() < 0.5 else near.lstrip("-"))


def another_name(text: str, others: Sequence[str], draw: random.Random) -> str | None:
    """One name replaced by one of the other sentences."""
    found = list(_NAME.finditer(text))
    known = [n for other in others for n in _NAME.findall(other) if n not in text]
    if not found or not known:
        return None
    return _replaced(text, draw.choice(found), draw.choice(known))


def negation(text: str, others: Sequence[str], draw: random.Random) -> str | None:  # noqa: ARG001 - as all changes
    """A negation taken out where there is one, else put in."""
    if denied := _NOT.search(text):
        return _replaced(text, denied, denied[1] or "can")
    found = list(_VERB.finditer(text))
    return _replaced(text, one := draw.choice(found), f"{one[0]} not") if found else None


def opposite(text: str, others: Sequence[str], draw: random.Random) -> str | None:  # noqa: ARG001 - as all changes
    """One word replaced by its opposite."""
    found = [word for word in re.finditer(r"[a-z]+", text) if word[0] in _OPPOSITE]
    return _replaced(text, one := draw.choice(found), _OPPOSITE[one[0]]) if found else None


def another_word(text: str, others: Sequence[str], draw: random.Random) -> str | None:
    """One word that carries meaning replaced by one of the other sentences."""
    found = [word for word in _WORD.finditer(text) if word[0].lower() not in STOP_WORDS and word.start()]
    known = [w for other in others for w in _WORD.findall(other) if w.lower() not in STOP_WORDS and w not in text]
    return _replaced(text, draw.choice(found), draw.choice(known)) if found and known else None


def another_end(text: str, others: Sequence[str], draw: random.Random) -> str | None:
    """The first half of the sentence with the second half of another."""
    known = [other for other in others if SHORTEST <= len(other.split()) <= LONGEST]
    if not known:
        return None
    ours, theirs = text.split(), draw.choice(known).split()
    return " ".join([*ours[: len(ours) // 2], *theirs[len(theirs) // 2 :]])


CHANGES: tuple[Change, ...] = (another_number, another_name, negation, opposite, another_word, another_end)


def changed(text: str, others: Sequence[str], draw: random.Random) -> str | None:
    """The sentence with one thing changed; None where nothing can be."""
    for change in draw.sample(CHANGES, len(CHANGES)):
        if (new := change(text, others, draw)) and new != text:
            return new
    return None


def shortened(text: str, draw: random.Random) -> str:
    """The sentence, at times without an aside."""
    return _ASIDE.sub("", text, count=1) if draw.random() < 0.5 else text


def rows(texts: Sequence[str], count: int, draw: random.Random) -> list[dict[str, Any]]:
    """``count`` rows about these texts, half of them with a change in one sentence of an answer of one to four."""
    made: list[dict[str, Any]] = []
    cut = [found for text in texts if len(found := sentences(text)) > 1]
    while len(made) < count:
        context = draw.choice(cut)
        start = draw.randrange(max(1, len(context) - 11))
        part = context[start : start + 12]
        usable = [one for one in part if SHORTEST <= len(one.split()) <= LONGEST]
        size = draw.choice((1, 1, 1, 2, 3, 4))
        if len(usable) < size:
            continue
        answer = [shortened(one, draw) for one in draw.sample(usable, size)]
        label = len(made) % 2
        if not label:
            place = draw.randrange(size)
            new = changed(answer[place], [one for one in part if one != answer[place]], draw)
            if new is None:
                continue
            answer[place] = new
        made.append({"contexts": [" ".join(part)], "answer": " ".join(answer), "label": label})
    return made


def of_claims(given: Sequence[dict[str, Any]], draw: random.Random) -> list[dict[str, Any]]:
    """A changed copy of each supported row whose answer is one sentence, where something in it can be changed."""
    made = []
    for row in given:
        others = [one for context in row["contexts"] for one in sentences(context)]
        if row["label"] >= 1 and len(sentences(row["answer"])) == 1 and (new := changed(row["answer"], others, draw)):
            made.append({**row, "answer": new, "label": 0})
    return made


def _replaced(text: str, found: re.Match[str], new: str) -> str:
    return f"{text[: found.start()]}{new}{text[found.end() :]}"
