"""Numbers with a unit in one spelling, so that "5 km" and "5,000 m", or "three weeks" and "21 days", are the same."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from ragassay.core.text import NUMBER_WORDS, STOP_WORDS, numbers, stem

_UNITS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("mm", "millimetre", "millimeter"), ("0.001", "m")),
    **dict.fromkeys(("cm", "centimetre", "centimeter", "zentimeter"), ("0.01", "m")),
    **dict.fromkeys(("m", "metre", "meter"), ("1", "m")),
    **dict.fromkeys(("km", "kilometre", "kilometer"), ("1000", "m")),
    **dict.fromkeys(("mg", "milligram", "milligramm"), ("0.001", "g")),
    **dict.fromkeys(("g", "gram", "gramm"), ("1", "g")),
    **dict.fromkeys(("kg", "kilogram", "kilo", "kilogramm"), ("1000", "g")),
    **dict.fromkeys(("ml", "millilitre", "milliliter"), ("0.001", "l")),
    **dict.fromkeys(("l", "litre", "liter"), ("1", "l")),
    **dict.fromkeys(("s", "sec", "second", "sekunde", "sekunden"), ("1", "s")),
    **dict.fromkeys(("min", "minute", "minuten"), ("60", "s")),
    **dict.fromkeys(("h", "hour", "stunde", "stunden"), ("3600", "s")),
    **dict.fromkeys(("day", "tag", "tage", "tagen"), ("86400", "s")),
    **dict.fromkeys(("week", "woche", "wochen"), ("604800", "s")),
    **dict.fromkeys(("month", "monat", "monate", "monaten"), ("1", "months")),
    **dict.fromkeys(("year", "jahr", "jahre", "jahren"), ("12", "months")),
    **dict.fromkeys(("hundred",), ("100", "")),
    **dict.fromkeys(("thousand", "tausend"), ("1000", "")),
    **dict.fromkeys(("million", "millionen"), ("1000000", "")),
    **dict.fromkeys(("billion", "milliarde", "milliarden"), ("1000000000", "")),
}
_QUANTITY = re.compile(
    rf"(?<![\w.,])(\d+(?:[.,]\d+)*|{'|'.join(NUMBER_WORDS)}|a)[\s-]?({'|'.join(sorted(_UNITS, key=len, reverse=True))})s?\b",
    re.IGNORECASE,
)
_RUN = re.compile(r"[\w.,]+")
_PLAIN = re.compile(r"(\d{1,3}(?:,\d{3})+|\d{3,})\D*")  # of a whole run: a lookahead from each digit would be quadratic
_LONGEST = 20  # characters of a number


class Quantity(NamedTuple):
    """``value`` in the base unit, and the number and the unit's stem as they are written.

    The number is empty where it is written as "a". The stem is empty without a unit, and of ``m``, which is no word that
    counts.
    """

    value: str
    number: str
    unit: str


def quantities(text: str) -> list[Quantity]:
    """The numbers of ``text`` that have a unit, and the large ones without."""
    found = []
    for match in _QUANTITY.finditer(text):
        written, unit = match[1].lower(), match[2].lower()
        number = "1" if written == "a" else NUMBER_WORDS.get(written) or next(iter(numbers(written)), "")
        if number and number.count(".") < 2 and "," not in number and len(number) <= _LONGEST:
            factor, base = _UNITS[unit]
            found.append(
                Quantity(
                    f"{(Decimal(number) * Decimal(factor)).normalize():f} {base}",
                    "" if written == "a" else number,
                    "" if unit in STOP_WORDS else stem(unit),
                )
            )
    for run in _RUN.findall(text):
        plain = _PLAIN.fullmatch(run)
        number = plain[1].replace(",", "") if plain else ""
        if number and len(number) <= _LONGEST:
            found.append(Quantity(f"{Decimal(number).normalize():f} ", number, ""))
    return found
