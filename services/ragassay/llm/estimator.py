"""What a call may cost at the most, learnt from the bills: some providers charge more tokens than text and limit say."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

Tokens = tuple[int, int]  # input, output


class Estimator:
    """Upper bounds of the tokens that calls to one model are billed.

    A bound is the caller's own estimate times the largest ratio of billed to estimated tokens that was seen, for input
    and output each, and never less than that estimate. A call also reserves what the calls in flight lack, which were
    reserved before a bill raised the ratio.
    """

    def __init__(self) -> None:
        self._ratios = [Fraction(1), Fraction(1)]
        self._in_flight: dict[object, tuple[Tokens, Tokens]] = {}  # estimated, reserved

    def bound(self, estimated: Tokens) -> Tokens:
        """The most tokens that a call is billed."""
        return ceil(estimated[0] * self._ratios[0]), ceil(estimated[1] * self._ratios[1])

    def to_reserve(self, estimated: Tokens) -> Tokens:
        """Tokens that a call should reserve: its own bound, and what calls in flight lack."""
        bounds = [(self.bound(own), reserved) for own, reserved in self._in_flight.values()]
        lacking = [max(0, sum(bound[kind] - reserved[kind] for bound, reserved in bounds)) for kind in (0, 1)]
        own = self.bound(estimated)
        return own[0] + lacking[0], own[1] + lacking[1]

    def start(self, call: object, estimated: Tokens, reserved: Tokens) -> None:
        """A call is in flight from now on."""
        self._in_flight[call] = estimated, reserved

    def end(self, call: object) -> None:
        """A call is no longer in flight."""
        self._in_flight.pop(call, None)

    def learn(self, estimated: Tokens, billed: Tokens) -> None:
        """Raise the bounds by the bill of one call."""
        pairs = zip(self._ratios, billed, estimated, strict=True)
        self._ratios = [max(ratio, Fraction(bill, max(estimate, 1))) for ratio, bill, estimate in pairs]
