"""What the statistics are handed: checked columns of numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ragassay.core.errors import BadInput, BadSettings

Floats: TypeAlias = npt.NDArray[np.float64]
Values: TypeAlias = Sequence[float] | npt.NDArray[np.floating] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]
Bounds: TypeAlias = tuple[float, float]

SAME = 1e-12  # a relative difference below this is rounding, not data


def numbers(values: Values, what: str = "values") -> Floats:
    """``values`` as a float64 array of shape (n,); raises BadInput unless each is a finite number."""
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        column = np.full(1, np.nan)
    if column.ndim != 1:
        raise BadInput(f"{what} has {column.ndim} dimensions", hint="pass a flat list of numbers")
    bad = ~np.isfinite(column)
    if bad.any():
        raise BadInput(
            f"{what}[{int(bad.argmax())}] is not a finite number",
            hint="leave missing scores out and report how many they were",
        )
    return column


def pair(first: Values, second: Values, names: tuple[str, str]) -> tuple[Floats, Floats]:
    """Two columns about the same rows; raises BadInput when they differ in length."""
    a, b = numbers(first, names[0]), numbers(second, names[1])
    check_lengths(a, b, names)
    return a, b


def check_lengths(a: Floats, b: Floats, names: tuple[str, str]) -> None:
    """Raises BadInput when two columns differ in length."""
    if len(a) != len(b):
        raise BadInput(
            f"{names[0]} has {len(a)} rows, {names[1]} has {len(b)}",
            hint="keep only the rows that both have",
        )


def share_of(value: float, what: str) -> float:
    """``value``, when it lies between 0 and 1; raises BadSettings otherwise."""
    if not 0.0 < value < 1.0:
        raise BadSettings(f"{what} is {value:g}", hint="it must lie between 0 and 1, such as 0.95 or 0.05")
    return float(value)


def positive(value: float, what: str) -> float:
    """``value``, when it is finite and above 0; raises BadSettings otherwise."""
    if not 0.0 < value < math.inf:
        raise BadSettings(f"{what} is {value:g}", hint="it must be a finite number above 0")
    return float(value)


def count_of(value: int, what: str, least: int) -> int:
    """``value``, when it is a whole number of at least ``least``; raises BadSettings otherwise."""
    if int(value) != value or value < least:
        raise BadSettings(f"{what} is {value}", hint=f"it must be a whole number of at least {least}")
    return int(value)


def bounds_of(bounds: Bounds | None) -> Bounds | None:
    """``bounds``, when the lower one is below the upper one; raises BadSettings otherwise."""
    if bounds is not None and not (math.isfinite(bounds[0]) and math.isfinite(bounds[1]) and bounds[0] < bounds[1]):
        raise BadSettings(f"bounds are {bounds[0]:g} and {bounds[1]:g}", hint="the first must be below the second")
    return bounds


def generator(seed: int) -> np.random.Generator:
    """A fresh stream of random numbers; what is drawn depends on the seed and on sizes, never on the data."""
    return np.random.default_rng(count_of(seed, "seed", 0))


def averaged(values: Sequence[float], groups: npt.NDArray[np.int64]) -> list[float]:
    """The mean of ``values`` within each group, in the order of the groups' numbers; ``groups`` has that of each value."""
    if not len(values):
        return []
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    means: list[float] = (np.bincount(places, weights=values) / counts).tolist()
    return means


def is_binary(column: Floats) -> bool:
    """Whether each value is 0 or 1."""
    return bool(np.isin(column, (0.0, 1.0)).all())


def is_constant(column: Floats, scale: float = 0.0) -> bool:
    """Whether all values are equal but for rounding; ``scale`` is the range of the scores where it is known."""
    return len(column) > 0 and bool(np.ptp(column) <= SAME * max(np.abs(column).max(), scale))


def differences(a: Floats, b: Floats) -> Floats:
    """``b - a`` to 12 significant digits of the largest value, so that what is equal but for rounding ties.

    Swapping a and b flips each sign exactly.
    """
    scale = float(max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)))
    if scale == 0.0:
        return b - a
    rounded: Floats = np.round(b - a, int(np.clip(12 - math.ceil(math.log10(scale)), -300, 300)))
    return rounded


def mean_error(column: Floats) -> tuple[float, float]:
    """Mean and standard error, s / sqrt(n), of two values or more."""
    return float(column.mean()), float(column.std(ddof=1)) / math.sqrt(len(column))


def never_zero(p: float) -> float:
    """A p value as it may be printed: at most 1, and the smallest float where it underflows."""
    return min(1.0, max(p, sys.float_info.min))
