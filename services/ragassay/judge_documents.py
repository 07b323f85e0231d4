"""What is known of a judge beside its scores: drift from its first verdicts, and what calibration makes of them."""

from __future__ import annotations

from typing import Any, Literal

from ragassay.models import Chance, FrozenModel, Usage
from ragassay.specification import Calibration
from ragassay.stats.results import Interval


class PanelRow(FrozenModel):
    """A judge's labels on one row of a canary panel, by unit, and the scores that follow; ``reason`` where it has none."""

    query_id: str
    labels: dict[str, str] = {}  # noqa: RUF012 - a default of a model
    scores: dict[str, float] = {}  # noqa: RUF012 - a default of a model
    reason: str | None = None


class JudgedPanel(FrozenModel):
    """What a judge made of a canary panel in one run: twice where there was no baseline yet, since its noise is part of it.

    ``judge`` is the fingerprint of all that is known to determine its verdicts, ``digest`` that of the panel's rows.
    ``models``: what its provider says that it answered with.
    """

    run: str
    at: str
    panel: str
    digest: str
    judge: str
    judgings: tuple[tuple[PanelRow, ...], ...]
    models: tuple[str, ...] = ()
    usage: Usage = Usage()
    waste: Usage = Usage()

    @property
    def key(self) -> str:
        """What one baseline is kept for: a judge and a panel."""
        return f"{self.judge}-{self.digest[:16]}"


class ScoreDrift(FrozenModel):
    """A mean over the panel's ``n`` rows, at the baseline and now. ``p`` is corrected for the number of measures.

    ``threshold``: a larger difference is drift. Of ``labels``, the mean is the share of a row's labels that
    differ from another judging of the same row.
    """

    n: int
    baseline: float
    now: float
    threshold: float
    p: Chance


class LabelDrift(FrozenModel):
    """Labels of one kind beside the first judging of the baseline: how many changed, and how many went ``up``.

    ``p`` is McNemar's exact test, which takes the labels of a row for independent; it decides nothing.
    """

    n: int
    changed: int
    up: int
    p: Chance


class Drift(FrozenModel):
    """A judge's verdicts on a canary panel beside those of its baseline.

    ``baseline``: these are the first ones and now kept. ``p``: chance of verdicts that stand out so much where nothing
    has changed; from ``false_alarms`` on it is no drift, so that is the share of nights with a false alarm at the most.
    ``rows`` have a verdict in every judging, ``missing`` do not.
    """

    status: Literal["baseline", "unchanged", "drifted", "not compared"]
    reason: str | None = None
    panel: str
    digest: str
    judge: str
    rows: int
    missing: int
    baseline_run: str | None = None
    baseline_at: str | None = None
    p: Chance | None = None
    false_alarms: float
    scores: dict[str, ScoreDrift] = {}  # noqa: RUF012 - a default of a model
    labels: dict[str, LabelDrift] = {}  # noqa: RUF012 - a default of a model
    models: tuple[str, ...] = ()
    baseline_models: tuple[str, ...] = ()
    usage: Usage = Usage()
    waste: Usage = Usage()


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
