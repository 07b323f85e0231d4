"""Texts that are nearly the same: the Jaccard index of their character n-grams, from a sparse matrix."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

GRAM = 4  # characters
SIMILAR = 0.8
LONGEST = 2_000  # characters of a text that are compared
MOST = 5_000  # different texts that are compared; time grows with the square
_BLOCK = 500  # texts whose similarities to all others are in memory at once


def normalised(text: str) -> str:
    """The words of the beginning of a text, in lower case; vowel signs and other marks belong to their word."""
    kept = (c if c.isalnum() or c == "_" or unicodedata.category(c)[0] == "M" else " " for c in text[:LONGEST])
    return " ".join("".join(kept).casefold().split())


def similar_groups(texts: Sequence[str], least: float = SIMILAR) -> list[list[int]]:
    """Places of normalised texts in groups of two or more, by their first place.

    Two texts whose similarity is at least ``least`` are in one group, so a group may hold two that are less similar, with
    others between them. Equal texts are always found; of more than ``MOST`` different ones the first are compared.
    """
    from scipy.sparse.csgraph import connected_components  # slow to import, and the API does not need it

    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(text, []).append(place)
    labels = np.arange(len(places))
    compared = list(places)[:MOST]
    if least < 1 and compared:
        labels[: len(compared)] = connected_components(_alike(compared, least), directed=False)[1]
        labels[len(compared) :] += len(compared)
    groups: dict[int, list[int]] = {}
    for label, same in zip(labels.tolist(), places.values(), strict=True):
        groups.setdefault(label, []).extend(same)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def _alike(texts: Sequence[str], least: float) -> csr_matrix:
    """Which texts are similar enough, shape (texts, texts)."""
    from scipy.sparse import coo_matrix, csr_matrix

    numbers: dict[str, int] = {}
    grams = [[numbers.setdefault(gram, len(numbers)) for gram in _grams(text)] for text in texts]
    sizes = np.fromiter(map(len, grams), np.int64, len(grams))
    rows = np.repeat(np.arange(len(texts)), sizes)
    ones = np.ones(len(rows), np.int32)
    matrix = csr_matrix((ones, (rows, np.concatenate(grams))), shape=(len(texts), len(numbers)))
    pairs = []
    for begin in range(0, len(texts), _BLOCK):
        shared = (matrix[begin : begin + _BLOCK] @ matrix[begin:].T).tocoo()
        one, other = shared.row + begin, shared.col + begin
        near = shared.data >= least * (sizes[one] + sizes[other] - shared.data)
        pairs.append(np.stack([one[near], other[near]]))
    one, other = np.concatenate(pairs, axis=1)
    return coo_matrix((np.ones(len(one), np.int8), (one, other)), shape=(len(texts), len(texts))).tocsr()


def _grams(text: str) -> set[str]:
    padded = text.ljust(GRAM)
    return {padded[n : n + GRAM] for n in range(len(padded) - GRAM + 1)}
