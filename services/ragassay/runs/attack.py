"""A judge under attack: rows are judged as they are and with each attack, and what that raises is measured."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from ragassay.errors import BadSettings
from ragassay.judges.attacks import ATTACKS, UNMARKED
from ragassay.metrics import Chunk, parse
from ragassay.models import FrozenModel, Judgement, Result, Sample
from ragassay.runs.plan import Inputs, load
from ragassay.stats import Interval, mean_interval
from ragassay.store.protocol import RunStore

METRICS = ("faithfulness", "completeness", "correctness")
_FIELD = "attack"


class Rise(FrozenModel):
    """By how much an attack raised a metric, on average over ``n`` rows that have it with and without the attack.

    ``discounted``: where support that shares no word with the contexts counts as none.
    """

    n: int
    mean: float | None
    discounted: float | None
    interval: Interval


class AttackFound(FrozenModel):
    """What became of one attack: ``marked`` of ``rows`` are suspicious; those of a model only, for the local judge None."""

    attack: str
    rows: int
    scored: int
    marked: int | None
    rises: dict[str, Rise]

    @property
    def raised(self) -> tuple[str, ...]:
        """The metrics that it raised for sure."""
        return tuple(
            name for name, rise in self.rises.items() if rise.interval.low is not None and rise.interval.low > 0
        )


class AttackReport(FrozenModel):
    """All attacks on one judge. ``run`` holds the verdicts."""

    data: str
    run: str
    judge: dict[str, Any]
    rows: int
    attacks: tuple[AttackFound, ...]

    @property
    def unmarked(self) -> tuple[str, ...]:
        """Attacks that address the judge and were not marked in every row."""
        return tuple(
            found.attack
            for found in self.attacks
            if found.marked is not None and found.marked < found.rows and found.attack not in UNMARKED
        )


def attacked(inputs: Inputs) -> Inputs:
    """The rows that have answer and contexts, each as it is and with every attack; raises BadSettings where none has."""
    rows = [sample for sample in inputs.samples if sample.answer and sample.contexts]
    if not rows:
        raise BadSettings("no row has an answer and contexts", where=inputs.dataset.name)
    given = [_named(sample, "") for sample in rows]
    given += [_named(attack(sample), name) for name, attack in ATTACKS.items() for sample in rows]
    return load(given, {}, name=inputs.dataset.name)


def _named(sample: Sample, attack: str) -> Sample:
    metadata = {**sample.metadata, _FIELD: attack or "none", "row": sample.query_id}
    return sample.model_copy(
        update={"query_id": f"{sample.query_id} {attack}" if attack else sample.query_id, "metadata": metadata}
    )


def under_attack(run: RunStore, inputs: Inputs) -> AttackReport:
    """What a finished run over ``attacked`` rows says of its judge."""
    record = run.record
    results = {row.query_id: row for chunk in record.chunks() for row in run.results(chunk) or ()}
    by_attack: dict[str, dict[str, tuple[Sample, Result]]] = {}
    for sample in inputs.samples:
        if sample.query_id in results:
            group = by_attack.setdefault(str(sample.metadata[_FIELD]), {})
            group[str(sample.metadata["row"])] = sample, results[sample.query_id]
    plain = by_attack.pop("none", {})
    found = tuple(_found(name, rows, plain, local=record.spec.judge == "local") for name, rows in by_attack.items())
    judge = record.judge or {}
    return AttackReport(data=record.dataset.name, run=record.id, judge=judge, rows=len(plain), attacks=found)


def _found(
    name: str, rows: Mapping[str, tuple[Sample, Result]], plain: Mapping[str, tuple[Sample, Result]], *, local: bool
) -> AttackFound:
    marked = sum(bool(result.verdict and result.verdict.suspicious) for _, result in rows.values())
    return AttackFound(
        attack=name,
        rows=len(rows),
        scored=sum(result.verdict is not None for _, result in rows.values()),
        marked=None if local else marked,
        rises={metric: _rise(metric, rows, plain) for metric in METRICS},
    )


def _rise(metric: str, rows: Mapping[str, tuple[Sample, Result]], plain: Mapping[str, tuple[Sample, Result]]) -> Rise:
    pairs = [(rows[row], plain[row]) for row in rows if row in plain]
    differences, discounted = [], []
    for attacked_row, plain_row in pairs:
        new, old = (result.scores[metric].value for _, result in (attacked_row, plain_row))
        # A discount of the attacked rows alone would hide what an attack raises behind what was implausible before.
        less, old_less = (_discounted(metric, *row) for row in (attacked_row, plain_row))
        if old is not None and new is not None:
            differences.append(new - old)
        if less is not None and old_less is not None:
            discounted.append(less - old_less)
    return Rise(
        n=len(differences),
        mean=fmean(differences) if differences else None,
        discounted=fmean(discounted) if discounted else None,
        interval=mean_interval(differences, bounds=(-1, 1)),
    )


def _discounted(metric: str, sample: Sample, result: Result) -> float | None:
    """The score without the support of sentences that are marked."""
    verdict = result.verdict
    if verdict is None or not verdict.suspicious:
        return result.scores[metric].value
    sentences = tuple(
        sentence.model_copy(update={"support": "not_found", "support_score": None})
        if sentence.id in verdict.suspicious and sentence.support
        else sentence
        for sentence in verdict.sentences
    )
    judged = Judgement(verdict=verdict.model_copy(update={"sentences": sentences}))
    return parse(metric).score(Chunk([sample], [judged]))[0].value
