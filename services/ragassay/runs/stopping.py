"""Judging that ends when the question is decided: rows come in random order, under intervals that may be looked at at will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ragassay.compare.pairing import MatchingIndex, match
from ragassay.documents import Report
from ragassay.errors import BadSettings, NotFound
from ragassay.judges.sharing import is_chosen
from ragassay.metrics import Metric, parse
from ragassay.metrics.own import own_metrics
from ragassay.models import Result, Sample
from ragassay.stats import ConfidenceSequence, CorrectedSequence, Interval, stop_rule
from ragassay.stats.ppi import FEWEST_LABELS
from ragassay.store.protocol import ChunkId, LabelCount, RunRecord, RunStore


class StopMonitor:
    """Follows the scores of a run, chunk by chunk in the order of evaluation, until its rule is satisfied.

    The same chunks give the same answer, whoever asks and however often: what is stopped follows from the results.
    ``baseline`` has the rows of a baseline that is no system of the run. Raises BadSettings when the rule can't be
    followed: no metric to watch, or nothing to decide against; NotFound for an unknown baseline.
    """

    def __init__(self, record: RunRecord, baseline: Sequence[Result] | None = None) -> None:
        spec, systems = record.spec, list(record.systems)
        self.rule = stop_rule(spec.stop_when or "")
        self.chunks = 0
        self.why: str | None = None
        self._systems = systems
        self._most_chunks = len(record.chunks()) // max(len(systems), 1)
        self._against = spec.baseline
        self._baseline = MatchingIndex(baseline or ())
        self._stored = baseline is not None
        own = own_metrics(spec)
        self._share, self._seed, self._corrected_by = spec.judge_share, spec.seed, spec.corrected_by
        self._asked = self._calls = 0
        self._metrics = _watched(self.rule.metrics, [parse(name, own) for name in record.metrics])
        compared = [name for name in systems if name != spec.baseline]
        if self.rule.watches == "differences":
            self._check(systems, compared)
        self._judged = {m.name for m in self._metrics if m.sees == "Verdict" or m.family == "accurate"}
        self._sequences: dict[tuple[str, str], ConfidenceSequence | CorrectedSequence] = {}
        for system in compared if self.rule.watches == "differences" else systems:
            for metric in self._metrics:
                labelled, bounds = record.labelled.get(system, {}).get(metric.name), self._bounds(metric)
                self._sequences[system, metric.name] = (
                    CorrectedSequence(spec.confidence, bounds, labelled.labels, labelled.rows)
                    if labelled
                    else ConfidenceSequence(spec.confidence, bounds)
                )

    def follow(self, run: RunStore) -> str | None:
        """Take in the chunks that were committed since, each read once; why judging may stop, None while it must go on."""
        while self.why is None and self.chunks < self._most_chunks:
            chunk = {system: run.results(ChunkId(system, self.chunks)) for system in self._systems}
            if None in chunk.values():
                break
            self.update({system: results or [] for system, results in chunk.items()})
        return self.why

    def _check(self, systems: Sequence[str], compared: Sequence[str]) -> None:
        if self._against is None:
            raise BadSettings(
                f"stop_when: {self.rule.text}: there is no baseline",
                hint="name one: baseline: SYSTEM, RUN or RUN#SYSTEM",
            )
        if not compared:
            raise BadSettings(f"stop_when: {self.rule.text}: the baseline {self._against} is the only system")
        if self._against not in systems and not self._stored:
            raise NotFound(f"stop_when: there is no baseline {self._against!r}", hint=f"systems: {', '.join(systems)}")

    def _bounds(self, metric: Metric) -> tuple[float, float]:
        low, high = metric.bounds or (0.0, 1.0)
        return (low - high, high - low) if self.rule.watches == "differences" else (low, high)

    def update(self, chunk: Mapping[str, Sequence[Result]]) -> str | None:
        """Take in one chunk's results, by system; why judging may stop now, None while it must go on."""
        if self.why is None:
            self.chunks += 1
            for row in chain.from_iterable(chunk.values()):
                if row.verdict and is_chosen(row.query_id, self._share, self._seed):
                    self._asked += 1
                    self._calls += row.evaluation.calls + row.evaluation.cache_hits
            for (system, metric), sequence in self._sequences.items():
                rows = self._rows(chunk, system, metric)
                if isinstance(sequence, CorrectedSequence):
                    sequence.update(rows)
                else:
                    sequence.update([score for score, *_ in rows if score is not None])
            self.why = self.rule.why_stop({self._label(*key): one for key, one in self._sequences.items()})
        return self.why

    def labelled(self, rows: Mapping[str, Sequence[Sample]]) -> dict[str, dict[str, LabelCount]]:
        """How many of the run's rows, by system, are to have a label of each metric that is watched, if any has one.

        Raises BadSettings where they are too few to correct it.
        """
        counts: dict[str, dict[str, LabelCount]] = {}
        responses = (sample.response for samples in rows.values() for sample in samples)
        if self._share is None and not any(response.reference_labels for response in responses if response):
            return counts
        results = {
            system: [
                Result(
                    query_id=sample.query_id,
                    system=system,
                    query=sample.query,
                    reference_labels=sample.response.reference_labels if sample.response else {},
                )
                for sample in samples
            ]
            for system, samples in rows.items()
        }
        for system, metric in self._sequences:
            every = self._rows(results, system, metric)
            labels = sum(expected for *_, expected in every)
            if 0 < labels < FEWEST_LABELS:
                raise BadSettings(
                    f"stop_when: {self._label(system, metric)} is to have {labels} labels, "
                    f"and a corrected figure needs {FEWEST_LABELS}",
                    hint="take more rows, label more of them or have the model judge a larger share; or leave the rule out",
                )
            if labels:
                counts.setdefault(system, {})[metric] = LabelCount(labels=labels, rows=len(every))
        return counts

    def _rows(
        self, chunk: Mapping[str, Sequence[Result]], system: str, metric: str
    ) -> list[tuple[float | None, float | None, bool]]:
        """Of each row its score, its label, and whether it is to have one; or their differences from the baseline's."""
        if self.rule.watches == "scores":
            return [
                (_score(row, metric), row.reference_labels.get(metric), self._expects(row, metric))
                for row in chunk[system]
            ]
        stored = self._against is None or self._against not in chunk
        pairs = self._baseline.match(chunk[system]) if stored else match(chunk[system], chunk[self._against or ""])
        return [
            (
                _difference(_score(row, metric), _score(other, metric)),
                _difference(row.reference_labels.get(metric), other.reference_labels.get(metric)),
                self._expects(row, metric)
                and (metric in other.reference_labels if stored else self._expects(other, metric)),
            )
            for row, other in pairs
        ]

    def _expects(self, row: Result, metric: str) -> bool:
        if self._share is None:
            return metric in row.reference_labels
        return metric in self._judged and is_chosen(row.query_id, self._share, self._seed)

    @property
    def calls_of_a_row(self) -> float:
        """How many judge calls a judged row took so far, on average."""
        return self._calls / max(self._asked, 1)

    def _label(self, system: str, metric: str) -> str:
        only = len({name for name, _ in self._sequences}) == 1 and self.rule.watches == "scores"
        against = f" - {self._against}" if self.rule.watches == "differences" else ""
        name = metric if only else f"{metric} of {system}{against}"
        sequence = self._sequences[system, metric]
        return f"{name} by {sequence.labels} {self._corrected_by}" if isinstance(sequence, CorrectedSequence) else name

    @property
    def intervals(self) -> dict[str, dict[str, Interval]]:
        """By system and metric: the interval now, of the mean or of the difference, which holds although one stopped."""
        intervals: dict[str, dict[str, Interval]] = {}
        for (system, metric), sequence in self._sequences.items():
            intervals.setdefault(system, {})[metric] = sequence.interval
        return intervals

    @property
    def labels(self) -> dict[str, dict[str, int]]:
        """By system and metric, how many labels corrected an interval."""
        labels: dict[str, dict[str, int]] = {}
        for (system, metric), sequence in self._sequences.items():
            if isinstance(sequence, CorrectedSequence):
                labels.setdefault(system, {})[metric] = sequence.labels
        return labels


