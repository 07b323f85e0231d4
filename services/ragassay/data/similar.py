"""Texts that are nearly the same: found by MinHash, confirmed by their character n-grams.

Two texts are compared as sets of all their runs of ``GRAM`` characters, case, punctuation and white space aside; their
similarity is the Jaccard index of the sets. MinHash (Broder 1997) with ``BANDS`` bands of ``IN_BAND`` values finds
pairs that may be similar without comparing all: 99.99 % of those with a similarity of 0.7, 96 % at 0.5. What is found is
then compared exactly. All constants are ours, so the same texts give the same pairs on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

GRAM = 4
BANDS, IN_BAND = 24, 3
SIMILAR = 0.8
BITS = 2048
LONGEST = 2_000  # characters of a text that are looked at
_BLOCK = 2_000  # texts whose n-grams are in memory at once
_NEIGHBOURS = 8  # of a text among those that share a band; in a crowd of like texts not every pair is compared
_ONES = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)
_WORD = re.compile(r"\w+")

Codes = npt.NDArray[np.uint32]
Pairs = npt.NDArray[np.int64]


def normalised(text: str) -> str:
    """The words of the beginning of a text, in lower case."""
    return " ".join(_WORD.findall(text[:LONGEST].casefold()))


def similarity(one: str, other: str) -> float:
    """Jaccard index of the n-grams of two normalised texts, from 0 to 1."""
    if one == other:
        return 1.0
    a, b = _grams(one), _grams(other)
    return len(a & b) / len(a | b)


class Groups:
    """Places 0 to ``count`` - 1, put into groups by joining two of them at a time."""

    def __init__(self, count: int) -> None:
        self._leader = list(range(count))

    def of(self, place: int) -> int:
        """The first place of the group that a place is in."""
        leader = self._leader
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    def join(self, one: int, other: int) -> None:
        """Put the groups of two places together."""
        one, other = sorted((self.of(one), self.of(other)))
        self._leader[other] = one

    def copy(self) -> Groups:
        """The same groups, to be joined further."""
        copied = Groups(0)
        copied._leader = self._leader.copy()
        return copied

    def members(self) -> dict[int, list[int]]:
        """The places of each group by the first of them, in order."""
        groups: dict[int, list[int]] = {}
        for place in range(len(self._leader)):
            groups.setdefault(self.of(place), []).append(place)
        return groups


def join_similar(groups: Groups, texts: Sequence[str], least: float = SIMILAR) -> None:
    """Put the places of normalised texts that are at least so similar into one group.

    So a group may hold two texts that are less similar, with others between them.
    """
    first: dict[str, int] = {}
    for place, text in enumerate(texts):
        if (same := first.setdefault(text, place)) != place:
            groups.join(same, place)
    if least >= 1:
        return
    distinct, places = list(first), list(first.values())
    pairs = _candidates(_signatures(distinct), least)
    if len(pairs) > len(distinct):
        pairs = pairs[_UpperBounds(distinct).of(pairs) >= least]
    for a, b in pairs.tolist():
        one, other = places[a], places[b]
        if groups.of(one) != groups.of(other) and similarity(distinct[a], distinct[b]) >= least:
            groups.join(one, other)


def _grams(text: str) -> set[str]:
    padded = text.ljust(GRAM)
    return {padded[n : n + GRAM] for n in range(len(padded) - GRAM + 1)}


def _signatures(texts: Sequence[str]) -> Codes:
    """The least value of each hash function over a text's n-grams; shape (texts, hash functions)."""
    functions = BANDS * IN_BAND
    multipliers = _mixed(np.arange(functions, dtype=np.uint32) * np.uint32(2) + np.uint32(1)) | np.uint32(1)
    added = _mixed(np.arange(functions, dtype=np.uint32) + np.uint32(0x9E3779B9))
    least = np.empty((len(texts), functions), np.uint32)
    for begin in range(0, len(texts), _BLOCK):
        block = [text.ljust(GRAM) for text in texts[begin : begin + _BLOCK]]
        hashes, starts = _hashed(block)
        for n in range(functions):
            values = hashes * multipliers[n] + added[n]
            least[begin : begin + len(block), n] = np.minimum.reduceat(values, starts)
    return least


