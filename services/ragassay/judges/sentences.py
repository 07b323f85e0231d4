"""Cuts text into sentences; every judged metric counts these, so the cut is ours, fast and the same everywhere."""

from __future__ import annotations

import re

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
_LOOK_BACK = 40  # characters; a text of stops only must not cost the square of its length


def sentences(text: str) -> list[str]:
    """The sentences of ``text`` in order, stripped, without list markers; those without a letter or digit are left out.

    A line break ends a sentence where a list item, a table row, a heading or an empty line follows; other lines are
    taken for wrapped and joined.
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
    """Does this run of punctuation end a sentence?"""
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
