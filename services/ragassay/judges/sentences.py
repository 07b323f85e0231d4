"""Cuts text into sentences; every judged metric counts these, so the cut is ours, fast and the same everywhere."""

from __future__ import annotations

import re

_ABBREVIATIONS = frozenset(
    """mr mrs ms dr prof sr jr st vs etc al fig figs eq no nos vol pp approx dept est inc ltd co corp gen col sgt capt lt
    rev hon e.g i.e cf a.m p.m u.s u.k u.n ph.d jan feb mar apr jun jul aug sep sept oct nov dec""".split()
)
_MARKER = re.compile(r"^\s*(?:[-*+•‣]|\(?\d{1,3}[.)]|#{1,6})\s+")
_STOP = re.compile(r"[.!?…。！？]+[\"'”’)\]]*")
_WORD = re.compile(r"\w", re.UNICODE)
_CJK = frozenset("。！？")
_LOWER_AFTER = re.compile(r"\s+[\"'“‘(\[]*[a-z]")


def sentences(text: str) -> list[str]:
    """The sentences of ``text`` in order, stripped, without list markers; what has no letter or digit is left out.

    A line break ends a sentence only where a list item, a heading or an empty line follows or the line ends the text's
    paragraph; otherwise wrapped lines are joined.
    """
    found: list[str] = []
    for paragraph in _paragraphs(text):
        start = 0
        for stop in _STOP.finditer(paragraph):
            if _ends(paragraph, stop, start):
                found.append(paragraph[start : stop.end()])
                start = stop.end()
        found.append(paragraph[start:])
    return [piece.strip() for piece in found if _WORD.search(piece)]


def _paragraphs(text: str) -> list[str]:
    """Lines joined into paragraphs; list items and headings stand alone."""
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        marker = _MARKER.match(line)
        if not line.strip() or marker:
            paragraphs.append([])
        if line.strip():
            paragraphs[-1].append(line[marker.end() :].strip() if marker else line.strip())
            if marker and marker.group().lstrip().startswith("#"):
                paragraphs.append([])
    return [" ".join(lines) for lines in paragraphs if lines]


def _ends(text: str, stop: re.Match[str], start: int) -> bool:
    """Does this run of punctuation end a sentence?"""
    mark, end = stop.group(), stop.end()
    if end == len(text) or mark[0] in _CJK:
        return True
    if not text[end].isspace():
        return False  # 3.5, example.com, v1.2
    if _LOWER_AFTER.match(text, end):
        return False  # "e.g. this", "Yahoo! said": what goes on in lower case is the same sentence
    if mark[0] != ".":
        return True
    last = text[start : stop.start()].rsplit(None, 1)[-1:] or [""]
    word = last[0].lstrip("\"'“‘([").lower()
    is_initial = len(word) == 1 and word.isalpha() and word != "i"
    return not (is_initial or word in _ABBREVIATIONS)
