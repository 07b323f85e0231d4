"""What is read in a text: sentences, words, stems, numbers, negation and refusals.

Every judged metric counts sentences, and text metrics and retrievers count words, so the cut is ours, fast and the same
everywhere. Lexical and small on purpose. Words and sentences are found in every script; stems know English only, stop
words and negation German too, refusals also French and Spanish.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragassay.core.models import Sample

_TITLES = frozenset(
    "mr mrs ms dr prof st sgt capt col gen lt rev hon vs cf e.g i.e fig figs eq vol pp nos approx dept mt".split()
)
_ABBREVIATIONS = frozenset(
    "etc al sr jr est inc ltd co corp ph.d bros jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_STARTERS = frozenset(
    "the a an it he she we they you i this that these those there here in on at for from to by with as if when "
    "while after before since although though however but and so or yet then also another each all some many most "
    "no one his her its our their my your what who why how where".split()
)
_BULLET = re.compile(r"\s*(?:[-*+•‣–—]|#{1,6})\s+")
_NUMBERED = re.compile(r"\s*\(?(\d{1,3})[.)]\s+")
_CLOSED = frozenset(".:;!?…。！？")
_STOP = re.compile(r"[.!?…。｡！？؟۔।॥።]+[\"'”’»)\]」』）]*(?:\[\d{1,3}\])*")
_WORD = re.compile(r"[^\W_]")
_CJK = frozenset("。｡！？")
_NEXT = re.compile(r"\s+[\"'“‘«(\[*_]*(\w+)")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_LEAD_IN = re.compile(r"(?::|\b(?:as follows|the following)[.:]?)[\"'”’*_)]*$", re.IGNORECASE)
_LOOK_BACK = 40  # characters; a text of stops only must not cost the square of its length
_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Scripts written without spaces: a character is the unit there, as is usual for Chinese and Japanese.
UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
_NUMBER = re.compile(r"(?<![A-Za-z0-9])(?<![A-Za-z0-9][.,])\d+(?:[.,]\d+)*")
_YEARS = re.compile(r"\b(\d\d)(\d\d)[-–/](\d\d)\b")
_TIME = re.compile(r"(?<![\w:.,])(\d{1,2})(?::(\d\d))?(?: ?([ap])\.?m\b| o'clock\b|(?<=:\d\d)(?![\d:]))", re.IGNORECASE)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NEGATION = re.compile(
    r"\b(?:not(?! only)|no(?!\. ?\d)|never|none|nobody|nothing|neither|nor|without|cannot|unable|fail(?:s|ed)? to)\b"
    r"|n['’] ?t\b"
    r"|\b\w+n ' t\b"
    r"|\b(?:nicht(?! nur)|kein(?:e[mnrs]?)?|nie(?:mals|mand)?|nichts|weder)\b",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"\W*(?:(yes|ja|oui)\b|(?:no|nein|non)(?=\s*(?:[,.;:!\u2013\u2014-]|$)))", re.IGNORECASE)
_NUMBER_WORDS = {
    word: str(n)
    for n, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
_SPELT = _NUMBER_WORDS | {"noon": "12:00", "midnight": "0:00"}
LONGEST_WORD = 40  # characters; beyond, it is no English word
STOP_WORDS = frozenset(
    "a about after again all also am an and any are as at be because been before being below between both but by "
    "can could d did do does doing don down during each few for from further had has have having he her here hers "
    "him his how i if in into is it its itself just ll m may me might more most must my of off on only or other our "
    "out over own re s same shall she should so some such t than that the their them then there these they this "
    "those through to too under until up us ve very was we were what when where which while who whom whose why will "
    "with would you your yes well no not never nor neither none cannot without".split()
)
_GERMAN_STOP_WORDS = frozenset(  # but for what is an English word with a meaning
    "der das den dem des ein eine einen einem einer eines und oder aber ist sind wird werden wurde wurden hatte im mit von "
    "vom zu zum zur auf für als auch bei bis nach aus es sie er wir ihr ich nicht kein keine keinen ja nein dass dieser "
    "diese dieses sich nur noch über unter durch kann können muss müssen".split()
)
_BRITISH = re.compile(r"(?<=[a-z]{3})is(e|ed|es|ing|ation|ations)$")
_ENDINGS = (
    ("ational", "ate"), ("ization", "ize"), ("fulness", "ful"), ("iveness", "ive"),
    ("ously", "ous"), ("ments", ""), ("ment", ""), ("ings", ""), ("ing", ""), ("edly", ""), ("ies", "y"),
    ("ied", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ness", ""),
    ("ed", "e"), ("ly", ""), ("es", "e"), ("s", ""),
)  # fmt: skip
_NOT = (
    r"(?:do|does|did|is|are|was|were|could|can|will|have|has)(?: ?not|n't)|can't|won't"
    r"|(?:am|was|are|were) (?:not able|unable) to"
)
_SOURCE = (
    r"(?:(?:the|this|these|those|any|your|none of the|provided|given|available|retrieved|supplied|above|search) ){0,4}"
    r"(?:contexts?|documents?|documentation|results?|sources?|passages?|texts?|articles?|handbook|manual|guide|page"
    r"|knowledge base|information|excerpts?)"
    r"(?: (?:provided|given|available|above|retrieved))?"
)
_LEAD = (
    r"(?:(?:(?:i am|i'm|we are|we're) (?:very |so )?(?:sorry|afraid)|sorry|apologies|(?:i|we) apologi[sz]e)"
    r"[,.]?(?: but| that)?\s+"
    r"|(?:unfortunately|however|as an ai[^,]{0,40}),?\s+"
    rf"|(?:based on|from|according to|given|in|within) {_SOURCE},?\s+){{0,3}}"
)
_GIVEN = (
    r"(?:answered|answerable|available|determined|documented|provided|found|given|mentioned|specified|stated|covered"
    r"|described|known|clear|in the)\b"
)
_WANT = (
    r"(?:know\b|answer|find|found|provide|help|assist|determine|say\b|tell|see any|locate|generate|comply|confirm"
    r"|have (?:any |enough |sufficient |access|the |information|an answer))"
)
_THING = r"(?:information|answer|mention|details?|data|evidence|indication|references?|results?|documents?|contexts?)\b"
_SAY = (
    r"(?:provide|contain|mention|include|specify|say|state|answer|give|cover|address|have|discuss|describe|indicate)"
    r"(?:e?s)?\b"
)
_REFUSALS = (
    # I could not find, I don't have enough information
    rf"(?:i|we) (?:{_NOT}) (?:really |currently |directly )?{_WANT}",
    # There is no information, None of the documents answers, No relevant information, Unable to answer
    rf"there(?:'s| is| was| are| were) (?:no|not|insufficient) (?:[\w-]+ ){{0,3}}{_THING}",
    rf"none of {_SOURCE} (?:{_SAY}|(?:is|are)\b)",
    r"(?:no|insufficient|not enough) (?:[\w-]+ ){0,2}(?:information|answer|data|context|details?)\b",
    r"(?:unable|not able) to (?:answer|find|determine|provide|help)\b",
    # The context does not say, The documents are irrelevant
    rf"{_SOURCE} (?:{_NOT}) (?:[a-z]+ly )?{_SAY}",
    rf"{_SOURCE} (?:is|are) (?:not related|not relevant|irrelevant|insufficient)\b",
    # It is not clear, That is not mentioned, The answer can't be found, Not specified.
    rf"(?:it|this|that)(?: is|'s| was) (?:unclear|unknown|impossible to|not possible to|not {_GIVEN})",
    r"(?:(?:it|this|that) )?can(?:not|'t) be (?:answered|determined)\b",
    rf"(?:the|this|that) (?:answer|information|question)\b[^.;]{{0,120}}? (?:(?:is|was|are) not|can(?:not|'t) be) {_GIVEN}",
    rf"not {_GIVEN}[^,;]{{0,40}}$",
    r"(?:n/a|unknown|unanswerable|no answer)\W*$",
)
_IN_OTHER_LANGUAGES = (
    r"(?:das |dies )?(?:weiß|weiss) ich (?:leider )?nicht\b|ich (?:weiß|weiss) (?:es |das )?(?:leider )?nicht\b",
    r"(?:leider )?(?:kann|konnte) ich (?:dazu |das |diese frage )?(?:leider )?(?:nicht|nichts|keine)\b",
    r"ich (?:kann|konnte) (?:dazu |das |diese frage |die frage )?(?:leider )?(?:nicht|nichts|keine)\b",
    r"(?:dazu|darüber|hierzu) (?:gibt es|steht|enthalten|liegen)\b[^.]{0,60}\b(?:keine?|nichts)\b",
    r"(?:die dokumente|der kontext|die unterlagen|die quellen|der text) \w+ (?:\w+ ){0,2}(?:nicht|nichts|keine)\b",
    r"je ne (?:sais|peux|trouve|connais) (?:pas|rien)\b|les documents ne\b|le contexte ne\b",
    r"no lo (?:sé|encuentro)\b|no (?:sé|puedo|encuentro|tengo información)\b|(?:los documentos|el contexto) no\b",
)
_OFFER = (
    r"(?:please|you (?:can|may|could|might|should)|(?:i|we) (?:can|could|would|am|are|do|recommend|suggest)\b|i'm|if|let|try"
    rf"|feel|contact|ask|check|they|there|for |{_SOURCE})"
)
_GOES_ON = re.compile(
    rf"[,;.\u2013\u2014] *(?:but|however|though|still|nevertheless)\b,? *(?!{_OFFER})(?=\w)", re.IGNORECASE
)
_ASSERTS = re.compile(
    rf"(?!{_OFFER}).*(?:\d|\b(?:probably|likely|presumably|i (?:think|believe|guess|assume)|perhaps|maybe)\b)",
    re.IGNORECASE,
)
_REFUSAL = re.compile(f"{_LEAD}(?:{'|'.join((*_REFUSALS, *_IN_OTHER_LANGUAGES))})", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """The sentences of ``text`` in order, stripped, without list markers; those without a letter or digit are left out.

    A line break ends a sentence where a list item, a table row, a heading or an empty line follows; other lines are
    taken for wrapped and joined.
    """
    pieces: list[str] = []
    for paragraph in _paragraphs(text):
        start = 0
        for stop in _STOP.finditer(paragraph):
            if _ends(paragraph, stop, start):
                pieces.append(paragraph[start : stop.end()])
                start = stop.end()
        pieces.append(paragraph[start:])
    return [piece.strip() for piece in pieces if _WORD.search(piece)]


def is_lead_in(sentence: str) -> bool:
    """Does a sentence only announce the next one, as "Do this:" does?"""
    return _LEAD_IN.search(sentence) is not None


def _paragraphs(text: str) -> list[str]:
    """Lines joined into paragraphs; list items, table rows and headings stand alone."""
    paragraphs: list[list[str]] = [[]]
    open_line = ""
    for line in text.splitlines():
        bare = line.strip()
        if not bare:
            if paragraphs[-1]:
                paragraphs.append([])
            open_line = ""
            continue
        marker = _BULLET.match(line) or _numbered(line, open_line)
        if marker or bare[0] == "|":
            paragraphs.append([])
        paragraphs[-1].append(line[marker.end() :].strip() if marker else bare)
        if marker and marker.group().lstrip().startswith("#"):
            paragraphs.append([])
        open_line = "" if marker else bare
    return [" ".join(lines) for lines in paragraphs if lines]


def _numbered(line: str, before: str) -> re.Match[str] | None:
    """The number of a list item, unless the line merely goes on from the one before and happens to start with one."""
    marker = _NUMBERED.match(line)
    return marker if marker and (not before or before[-1] in _CLOSED or marker.group(1) == "1") else None


def _ends(text: str, stop: re.Match[str], start: int) -> bool:
    mark, end = stop.group(), stop.end()
    if end == len(text) or mark[0] in _CJK:
        return True
    if not text[end].isspace():
        return False  # 3.5, example.com, v1.2
    following = _NEXT.match(text, end)
    word = following.group(1) if following else ""
    if word[:1].islower():
        return False  # "e.g. this", "Yahoo! said": what goes on in lower case is the same sentence
    if mark[0] != ".":
        return True
    before = text[max(start, stop.start() - _LOOK_BACK) : stop.start()].split()
    last = before[-1].lstrip("\"'“‘«([-–—*_`").lower() if before else ""
    if last in _TITLES or (last == "no" and word.isdigit()):
        return False
    if last.isdigit() and len(last) < 3 and (len(before) == 1 or before[-2].endswith(":")):
        return False  # "Steps: 1. Open the page"
    is_initial = len(last) == 1 and last.isalpha() and last != "i"
    if is_initial or last in _ABBREVIATIONS or _DOTTED.fullmatch(last):
        another_initial = following is not None and text.startswith(".", following.end())
        return word.lower() in _STARTERS and not another_initial
    return True


def words(text: str) -> list[str]:
    """Lower-case words in order; letters, digits and combining marks make a word, everything else parts them.

    For ASCII text these are the tokens of rouge-score. Ideographs and kana count one by one.
    """
    text = text.lower()
    if text.isascii():
        return _ASCII_WORD.findall(text)
    text = unicodedata.normalize("NFC", text)
    kept = "".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in text)
    return UNSPACED.sub(r" \1 ", kept).split()


def stem(word: str) -> str:
    """``word`` without its commonest English endings: ``refunds``, ``refunded`` and ``refund`` are one."""
    return _stem(word) if len(word) <= LONGEST_WORD and word.isascii() else word


@lru_cache(maxsize=16384)
def _stem(word: str) -> str:
    word = _NUMBER_WORDS.get(word, word)
    if len(word) < 4 or not word.isalpha():
        return word
    word = _BRITISH.sub(r"iz\1", word)
    for ending, instead in _ENDINGS:
        stays = len(word) - len(ending) + len(instead)
        if word.endswith(ending) and stays >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)] + instead
            break
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] and word[-1] in "bdgmnprt" else word


def content(text: str) -> frozenset[str]:
    """Stems of the words that carry meaning; of all words where a text has stop words only."""
    all_words = set(words(text))
    return frozenset(map(stem, all_words - STOP_WORDS - _GERMAN_STOP_WORDS)) or frozenset(map(stem, all_words))


def numbers(text: str) -> frozenset[str]:
    """Numbers in digits, in one spelling: ``1,000`` is ``1000``, ``2.50`` is ``2.5``, ``2018-19`` is 2018 and 2019.

    A time is one number: ``8 pm`` and ``20:00`` are ``20:00``, ``08:30`` is ``8:30``, ``noon`` is ``12:00``.
    """
    times = list(_TIME.finditer(text))
    normalised = {_time(match) for match in times}
    if times:
        text = _TIME.sub(" ", text)
    for token in _NUMBER.findall(_YEARS.sub(r"\1\2 \1\3", text)):
        plain = token.replace(",", "") if _GROUPED.fullmatch(token) else token
        if plain.count(".") == 1 and "," not in plain:
            plain = plain.rstrip("0").rstrip(".")
        normalised.add(re.sub(r"^0+(?=\d)", "", plain))
    normalised.update(_SPELT[w] for w in words(text) if w in _SPELT and w not in ("zero", "one"))
    return frozenset(normalised)


def _time(match: re.Match[str]) -> str:
    hour, minute, half = int(match[1]), match[2], (match[3] or "").lower()
    if half and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"{hour}:{minute or '00'}"


def says_yes(sentence: str) -> bool | None:
    """Does a sentence begin with a yes? False: with a no; None: with neither."""
    begins = _YES_OR_NO.match(sentence)
    return None if begins is None else begins[1] is not None


def negated(text: str) -> bool:
    """Does the text deny something?"""
    return _NEGATION.search(text) is not None


def refuses(answer: Sequence[str]) -> bool:
    """Does an answer refuse, given its sentences? Its first one does, and with it at least half of them, or of two.

    A sentence refuses by how it begins, after a lead-in such as "Unfortunately," or "Based on the documents,". A text
    that merely mentions further on what is not known is an answer, and so is one that says it does not know and answers
    all the same: "I am not sure, but it costs 80 euros."
    """
    plain = [sentence.replace("’", "'").lstrip(" \"'“”") for sentence in answer]
    refusing = [_refuses(sentence) for sentence in plain]
    if not refusing or not refusing[0] or 2 * sum(refusing) < len(refusing):
        return False
    return not any(_ASSERTS.match(text) for text, refuse in zip(plain, refusing, strict=True) if not refuse)


def _refuses(sentence: str) -> bool:
    begins = _REFUSAL.match(sentence)
    return begins is not None and _GOES_ON.search(sentence, begins.end()) is None


def is_answerable(sample: Sample) -> bool | None:
    """Can the query be answered? As it is labelled, else no where its ground truth is a refusal; None: not known.

    This is the one place that decides it. Of several ground truths, or key facts, each has to refuse. A lone "none" is
    no refusal: it may be the answer.
    """
    if sample.answerable is not None:
        return sample.answerable
    facts = tuple(fact for fact in sample.key_facts if fact.strip())
    return False if _all_refuse(facts or sample.ground_truth_answer) else None


@lru_cache(maxsize=256)  # asked a few times while a chunk is evaluated
def _all_refuse(truths: tuple[str, ...]) -> bool:
    cut = list(filter(None, map(sentences, truths)))
    return bool(cut) and all(map(refuses, cut))
