"""From a judge's scores to chances: fitted on labels by people, and measured on labels that it was not fitted on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from pydantic import ValidationError

from ragassay.errors import BadData, BadInput, BadSettings, NotFound
from ragassay.judge_documents import CalibratedMeasure, JudgeCalibration
from ragassay.judges.agreement import Measures
from ragassay.protocols import Judge, fingerprint
from ragassay.specification import Calibration, JobSpec
from ragassay.stats import clustered_intervals
from ragassay.stats.columns import Floats
from ragassay.validation import problems

Method = Literal["temperature", "platt", "isotonic"]
METHODS: tuple[Method, ...] = ("temperature", "platt", "isotonic")
MEASURES = ("brier", "log_loss", "ece", "auc", "balanced_accuracy")
FEWEST, FEWEST_OF_A_KIND = 50, 10
_FOLDS, _INNER_FOLDS = 10, 5
_EDGE = 0.01  # log odds of scores nearer to 0 or 1 than that would be endless


def chance(calibration: Calibration, score: float) -> float:
    """The chance that people say yes, at a score from 0 to 1."""
    if calibration.method != "isotonic":
        return 1 / (1 + math.exp(-(calibration.slope * _log_odds(score) + calibration.intercept)))
    knots = calibration.knots
    place = bisect_right(knots, score, key=lambda knot: knot[0])
    if place in (0, len(knots)):
        return knots[min(place, len(knots) - 1)][1]
    (x0, y0), (x1, y1) = knots[place - 1 : place + 1]
    return y0 + (y1 - y0) * (score - x0) / (x1 - x0)


def read_calibration(path: Path) -> JudgeCalibration:
    """What ``ragassay judge calibrate`` wrote; raises NotFound and BadData."""
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file", where="calibration", hint="make it: ragassay judge calibrate")
    try:
        return JudgeCalibration.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BadData([f"{path}: {problems(error)[0]}"], hint="make it anew: ragassay judge calibrate") from None


class Fitted(Protocol):
    """What has a map."""

    @property
    def calibration(self) -> Calibration:
        """The map."""


def maps(given: Sequence[Fitted | Path]) -> Iterator[Calibration]:
    """The maps of these documents; raises what ``read_calibration`` raises, and BadSettings for two of one metric."""
    named: dict[str, str] = {}
    for number, one in enumerate(given, 1):
        name = str(one) if isinstance(one, Path) else f"number {number}"
        calibration = (read_calibration(one) if isinstance(one, Path) else one).calibration
        if calibration.metric in named:
            what = f"{name} and {named[calibration.metric]} are both about {calibration.metric}"
            raise BadSettings(what, where="calibration", hint="name one")
        named[calibration.metric] = name
        yield calibration


def check_calibrated(spec: JobSpec, judge: Judge) -> None:
    """Raise BadSettings where a calibration of the specification was fitted for another judge than this one."""
    for calibration in spec.calibration:
        if calibration.judge != (found := fingerprint({"name": judge.name, **judge.settings})):
            what = f"it was fitted for the judge {calibration.judge}, this run's is {found} ({judge.name})"
            raise BadSettings(
                f"the calibration of {calibration.metric} does not fit: {what}",
                where="calibration",
                hint="model, judge_mode, parameters, prompts or criteria differ; fit it anew: ragassay judge calibrate",
            )


def check_labels(labels: Floats, scores: Floats) -> None:
    """Raise BadInput where there is too little to fit a map on, or the scores do not rise with the labels."""
    yes = int(labels.sum())
    no = len(labels) - yes
    if more := labels_missing(labels):
        needs = f"{FEWEST} labelled items are needed, {FEWEST_OF_A_KIND} of each kind"
        raise BadInput(
            f"a calibration can't be fitted: {len(labels)} items have a score, {yes} yes and {no} no; {needs}",
            hint=f"label at least {more} more",
        )
    auc = float(Measures(labels, scores).weighted(np.ones(len(labels)))[3])
    if auc <= 0.5:
        raise BadInput(
            f"a calibration can't be fitted: the scores do not rise with the labels (AUC {auc:.2f})",
            hint="are the labels the other way round, or about something else?",
        )


def labels_missing(labels: Floats) -> int:
    """How many further labels, 1 or 0, a map takes at the least."""
    yes = int(labels.sum())
    no = len(labels) - yes
    return max(0, FEWEST - len(labels), max(0, FEWEST_OF_A_KIND - yes) + max(0, FEWEST_OF_A_KIND - no))


def fit(labels: Floats, scores: Floats, method: Method, weights: Floats | None = None) -> Callable[[Floats], Floats]:
    """The map of that kind with the least log loss on these items."""
    if method == "isotonic":
        xs, ys = zip(*isotonic_knots(labels, scores, weights), strict=True)
        return lambda given: np.interp(given, xs, ys)
    slope, intercept = logistic(labels, scores, shifted=method == "platt", weights=weights)
    return lambda given: 1 / (1 + np.exp(-(slope * _logits(given) + intercept)))


def logistic(labels: Floats, scores: Floats, *, shifted: bool, weights: Floats | None = None) -> tuple[float, float]:
    """Slope, 0 at the least, and intercept (0 unless ``shifted``) over log odds of scores; Newton's method, a ridge of 0.01."""
    counts = np.ones(len(labels)) if weights is None else weights
    columns = np.stack([_logits(scores), np.full(len(scores), float(shifted))], axis=1)
    fitted = np.zeros(2)
    for _ in range(50):
        chances = 1 / (1 + np.exp(-np.clip(columns @ fitted, -30, 30)))
        slope = columns.T @ (counts * (labels - chances)) - 0.01 * fitted
        curve = (columns * (counts * chances * (1 - chances))[:, None]).T @ columns + 0.01 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        fitted = fitted + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return max(float(fitted[0]), 0.0), float(fitted[1])


