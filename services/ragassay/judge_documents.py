"""What is known of a judge beside its scores: the votes of a jury, and what calibration makes of its scores."""

from __future__ import annotations

from typing import Any, Literal

from ragassay.models import Chance, FrozenModel, Usage
from ragassay.specification import Calibration
from ragassay.stats.results import Interval


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


class CalibratedMeasure(FrozenModel):
    """A measure of a judge's scores against labels, and of its calibrated scores on items that they were not fitted on."""

    before: float
    after: float
    before_interval: Interval
    after_interval: Interval
    change_interval: Interval


class JudgeCalibration(FrozenModel):
    """What ``ragassay judge calibrate`` writes: the map, for whom it is, and what it is worth.

    ``n`` items have a label and a score, ``missing`` a label alone. ``measures``, cross-validated, are of the whole
    procedure, the choice of the kind of map included.
    """

    schema_version: Literal[1] = 1
    kind: Literal["calibration"] = "calibration"
    run: str
    judge: dict[str, Any]
    calibration: Calibration
    n: int
    missing: int
    groups: int
    share_yes: Chance
    measures: dict[str, CalibratedMeasure]
