"""What the statistics are handed: checked columns of numbers, and rows that belong together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ragassay.errors import BadInput, BadSettings

Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.intp]
Values: TypeAlias = Sequence[float] | npt.NDArray[np.floating] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]
Groups: TypeAlias = Sequence[Hashable]
Bounds: TypeAlias = tuple[float, float]

LARGEST = 1e60  # fourth powers of larger numbers overflow
SMALLEST = 1e-100  # squares of smaller ones vanish, so they count as 0
SAME = 1e-12  # a relative difference below this is rounding, not data


def numbers(values: Values, what: str = "values", largest: float = 4 * LARGEST) -> Floats:
    """``values`` as a float64 array of shape (n,); raises BadInput unless each is a finite number, none beyond 4e60."""
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        column = np.full(1, np.nan)
    if column.ndim != 1:
        raise BadInput(f"{what} has {column.ndim} dimensions", hint="pass a flat list of numbers")
    size = np.abs(column)
    bad = ~(size <= largest)
    if bad.any():
        raise BadInput(
            f"{what}[{int(bad.argmax())}] is not a finite number within {largest:g}",
            hint="leave missing scores out and report how many they were",
        )
    return np.where(size < SMALLEST, 0.0, column)


def pair(first: Values, second: Values, names: tuple[str, str]) -> tuple[Floats, Floats]:
    """Two columns about the same rows; raises BadInput when they differ in length."""
    a, b = numbers(first, names[0], LARGEST), numbers(second, names[1], LARGEST)
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


def codes_of(groups: Groups | None, n: int) -> Codes | None:
    """The number of each row's group, counted in order of appearance; None where every row stands for itself."""
    if groups is None:
        return None
    if len(groups) != n:
        raise BadInput(f"there are {len(groups)} groups for {n} rows", hint="give one group for each row")
    seen: dict[Hashable, int] = {}
    codes = np.fromiter((seen.setdefault(group, len(seen)) for group in _plain(groups)), dtype=np.intp, count=n)
    return None if len(seen) == n else codes


def _plain(groups: Groups) -> Iterable[Hashable]:
    return groups.tolist() if isinstance(groups, np.ndarray) else groups


def sums(column: Floats, codes: Codes | None) -> Floats:
    """The sum of each group, shape (groups,); ``column`` itself where every row stands for itself."""
    if codes is None:
        return column
    return np.bincount(codes, weights=column).astype(np.float64, copy=False)


def unit_count(column: Floats, codes: Codes | None) -> int:
    """How many independent units there are: groups, or else rows."""
    return len(column) if codes is None else int(codes.max()) + 1


def is_constant(column: Floats, scale: float = 0.0) -> bool:
    """Whether all values are equal but for rounding; ``scale`` is the range of the scores where it is known."""
    return len(column) > 0 and bool(np.ptp(column) <= SAME * max(np.abs(column).max(), scale))


def scale_of(a: Floats, b: Floats) -> float:
    """The largest absolute value in either column."""
    return float(max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)))


def without_noise(column: Floats, scale: float) -> Floats:
    """``column`` to 12 significant digits of ``scale``, so that what is equal but for rounding ties."""
    if scale == 0.0:
        return column
    rounded: Floats = np.round(column, int(np.clip(12 - math.ceil(math.log10(scale)), -300, 300)))
    return rounded


def differences(a: Floats, b: Floats) -> Floats:
    """``b - a`` without rounding noise. Swapping a and b flips each sign exactly."""
    return without_noise(b - a, scale_of(a, b))


class Spread(NamedTuple):
    """Mean, its standard error, and how many independent units (rows or groups) stand behind it."""

    mean: float
    error: float
    units: int


def spread(column: Floats, codes: Codes | None) -> Spread:
    """Mean and standard error of two values or more, clustered where rows share a group.

    The clustered error is the sandwich estimator of Liang and Zeger, "Longitudinal data analysis using generalized
    linear models", Biometrika 73 (1986), for a mean, times G / (G - 1); with groups of one it is the usual s / sqrt(n).
    It is 0 where all groups have the same mean but for rounding.
    """
    n, mean = len(column), float(column.mean())
    if codes is None:
        return Spread(mean, float(column.std(ddof=1)) / math.sqrt(n), n)
    away = column - mean
    pulls = sums(away, codes)
    count = len(pulls)
    if count == 1 or np.abs(pulls).max() <= 1e-10 * np.abs(away).sum():
        return Spread(mean, 0.0, count)
    return Spread(mean, math.sqrt(float((pulls**2).sum()) * count / (count - 1)) / n, count)
