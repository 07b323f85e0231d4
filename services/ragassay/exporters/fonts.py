"""Fonts for a PDF: those of installed packages, then those of the system; and which characters none of them has."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

logger = logging.getLogger("ragassay.exporters.fonts")
FIRST = "Noto Sans"
_PACKAGES = "fontpkg.family"  # the group of entry points of packages that hold a family each
_ALSO = ("noto_cjk_sans_otc",)
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")
_HAN = ("JP", "KR", "SC", "TC", "HK")  # forms of the same characters


@dataclass(frozen=True)
class FontChoice:
    """Where fonts are, whether those of the system too, families in the order in which they are tried, and what lacks."""

    folders: tuple[str, ...]
    system: bool
    families: tuple[str, ...]
    lacking: str


def choose(text: Iterable[str]) -> FontChoice:
    """Fonts for a text; those of the system only where others don't have all of its characters."""
    import typst

    characters = {character for character in set(text) if _is_drawn(character)}
    folders = tuple(map(str, _folders()))
    ours = typst.Fonts(include_system_fonts=False, include_embedded_fonts=False, font_paths=list(folders)).fonts()
    families, lacking = _covering(ours, characters)
    if not lacking and families:
        return FontChoice(folders, system=False, families=_ordered(families, characters), lacking="")
    others = [one for one in typst.Fonts(include_embedded_fonts=False).fonts() if one.path]
    more, lacking = _covering(others, lacking)
    return FontChoice(folders, True, _ordered([*families, *more], characters), "".join(sorted(lacking)))


def _is_drawn(character: str) -> bool:
    return unicodedata.category(character) not in _INVISIBLE and not "\ufe00" <= character <= "\ufe0f"


def _folders() -> list[Path]:
    names = [point.value.partition(":")[0] for point in entry_points(group=_PACKAGES)]
    found = [find_spec(name) for name in sorted({*names, *_ALSO})]
    return [Path(spec.origin).parent for spec in found if spec is not None and spec.origin]


def _covering(fonts: Iterable[Any], characters: set[str]) -> tuple[list[str], set[str]]:
    """The families that have some of the characters, and the characters that none has."""
    families: dict[str, None] = {}
    lacking = set(characters)
    for font in sorted(fonts, key=lambda one: (one.family != FIRST, one.family)):
        if font.family in families or (not lacking and "CJK" not in font.family) or "Mono" in font.family:
            continue
        points = _code_points(font.path, font.index)
        if points & set(map(ord, characters)):
            families[font.family] = None
            lacking -= set(map(chr, points))
    return list(families), lacking


@lru_cache(maxsize=64)
def _code_points(path: str, index: int) -> frozenset[int]:
    from fontTools.ttLib import TTFont, TTLibError

    logging.getLogger("fontTools").setLevel(logging.ERROR)
    try:
        with TTFont(path, fontNumber=index, lazy=True) as font:
            return frozenset(font.getBestCmap() or ())
    except (TTLibError, OSError):
        return frozenset()


def _ordered(families: Iterable[str], characters: set[str]) -> tuple[str, ...]:
    """The first family first; of those that have Han characters, the one of the language that the other characters show."""
    names = {unicodedata.name(character, "").partition(" ")[0] for character in characters}
    form = "KR" if "HANGUL" in names else "JP" if names & {"HIRAGANA", "KATAKANA"} else "SC"
    return tuple(
        sorted(
            dict.fromkeys(families),
            key=lambda name: (name != FIRST, any(name.endswith(f"CJK {one}") for one in _HAN if one != form)),
        )
    )
