"""Columns of decimal numbers out of text: whole blocks at a time, to the very bits that ``float`` gives."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indexes = NDArray[np.int64]
Words = NDArray[np.uint64]

PAD = 32
LONGEST = 19  # digits that always fit into 64 bits
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_ZEROS = np.uint64(0x3030303030303030)
_NINES = np.uint64(0x7676767676767676)
_HIGH = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_UPPER = np.uint64(100 + (1_000_000 << 32))
_LOWER = np.uint64(1 + (10_000 << 32))
_SPLIT = float(2**27 + 1)


class Text(NamedTuple):
    """A block of bytes with ``PAD`` bytes before and behind it, as bytes and as the 64-bit word at each position."""

    buffer: bytearray
    bytes: NDArray[np.uint8]
    words: Words

    @classmethod
    def of(cls, buffer: bytearray) -> Text:
        """``buffer`` seen both ways, without a copy."""
        words: Words = np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))
        return cls(buffer, np.frombuffer(buffer, np.uint8), words)


def numbers(text: Text, start: Indexes, end: Indexes) -> tuple[Array, Indexes]:
    """The numbers that stand from ``start`` to ``end``, and the rows where there is none (NaN and infinity count as none).

    Fixed numbers of up to 19 digits are read eight digits a step (D. Lemire, "Number parsing at a gigabyte per
    second", 2021) and divided by a power of ten; above 2^53 the division is carried out with its remainder, so that the
    result is rounded once. Where that leaves a doubt, and for exponents, ``float`` reads the row.
    """
    negative = text.bytes[start] == ord("-")
    digits = end - start - negative
    most, *others = _points(text, start, end)
    values, sure = _fixed(text, end, digits, most)
    rest = np.flatnonzero(~sure)
    for point in others:
        if not len(rest):
            break
        rows = rest if point < 0 else rest[text.bytes[end[rest] - 1 - point] == ord(".")]
        if len(rows):
            values[rows], sure[rows] = _fixed(text, end[rows], digits[rows], point)
            rest = rest[~sure[rest]]
    np.negative(values, out=values, where=negative)
    for row in rest.tolist():
        values[row] = number(bytes(text.buffer[start[row] : end[row]]))
    return values, rest[~np.isfinite(values[rest])]


def number(token: bytes) -> float:
    """The finite number that ``token`` spells, else NaN."""
    value = float(token) if NUMBER.fullmatch(token) else np.nan
    return value if np.isfinite(value) else np.nan


def _points(text: Text, start: Indexes, end: Indexes) -> list[int]:
    """How many digits may stand behind a point (-1: no point), those first that are frequent in a few of the rows."""
    few = slice(None, None, len(start) // 16 + 1)
    tokens = [bytes(text.buffer[a:b]) for a, b in zip(start[few].tolist(), end[few].tolist(), strict=True)]
    frequent = Counter(len(token) - 1 - token.rfind(b".") if b"." in token else -1 for token in tokens).most_common()
    return list(dict.fromkeys([point for point, _ in frequent if point <= LONGEST] + list(range(-1, LONGEST + 1))))


def _fixed(text: Text, end: Indexes, digits: Indexes, point: int) -> tuple[Array, NDArray[np.bool_]]:
    """Unsigned numbers with ``point`` digits behind a point (-1: no point), and where that is what stands there."""
    count = digits - (point >= 0)
    sure = (count >= max(point, 1)) & (count <= LONGEST)
    if point >= 0:
        sure &= text.bytes[end - 1 - point] == ord(".")
    widest = min(int(count.max(initial=0)), LONGEST)
    mantissa = np.zeros(len(end), np.uint64)
    for done in range(0, widest, 8):
        word = _digits(text.words, end - done - 8, point - done if point >= 0 else 8, widest - done)
        short = 8 * (done + 8) - 8 * count  # shifting by 64 bits or more leaves nothing
        blank = (short if widest <= done + 8 else np.maximum(short, 0)).view(np.uint64)
        word = ((word ^ _ZEROS) >> blank) << blank
        sure &= ((word + _NINES) | word) & _HIGH == 0
        word = word * np.uint64(10) + (word >> np.uint64(8))
        word = ((word & _PAIRS) * _UPPER + ((word >> np.uint64(16)) & _PAIRS) * _LOWER) >> np.uint64(32)
        mantissa = mantissa + word * np.uint64(10**done) if done else word
    if widest <= 15:  # below 2^53 all is exact up to the one division
        return mantissa.astype(np.float64) / 10.0 ** max(point, 0), sure
    values, certain = _divided(mantissa, 10.0 ** max(point, 0))
    return values, sure & certain


def _digits(words: Words, position: Indexes, behind: int, needed: int) -> Words:
    """Eight characters from ``position``, the point left out that stands before the last ``behind`` of them."""
    if behind >= 8:
        return words[position]
    if behind <= 0:
        return words[position - 1]
    keep = np.uint64((1 << 64) - (1 << 8 * (8 - behind)))
    word = words[position]
    before = word << np.uint64(8) if needed < 8 else words[position - 1]
    return (word & keep) | (before & ~keep)


def _divided(mantissa: Words, power: float) -> tuple[Array, NDArray[np.bool_]]:
    """mantissa / power, rounded once, and where that is certain (Dekker's exact product gives the remainder)."""
    high = mantissa.astype(np.float64)
    with np.errstate(invalid="ignore"):  # what is no number may look like one that is too large
        low = (mantissa - high.astype(np.uint64)).view(np.int64).astype(np.float64)
    quotient = high / power
    product = quotient * power
    q1 = quotient * _SPLIT - (quotient * _SPLIT - quotient)
    p1 = power * _SPLIT - (power * _SPLIT - power)
    q2, p2 = quotient - q1, power - p1
    error = ((q1 * p1 - product) + q1 * p2 + q2 * p1) + q2 * p2
    step = ((high - product) - error + low) / power
    doubt = step * 2.0**-30
    return quotient + step, quotient + (step - doubt) == quotient + (step + doubt)