def isotonic_knots(labels: Floats, scores: Floats, weights: Floats | None = None) -> tuple[tuple[float, float], ...]:
    """The rising steps of least squared error (pool adjacent violators), as knots; never nearer to 0 or 1 than 1/(2n)."""
    weights = np.ones(len(labels)) if weights is None else weights
    distinct, place = np.unique(scores, return_inverse=True)
    totals, counts = np.bincount(place, weights * labels), np.bincount(place, weights)
    pools: list[list[float]] = []  # mean, weight, first score, last score
    for score, total, count in zip(distinct, totals, counts, strict=True):
        pools.append([total / count, count, score, score])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            mean, weight, _, last = pools.pop()
            before = pools[-1]
            before[0] = (before[0] * before[1] + mean * weight) / (before[1] + weight)
            before[1], before[3] = before[1] + weight, last
    edge = 1 / (2 * len(scores))
    knots: dict[float, float] = {}
    for mean, _, first, last in pools:
        knots |= dict.fromkeys((float(first), float(last)), float(min(max(mean, edge), 1 - edge)))
    return tuple(knots.items())


def best_method(
    labels: Floats,
    scores: Floats,
    groups: Sequence[str],
    seed: int,
    weights: Floats | None = None,
    folds: int = _FOLDS,
) -> Method:
    """The kind of map with the least log loss on items that it was not fitted on."""

    def loss(method: Method) -> float:
        held_out = crossed(labels, scores, groups, seed, weights, folds, lambda *_: method)
        return float(_measures(labels, held_out, np.ones(len(labels)) if weights is None else weights)[1])

    return min(METHODS, key=loss)


def crossed(
    labels: Floats,
    scores: Floats,
    groups: Sequence[str],
    seed: int,
    weights: Floats | None = None,
    folds: int = _FOLDS,
    choose: Callable[[Floats, Floats, Sequence[str], int, Floats], Method] | None = None,
) -> Floats:
    """The chance of each item by a map that was chosen and fitted on other groups alone."""
    weights = np.ones(len(labels)) if weights is None else weights
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = {names[place]: n % folds for n, place in enumerate(order)}
    fold = np.array([fold_of[group] for group in groups])
    held_out = np.empty(len(labels))
    for n in np.unique(fold):
        rest, out = fold != n, fold == n
        inner = [group for group, kept in zip(groups, rest, strict=True) if kept]
        seen = labels[rest], scores[rest], inner, seed, weights[rest]
        method = choose(*seen) if choose else best_method(*seen, folds=_INNER_FOLDS)
        held_out[out] = fit(labels[rest], scores[rest], method, weights[rest])(scores[out])
    return held_out


def measured(
    labels: Floats,
    before: Floats,
    after: Floats,
    groups: Sequence[str],
    weights: Floats | None = None,
    *,
    level: float,
    seed: int,
) -> dict[str, CalibratedMeasure]:
    """What scores and chances are worth against labels, with intervals that keep groups together."""

    def both(drawn: Floats) -> Floats:
        counts = drawn if weights is None else drawn * weights
        old, new = _measures(labels, before, counts), _measures(labels, after, counts)
        return np.concatenate([old, new, new - old])

    whole = both(np.ones(len(labels)))
    intervals = clustered_intervals(both, groups, level=level, seed=seed)
    n = len(MEASURES)
    return {
        name: CalibratedMeasure(
            before=float(whole[m]),
            after=float(whole[n + m]),
            before_interval=intervals[m],
            after_interval=intervals[n + m],
            change_interval=intervals[2 * n + m],
        )
        for m, name in enumerate(MEASURES)
    }


def _measures(labels: Floats, chances: Floats, weights: Floats) -> Floats:
    """The numbers that ``MEASURES`` names; the log loss is of chances no nearer to 0 or 1 than 0.01."""
    inside = np.clip(chances, _EDGE, 1 - _EDGE)
    loss = -(labels * np.log(inside) + (1 - labels) * np.log(1 - inside))
    agreed = Measures(labels, chances).weighted(weights)
    total = weights.sum()
    return np.array(
        [
            (weights * (chances - labels) ** 2).sum() / total,
            (weights * loss).sum() / total,
            agreed[4],
            agreed[3],
            agreed[1],
        ]
    )


def _log_odds(score: float) -> float:
    inside = min(max(score, _EDGE), 1 - _EDGE)
    return math.log(inside / (1 - inside))


def _logits(scores: Floats) -> Floats:
    inside: Floats = np.clip(scores, _EDGE, 1 - _EDGE)
    logits: Floats = np.log(inside / (1 - inside))
    return logits
