"""How the judges of a jury did, and how far they agree."""

from __future__ import annotations

from ragassay.core.models import FrozenModel, Usage


class AgreedLabels(FrozenModel):
    """Of ``n`` labels that two gave to the same units, how many are the same.

    ``kappa``: Cohen's, of what chance left to agree on the share that was agreed on; None where chance leaves nothing.
    """

    n: int
    agreed: int
    kappa: float | None


class JuryMember(FrozenModel):
    """A judge of a jury: rows that it ``judged``; of those that it ``failed`` on, ``reasons`` counts why.

    ``labels``: its labels against those of the jury.
    """

    judge: str
    judged: int
    failed: int
    reasons: dict[str, int]
    labels: AgreedLabels
    usage: Usage
    waste: Usage


class JuryPair(FrozenModel):
    """The labels of two of its judges."""

    a: str
    b: str
    labels: AgreedLabels


class Jury(FrozenModel):
    """Several judges of ``rows``: on ``divided`` rows they gave some label differently, on ``without_verdict`` rows fewer
    than half of them gave a verdict.
    """

    rows: int
    divided: int
    without_verdict: int
    members: tuple[JuryMember, ...]
    pairs: tuple[JuryPair, ...]