def _hashed(texts: Sequence[str]) -> tuple[Codes, npt.NDArray[np.int64]]:
    """A hash of each n-gram, text after text, and where each text begins."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    hashes = np.zeros(len(codes), np.uint32)
    for n in range(GRAM):
        hashes[: len(codes) - n] = _mixed(hashes[: len(codes) - n] * np.uint32(31) + codes[n:])
    inside = np.ones(len(codes), bool)  # an n-gram that begins near a text's end reaches into the next one
    ends = np.cumsum(lengths)
    for n in range(1, GRAM):
        inside[ends - n] = False
    grams = lengths - GRAM + 1
    return hashes[inside], np.cumsum(grams) - grams


def _mixed(values: Codes) -> Codes:
    """Each value mixed so that all of its bits depend on all (the finalizer of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


class _UpperBounds:
    """How similar two texts can be at the most, for many pairs at once: by which of ``BITS`` bits their n-grams set.

    Texts of one form, such as a question with a number in it, make pairs by the hundred thousand that are almost
    similar enough; few of them are left to be compared exactly.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._bits = np.empty((len(texts), BITS // 8), np.uint8)
        self._grams = np.empty(len(texts), np.int64)
        for begin in range(0, len(texts), _BLOCK):
            block = [text.ljust(GRAM) for text in texts[begin : begin + _BLOCK]]
            hashes, starts = _hashed(block)
            rows = np.repeat(np.arange(len(block)), np.diff(starts, append=len(hashes)))
            distinct = np.unique(rows << 32 | hashes)
            rows = distinct >> 32
            is_set = np.zeros((len(block), BITS), bool)
            is_set[rows, distinct % BITS] = True
            self._bits[begin : begin + len(block)] = np.packbits(is_set, axis=1)
            self._grams[begin : begin + len(block)] = np.bincount(rows, minlength=len(block))
        # n-grams that share a bit with another one of the text, and one more, should two have the same hash
        self._hidden = self._grams - _ONES[self._bits].sum(axis=1, dtype=np.int64) + 1

    def of(self, pairs: Pairs) -> npt.NDArray[np.float64]:
        """The most that the similarity of each pair can be."""
        most = np.empty(len(pairs), np.float64)
        for begin in range(0, len(pairs), _BLOCK):
            one, other = pairs[begin : begin + _BLOCK].T
            shared = _ONES[self._bits[one] & self._bits[other]].sum(axis=1, dtype=np.int64)
            shared += np.minimum(self._hidden[one], self._hidden[other])
            shared = np.minimum(shared, np.minimum(self._grams[one], self._grams[other]))
            most[begin : begin + _BLOCK] = shared / (self._grams[one] + self._grams[other] - shared)
        return most


def _candidates(signatures: Codes, least: float) -> Pairs:
    """Pairs of texts that share a band and whose signatures say that they may be similar enough; shape (pairs, 2)."""
    count = np.int64(len(signatures))
    found: list[npt.NDArray[np.int64]] = []
    for band in range(BANDS):
        rows = signatures[:, band * IN_BAND : (band + 1) * IN_BAND]
        order = np.lexsort(rows.T[::-1])  # stable: equal ones stay in the order of the texts
        ordered = rows[order]
        for step in range(1, min(_NEIGHBOURS, len(order) - 1) + 1):
            equal = (ordered[step:] == ordered[:-step]).all(axis=1)
            one, other = order[:-step][equal].astype(np.int64), order[step:][equal].astype(np.int64)
            found.append(np.minimum(one, other) * count + np.maximum(one, other))
    shared = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    likely = []
    for begin in range(0, len(shared), _BLOCK):
        pairs = np.stack(np.divmod(shared[begin : begin + _BLOCK], count), axis=1)
        alike = (signatures[pairs[:, 0]] == signatures[pairs[:, 1]]).mean(axis=1)
        likely.append(pairs[alike >= least - 0.2])
    return np.concatenate(likely) if likely else np.empty((0, 2), np.int64)
