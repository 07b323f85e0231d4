"""Many comparisons at once: p values adjusted so that luck is not taken for a finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from ragassay.core.errors import BadInput, BadSettings
from ragassay.stats.columns import Floats

PValues: TypeAlias = Sequence[float | None]
Correction: TypeAlias = Literal["none", "bonferroni", "holm", "benjamini_hochberg"]

MARKS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def bonferroni(ps: PValues) -> list[float | None]:
    """``ps`` times their number, at most 1. Bounds the chance of any false finding; the bluntest of the three.

    None stays None, in its place, and does not count. Raises BadInput for a number outside 0..1 (all three do).
    Source: Dunn, "Multiple comparisons among means", JASA 56 (1961).
    """
    return _adjust(ps, lambda p: p * len(p))


def holm(ps: PValues) -> list[float | None]:
    """Bounds the chance of any false finding like Bonferroni, and never finds less. The default for a few metrics.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian J. Statistics 6 (1979).
    """
    return _adjust(ps, lambda p: np.maximum.accumulate(p * np.arange(len(p), 0, -1)))


def benjamini_hochberg(ps: PValues) -> list[float | None]:
    """Bounds the share of false findings among the findings. For many slices, where a few false alarms are bearable.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate", J. Royal Statistical Society B 57 (1995).
    """
    return _adjust(ps, lambda p: np.minimum.accumulate((p * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1])


_METHODS: dict[Correction, Callable[[PValues], list[float | None]]] = {
    "none": list,
    "bonferroni": bonferroni,
    "holm": holm,
    "benjamini_hochberg": benjamini_hochberg,
}


def correction_named(name: str, *, where: str | None = None) -> Correction:
    """The correction of that name, ``bh`` is short for Benjamini-Hochberg; raises BadSettings for another one."""
    full = "benjamini_hochberg" if name == "bh" else name
    for method in _METHODS:
        if method == full:
            return method
    raise BadSettings(f"unknown correction {name!r}", where=where, hint=f"use one of {', '.join(_METHODS)}")


def correct(ps: PValues, method: str) -> list[float | None]:
    """The correction of that name; "none" returns ``ps`` as they are. Raises BadSettings for another name."""
    return _METHODS[correction_named(method)](ps)


def marks(p: float | None) -> str:
    """``***`` for p <= 0.001, ``**`` for p <= 0.01, ``*`` for p <= 0.05, else nothing; nothing too for None."""
    return next((mark for limit, mark in MARKS if p is not None and p <= limit), "")


def _adjust(ps: PValues, rule: Callable[[Floats], Floats]) -> list[float | None]:
    """``rule`` is given the known p values in ascending order."""
    known = [i for i, p in enumerate(ps) if p is not None]
    column = np.array([ps[i] for i in known], dtype=np.float64)
    if not ((column >= 0) & (column <= 1)).all():
        raise BadInput("a p value lies outside 0..1", hint="pass p values as the tests gave them, None where undefined")
    order = np.argsort(column, kind="stable")
    adjusted: list[float | None] = [None] * len(ps)
    for rank, p in zip(order, np.minimum(rule(column[order]), 1.0), strict=True):
        adjusted[known[rank]] = float(p)
    return adjusted
