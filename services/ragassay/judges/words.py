"""What the text metrics and the local judge see in a text: words, stems, numbers, names and negation.

Lexical and small on purpose. Words are found in every script; stems, stop words and negation know English only.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_ASCII_WORD = re.compile(r"[a-z0-9]+")
# Scripts written without spaces: a character is the unit there, as is usual for Chinese and Japanese.
UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
_NUMBER = re.compile(r"(?<![A-Za-z0-9])(?<![A-Za-z0-9][.,])\d+(?:[.,]\d+)*")
_SPAN = re.compile(r"\b(\d\d)(\d\d)[-–/](\d\d)\b")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NAME = re.compile(r"\b[A-Z][\w'’.-]*")
_NEGATION = re.compile(
    r"\b(?:not(?! only)|no(?!\. ?\d)|never|none|nobody|nothing|neither|nor|without|cannot|unable|fail(?:s|ed)? to)\b"
    r"|n['’] ?t\b"
    r"|\b\w+n ' t\b",
    re.IGNORECASE,
)
NUMBER_WORDS = {
    word: str(n)
    for n, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
LONGEST_WORD = 40  # characters; beyond, it is no English word
STOP_WORDS = frozenset(
    "a about after again all also am an and any are as at be because been before being below between both but by "
    "can could d did do does doing don down during each few for from further had has have having he her here hers "
    "him his how i if in into is it its itself just ll m may me might more most must my of off on only or other our "
    "out over own re s same shall she should so some such t than that the their them then there these they this "
    "those through to too under until up us ve very was we were what when where which while who whom whose why will "
    "with would you your yes well no not never nor neither none cannot without".split()
)
_BRITISH = re.compile(r"(?<=[a-z]{3})is(e|ed|es|ing|ation|ations)$")
_ENDINGS = (
    ("ational", "ate"), ("ization", "ize"), ("fulness", "ful"), ("iveness", "ive"),
    ("ously", "ous"), ("ments", ""), ("ment", ""), ("ings", ""), ("ing", ""), ("edly", ""), ("ies", "y"),
    ("ied", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ness", ""),
    ("ed", "e"), ("ly", ""), ("es", "e"), ("s", ""),
)  # fmt: skip


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


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    word = NUMBER_WORDS.get(word, word)
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
    found = words(text)
    return frozenset(stem(w) for w in found if w not in STOP_WORDS) or frozenset(stem(w) for w in found)


def numbers(text: str) -> frozenset[str]:
    """Numbers in digits, in one spelling: ``1,000`` is ``1000``, ``2.50`` is ``2.5``, ``2018-19`` is 2018 and 2019."""
    found: set[str] = set()
    for token in _NUMBER.findall(_SPAN.sub(r"\1\2 \1\3", text)):
        plain = token.replace(",", "") if _GROUPED.fullmatch(token) else token
        if plain.count(".") == 1 and "," not in plain:
            plain = plain.rstrip("0").rstrip(".")
        found.add(re.sub(r"^0+(?=\d)", "", plain))
    found.update(NUMBER_WORDS[w] for w in words(text) if w in NUMBER_WORDS and w not in ("zero", "one"))
    return frozenset(found)


def names(text: str) -> frozenset[str]:
    """Stems of capitalised words, but for the first word of the text and stop words."""
    found: set[str] = set()
    for match in _NAME.finditer(text):
        if match.start() > 0:
            found.update(w for w in words(match.group()) if w not in STOP_WORDS)
    return frozenset(stem(w) for w in found)


def negated(text: str) -> bool:
    """Does the text deny something?"""
    return _NEGATION.search(text) is not None
