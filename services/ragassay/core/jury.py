"""What is known of a judge beside its scores: how the members of a jury agree."""

from __future__ import annotations

from ragassay.core.models import FrozenModel, Usage


class AgreedLabels(FrozenModel):
    """Of ``n`` labels that two gave to the same units, how many are the same."""

    n: int
    agreed: int

    @property
    def share(self) -> float | None:
        """The share that is the same; None without a label."""
        return self.agreed / self.n if self.n else None


class JuryMember(FrozenModel):
    """One of a jury: rows that it ``judged``; of those that it gave no verdict on, ``reasons`` counts why.

    ``labels``: by kind, those of its labels that have one of the jury beside them.
    """

    judge: str
    judged: int
    failed: int
    reasons: dict[str, int]
    labels: dict[str, AgreedLabels]
    usage: Usage
    waste: Usage


class JuryPair(FrozenModel):
    """Two members beside each other. ``kappa``: Cohen's, chance taken kind by kind; None where chance explains all."""

    a: str
    b: str
    labels: AgreedLabels
    kappa: float | None


class Jury(FrozenModel):
    """Several models as one judge of ``rows``: on ``divided`` rows they gave some label differently, on
    ``without_verdict`` rows fewer than half of them gave a verdict.
    """

    rows: int
    divided: int
    without_verdict: int
    members: tuple[JuryMember, ...]
    pairs: tuple[JuryPair, ...]
