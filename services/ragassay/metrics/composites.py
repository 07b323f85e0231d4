"""Metrics that a run makes of others: a weighted mean, or an expression in which they are added, multiplied, divided.

An expression is read by the small grammar below, never run as code. From it follow the least and greatest value that it
can have, and whether higher or lower is better.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

from ragassay.errors import BadSettings
from ragassay.limits import LARGEST_WEIGHT
from ragassay.metrics.accuracy import lacking
from ragassay.metrics.base import OPERATIONAL, Metric
from ragassay.metrics.chunk import Chunk
from ragassay.models import LARGEST_NUMBER, Score

Definition = str | Mapping[str, float]
Values = Mapping[str, float]
Moves = Mapping[str, frozenset[int]]
_FUNCTIONS = ("min", "max", "harmonic_mean")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    rf"|(?P<function>{'|'.join(_FUNCTIONS)})\s*\("
    r"|(?P<metric>[A-Za-z_]\w*(?:@[\d.]+)?(?:\([^()]*\))?)"
    r"|(?P<sign>[-+*/(),]))"
)
_BETTER = re.compile(r"(?s)(.*?)(?:,\s*(higher|lower)\s+is\s+better\s*)?")
_EXAMPLE = "write, for example, harmonic_mean(faithfulness, completeness) or 1 - faithfulness"
_DEEPEST = 20
_BOTH = frozenset((1, -1))


@dataclass(frozen=True, slots=True)
class Term:
    """A part of an expression: its value, between ``low`` and ``high``, and which way it moves with each metric in it."""

    text: str
    low: float
    high: float
    moves: Moves
    value: Callable[[Values], float]

    @property
    def signs(self) -> frozenset[int]:
        """The signs that it can have."""
        return frozenset((1,)) if self.low >= 0 else frozenset((-1,)) if self.high <= 0 else _BOTH


class _Undefined(Exception):
    """The expression has no value here."""


def composite_metric(name: str, given: Definition, find: Callable[[str], Metric]) -> Metric:
    """The metric of a definition; ``find`` gives the metric that a name in it means.

    Raises BadSettings where it can't be read, and what ``find`` raises.
    """
    parts: dict[str, Metric] = {}

    def part(text: str) -> Term:
        metric = find(text)
        if isinstance(given, Mapping) and metric.name in parts:
            raise BadSettings(f"{metric.name} is named twice")
        parts[metric.name] = metric
        return _metric(metric)

    if isinstance(given, str):
        match = _BETTER.fullmatch(given.strip())
        text, declared = match.groups() if match else (given, None)
        better: Literal["higher", "lower"] | None = "higher" if declared == "higher" else "lower" if declared else None
        term, description = _Reader(text, part).term(), given.strip()
    else:
        term, better = _weighted(given, part), None
        description = f"Weighted mean: {', '.join(f'{name} {weight:g}' for name, weight in given.items())}"
    if not parts:
        raise BadSettings("names no metric", hint=_EXAMPLE)
    if term.low == term.high:
        raise BadSettings(f"is always {term.low:g}", hint=_EXAMPLE)
    kinds = {metric.kind for metric in parts.values()}
    bounds = (term.low, term.high) if math.isfinite(term.high - term.low) else None

    def composite(chunk: Chunk) -> list[Score]:
        return [
            _score(term, {part: chunk.scores[part][n] if part in chunk.scores else None for part in parts}, bounds)
            for n in range(len(chunk.samples))
        ]

    return Metric(
        family=name,
        function=composite,
        kind=kinds.pop() if len(kinds) == 1 else "quality",
        better=better or _better(term, parts, weighted=not isinstance(given, str)),
        bounds=bounds,
        description=description,
        parts=tuple(parts.values()),
    )


def _score(term: Term, scores: Mapping[str, Score | None], bounds: tuple[float, float] | None) -> Score:
    known = {name: score.value for name, score in scores.items() if score is not None and score.value is not None}
    if len(known) < len(scores):
        return lacking(scores)
    try:
        value = term.value(known)
    except _Undefined as undefined:
        return Score.absent(str(undefined))
    if not abs(value) <= LARGEST_NUMBER:
        return Score.absent(f"{term.text} is beyond {LARGEST_NUMBER:g}")
    if bounds:  # which rounding may leave by the last digit
        value = min(max(value, bounds[0]), bounds[1])
    return Score(value=value, details={"parts": known})


def _better(term: Term, parts: Mapping[str, Metric], *, weighted: bool) -> Literal["higher", "lower"]:
    """Which way is better, where it moves the same way for the better of each metric in it."""
    ways = {
        name: {sign if parts[name].better == "higher" else -sign for sign in signs}
        for name, signs in term.moves.items()
    }
    together = set[int]().union(*ways.values())
    if len(together) == 1:
        return "higher" if together == {1} else "lower"
    if weighted:
        lower = next(name for name in parts if parts[name].better == "lower")
        what = f"is a mean of metrics of which higher is better and {lower}, of which lower is"
        raise BadSettings(what, hint=f"write an expression that turns one of them, such as 1 - {lower}")
    mixed = next((name for name, signs in ways.items() if len(signs) > 1), None)
    what = "whether higher or lower is better does not follow from it"
    what += f": it may rise and fall with {mixed}" if mixed else f": {', '.join(parts)} pull in different ways"
    raise BadSettings(what, hint=f"say it at the end: {term.text}, higher is better")


def _weighted(weights: Mapping[str, float], part: Callable[[str], Term]) -> Term:
    for name, weight in weights.items():
        if not 0 < weight <= LARGEST_WEIGHT:
            raise BadSettings(
                f"the weight of {name} should lie above 0 and be at most {LARGEST_WEIGHT:g}, is {weight:g}"
            )
    terms = [_product(_number(weight), part(name)) for name, weight in weights.items()]
    return _quotient(reduce(_sum, terms), _number(math.fsum(weights.values())))


class _Reader:
    """Reads an expression: sums of products of numbers, metrics, functions and what stands in parentheses."""

    def __init__(self, text: str, part: Callable[[str], Term]) -> None:
        self._text, self._part, self._depth = text, part, 0
        self._tokens = list(_tokens(text))
        self._at = 0

    def term(self) -> Term:
        """The whole of it; raises BadSettings that quotes where it can't be read on."""
        term = self._sum()
        if self._kind is not None:
            raise self._unread()
        return replace(term, text=" ".join(self._text.split()))

    @property
    def _kind(self) -> str | None:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else None

    def _next(self, *signs: str) -> str | None:
        """The sign that comes next, which is taken, where it is one of these."""
        if self._kind == "sign" and self._tokens[self._at][1] in signs:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return None

    def _unread(self) -> BadSettings:
        start = self._tokens[self._at][2] if self._kind else len(self._text)
        rest = self._text[start:].strip()
        what = f"can't read {rest[:60]!r}" if rest else "ends where a metric or a number should follow"
        return BadSettings(what, hint=_EXAMPLE)

    def _sum(self) -> Term:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadSettings(f"is nested more than {_DEEPEST} levels deep")
        term = self._product()
        while sign := self._next("+", "-"):
            other = self._product()
            term = _sum(term, other if sign == "+" else _negative(other))
        self._depth -= 1
        return term

    def _product(self) -> Term:
        term = self._factor()
        while sign := self._next("*", "/"):
            start = self._at
            other = self._factor()
            term = _product(term, other) if sign == "*" else _quotient(term, replace(other, text=self._source(start)))
        return term

    def _source(self, start: int) -> str:
        end = self._tokens[self._at][2] if self._kind else len(self._text)
        return self._text[self._tokens[start][2] : end].strip()

    def _factor(self) -> Term:
        negated = False
        while self._next("-"):
            negated = not negated
        term = self._unsigned()
        return _negative(term) if negated else term

    def _unsigned(self) -> Term:
        if self._next("("):
            term = self._sum()
            self._close()
            return term
        kind = self._kind
        if kind in (None, "sign"):
            raise self._unread()
        text = self._tokens[self._at][1]
        self._at += 1
        if kind == "number":
            return _number(float(text))
        if kind == "metric":
            return self._part(text)
        terms = [self._sum()]
        while self._next(","):
            terms.append(self._sum())
        self._close()
        return _function(text, terms)

    def _close(self) -> None:
        if not self._next(")"):
            raise self._unread() if self._kind else BadSettings("a parenthesis is not closed", hint=_EXAMPLE)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Kind, text and place of each token; what is none of ours stands as a sign that no rule takes."""
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            yield "sign", "?", at
            return
        kind = str(match.lastgroup)
        yield kind, match[kind], match.start(kind)
        at = match.end()


def _number(number: float) -> Term:
    return Term(f"{number:g}", number, number, {}, lambda _: number)


def _metric(metric: Metric) -> Term:
    name = metric.name
    low, high = metric.bounds or (0.0 if metric.family in OPERATIONAL else -math.inf, math.inf)
    return Term(name, low, high, {name: frozenset((1,))}, lambda values: values[name])


def _turned(moves: Moves, signs: frozenset[int]) -> Moves:
    return {name: frozenset(way * sign for way in ways for sign in signs) for name, ways in moves.items()}


def _together(*several: Moves) -> Moves:
    names = dict.fromkeys(name for moves in several for name in moves)
    return {name: frozenset[int]().union(*(moves.get(name, ()) for moves in several)) for name in names}


def _negative(a: Term) -> Term:
    return Term(a.text, -a.high, -a.low, _turned(a.moves, frozenset((-1,))), lambda values: -a.value(values))


def _sum(a: Term, b: Term) -> Term:
    moves = _together(a.moves, b.moves)
    return Term(a.text, a.low + b.low, a.high + b.high, moves, lambda values: a.value(values) + b.value(values))


def _corners(a: Term, low: float, high: float) -> tuple[float, float]:
    """Least and greatest product of what lies in ``a`` and between ``low`` and ``high``; 0 times anything is 0."""
    products = [x * y if x and y else 0.0 for x in (a.low, a.high) for y in (low, high)]
    return min(products), max(products)


def _product(a: Term, b: Term) -> Term:
    moves = _together(_turned(a.moves, b.signs), _turned(b.moves, a.signs))
    return Term(a.text, *_corners(a, b.low, b.high), moves, lambda values: a.value(values) * b.value(values))


def _quotient(a: Term, b: Term) -> Term:
    if b.low == b.high == 0:
        raise BadSettings(f"divides by {b.text}, which is always 0")
    moves = _together(_turned(a.moves, b.signs), _turned(b.moves, frozenset(-sign for sign in a.signs)))

    def value(values: Values) -> float:
        divisor = b.value(values)
        if not divisor:
            raise _Undefined(f"{b.text} is 0, and nothing can be divided by it")
        return a.value(values) / divisor

    reciprocal = (-math.inf, math.inf)
    if not b.low < 0 < b.high:
        reciprocal = 1 / b.high if b.high else -math.inf, 1 / b.low if b.low else math.inf
    return Term(a.text, *_corners(a, *reciprocal), moves, value)


def _function(name: str, terms: Sequence[Term]) -> Term:
    lows, highs = [term.low for term in terms], [term.high for term in terms]
    moves = _together(*(term.moves for term in terms))
    if name == "harmonic_mean" and min(lows) < 0:
        raise BadSettings("harmonic_mean is of what is never negative", hint="the metrics in it need bounds from 0 up")
    of: Callable[[Sequence[float]], float] = {"min": min, "max": max}.get(name, _harmonic_mean)
    return Term(name, of(lows), of(highs), moves, lambda values: of([term.value(values) for term in terms]))


def _harmonic_mean(values: Sequence[float]) -> float:
    if not all(values):
        return 0.0
    inverse = math.fsum(1 / value for value in values)
    return len(values) / inverse if inverse else math.inf