def _watched(names: Sequence[str], metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that the rule names; without names, all those that the judge's verdict gives."""
    computed = {metric.name: metric for metric in metrics}
    watched = [parse(name, computed) for name in names] or [metric for metric in metrics if metric.sees == "Verdict"]
    if not watched:
        raise BadSettings("stop_when: no judged metric is computed, so nothing would be saved")
    for metric in watched:
        if metric.name not in computed:
            raise BadSettings(f"stop_when: {metric.name} is not computed", hint=f"computed: {', '.join(computed)}")
        if metric.bounds is None:
            raise BadSettings(f"stop_when: {metric.name} has no least and greatest value, so it can't be watched")
    return watched


def _score(row: Result, metric: str) -> float | None:
    return row.scores[metric].value if metric in row.scores else None


def _difference(own: float | None, other: float | None) -> float | None:
    return None if own is None or other is None else own - other


def baseline_rows(report: Report, system: str | None) -> Sequence[Result]:
    """The rows of a stored report's system, or of its only one; raises NotFound, and BadSettings when it has several."""
    if system is None and len(report.systems) > 1:
        names = ", ".join(report.systems)
        raise BadSettings(f"run {report.run.id} has several systems", hint=f"name one, such as RUN#SYSTEM: {names}")
    if system is not None and system not in report.systems:
        raise NotFound(f"{report.run.id} has no system {system!r}", hint=f"it has: {', '.join(report.systems)}")
    return report.systems[system or next(iter(report.systems))].results
