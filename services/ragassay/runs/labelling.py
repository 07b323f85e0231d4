"""Which rows of a run people label next, and what their labels tell so far.

Rows come in one random order. The labelled rows at its beginning are a random part of all: they correct the mean. Between
them come rows that were chosen, from the last third of that order, where a label tells most of the judge: judges are
divided, or the score is near the bound at which a decision turns. Which group of rows a chosen one comes from depends on
the judge and on how many have a label, never on what people say, and within a group rows come in the random order. So the
labelled rows of a group are a random part of it, and with a weight for each group all labels stand for all rows: that is
what measures and calibrates the judge.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

import numpy as np
import orjson

from ragassay.errors import BadData, NothingToEvaluate, UnknownName
from ragassay.judges.agreement import FROM, Agreement, LabelledScore, agreement
from ragassay.metrics import parse
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.models import Result, Sample, Verdict
from ragassay.runs.labels import CHOSEN, RANDOM
from ragassay.specification import JobSpec
from ragassay.stats import CorrectedMean
from ragassay.stats.columns import is_constant
from ragassay.stats.ppi import FEWEST_LABELS, corrected_mean, needed_labels, planned_labels
from ragassay.store.labels import HumanLabel
from ragassay.validation import shown

Doubt = Literal["the judges are divided", "the score is near a bound", ""]
Pick = Literal["both", "random", "chosen"]

QUESTIONS = {
    "faithfulness": "Do the contexts support what the answer says?",
    "correctness": "Does the answer agree with what is expected?",
    "completeness": "Does the answer cover the key facts?",
    "relevance": "Does the answer address the question?",
    "accurate": "Is the answer accurate?",
}
"""What people are asked, by metric: those whose meaning a person can answer at a glance."""
FEWEST_TO_STOP = 30  # with fewer labels, an interval that is narrow by luck would end the labelling
_CHOSEN_FROM = 2 / 3  # of the random order
_EVERY = 3  # of so many labels one is of a row that was chosen
_BINS, _NEAR = 5, 0.1
_TELLS: dict[Doubt, int] = {
    "the judges are divided": 4,
    "the score is near a bound": 2,
    "": 1,
}  # how much sooner such rows come


@dataclass(frozen=True, slots=True)
class _RowToLabel:
    """A row that can be labelled. ``certain``: the judge's chance of a yes, where it gives one, else the score."""

    place: int
    score: float
    certain: float
    doubt: Doubt
    group: tuple[Doubt, int]


@dataclass(frozen=True, slots=True)
class NextRow:
    """The row to label next, and how it was drawn."""

    query_id: str
    drawn: str


@dataclass(frozen=True)
class LabelProgress:
    """What the labels of one system and metric tell so far.

    ``rows`` have a score and can be labelled, ``unscored`` have none. ``at_random`` labels correct the ``mean``; those and
    ``chosen`` ones, with weights, are in ``agreement``, which is None without any. ``more``: how many more random labels an
    interval of ``half_width`` is likely to take, 0 where it is that narrow, None where not even all rows are enough.
    """

    rows: int
    unscored: int
    skipped: int
    at_random: int
    chosen: int
    mean: CorrectedMean
    agreement: Agreement | None
    half_width: float
    more: int | None

    @property
    def labelled(self) -> int:
        """All labels that count."""
        return self.at_random + self.chosen


class Labelling:
    """One system's rows of a run, as people label them for one metric.

    ``dataset`` is the digest of the dataset: the order is that of the queries, the same for each system and run of it, so
    that two systems get labels on the same queries.
    """

    def __init__(self, rows: Iterable[Result], metric: str, spec: JobSpec, dataset: str) -> None:
        self.metric, self._spec = metric, spec
        bounds = _bounds(metric, spec.accurate)
        scored: dict[str, _RowToLabel] = {}
        self._unscored = 0
        for place, result in enumerate(rows):
            row = _row(place, result, metric, bounds)
            if row is None:
                self._unscored += 1
            else:
                scored[result.query_id] = row
        self._rows = {
            query: scored[query]
            for query in sorted(scored, key=lambda query: hashlib.sha256(f"{dataset}\0{query}".encode()).digest())
        }
        self._sizes = Counter(row.group for row in self._rows.values())
        self._reserve = list(self._rows)[int(len(self._rows) * _CHOSEN_FROM) :]

    def __contains__(self, query_id: str) -> bool:
        return query_id in self._rows

    def place(self, query_id: str) -> int:
        """Where a row stands among all of its system."""
        return self._rows[query_id].place

    def doubt(self, query_id: str) -> Doubt:
        """Why a label of a row tells more than of others."""
        return self._rows[query_id].doubt

    def next(self, said: Mapping[str, HumanLabel], pick: Pick = "both") -> NextRow | None:
        """The row to label next, ``said`` being what people said of others; None where all were shown."""
        if pick == "chosen" or (pick == "both" and len(said) % _EVERY == _EVERY - 1):
            chosen = self._chosen(said)
            if chosen is not None:
                return NextRow(chosen, CHOSEN)
        query = next((query for query in self._rows if query not in said), None)
        return None if query is None else NextRow(query, RANDOM)

    def _chosen(self, said: Mapping[str, HumanLabel]) -> str | None:
        """The next row of the group that has fewest labels for what they tell there (highest averages)."""
        held = Counter(row.group for query, row in self._rows.items() if query in said)
        left: dict[tuple[Doubt, int], str] = {}
        for query in self._reserve:
            if query not in said:
                left.setdefault(self._rows[query].group, query)
        if not left:
            return None
        return left[max(left, key=lambda group: _TELLS[group[0]] * self._sizes[group] / (held[group] + 1))]

    def random_part(self, said: Mapping[str, HumanLabel]) -> list[str]:
        """The rows at the beginning of the random order that were labelled or skipped, up to the first that was not."""
        return list(takewhile(said.__contains__, self._rows))

    def labelled(self, said: Mapping[str, HumanLabel]) -> Iterator[tuple[str, float, str, float]]:
        """Of each label the row, the value, how the row was drawn, and how many rows of its group it stands for."""
        random = set(self.random_part(said))
        given = {query: one.value for query, one in said.items() if one.value is not None and query in self._rows}
        held = Counter(self._rows[query].group for query in given)
        for query, value in given.items():
            group = self._rows[query].group
            yield query, value, RANDOM if query in random else CHOSEN, self._sizes[group] / held[group]

    def progress(self, said: Mapping[str, HumanLabel], half_width: float) -> LabelProgress:
        """What they tell so far."""
        given = list(self.labelled(said))
        mean, more = self.mean(said, half_width)
        return LabelProgress(
            rows=len(self._rows),
            unscored=self._unscored,
            skipped=sum(one.value is None and query in self._rows for query, one in said.items()),
            at_random=mean.labels,
            chosen=len(given) - mean.labels,
            mean=mean,
            agreement=self._agreement(given),
            half_width=half_width,
            more=more,
        )

    def mean(self, said: Mapping[str, HumanLabel], half_width: float) -> tuple[CorrectedMean, int | None]:
        """The mean as the random labels correct it, and how many more it takes (``more`` in ``LabelProgress``)."""
        values = ((query, said[query].value) for query in self.random_part(said))
        random = {query: value for query, value in values if value is not None}
        y = np.array(list(random.values()))
        f = np.array([self._rows[query].score for query in random])
        others = np.array([row.score for query, row in self._rows.items() if query not in random])
        mean = corrected_mean(y, f, others, bounds=(0.0, 1.0), level=self._spec.confidence)
        return mean, _more(mean, y, f, half_width, self._spec.confidence)

    def _agreement(self, given: Iterable[tuple[str, float, str, float]]) -> Agreement | None:
        scores = [
            LabelledScore(int(value >= FROM), self._rows[query].certain, query, query, weight=weight)
            for query, value, _, weight in given
        ]
        with suppress(NothingToEvaluate):
            return agreement(scores, level=self._spec.confidence, seed=self._spec.seed)
        return None


def _bounds(metric: str, rule: str) -> dict[str, float]:
    """Where a decision turns: by judged metric, what the rule of ``accurate`` asks of it, else one half."""
    bounds: dict[str, float] = {}
    with suppress(UnknownName):  # a rule that reads metrics of the user's own
        conditions = [one for alternative in AccuracyRule.parse(rule).alternatives for one in alternative]
        bounds = {one.metric: one.bound for one in conditions if parse(one.metric).sees == "Verdict"}
    return bounds if metric == "accurate" else {metric: bounds.get(metric, FROM)}


def _row(place: int, result: Result, metric: str, bounds: Mapping[str, float]) -> _RowToLabel | None:
    score = result.scores.get(metric)
    if score is None or score.value is None or result.answer is None:
        return None
    chances = result.verdict.probability if result.verdict else {}
    certain = chances.get(metric, score.value)
    doubt: Doubt = ""
    for name, bound in bounds.items():
        own = result.scores[name].value if name in result.scores else None
        if len({value >= bound for value in _judges(result, name, own)}) > 1:
            doubt = "the judges are divided"
        elif not doubt and own is not None and abs(chances.get(name, own) - bound) <= _NEAR:
            doubt = "the score is near a bound"
    return _RowToLabel(place, score.value, certain, doubt, (doubt, min(int(certain * _BINS), _BINS - 1)))


def _judges(result: Result, metric: str, score: float | None) -> Iterator[float]:
    """What each who judged the row makes of it: the judge, the members of a jury, a judge that is trusted more."""
    function = parse(metric)
    verdicts: list[Verdict] = [one.verdict for one in result.members.values() if one.verdict]
    of_members = (function.function(verdict, **function.arguments).value for verdict in verdicts)
    of_reference = result.reference_labels.get(metric)
    yield from (value for value in (score, of_reference, *of_members) if value is not None)


def _more(mean: CorrectedMean, y: Any, f: Any, half_width: float, level: float) -> int | None:
    n, rows = mean.labels, mean.rows
    width = mean.interval.width
    if n >= FEWEST_TO_STOP and width is not None and width <= 2 * half_width:
        return 0
    if n < FEWEST_LABELS or is_constant(y, 1.0):  # as if one at either end came: the least that is known of the spread
        needed = needed_labels(half_width, float(np.std([*y, 0.0, 1.0], ddof=1)), 0.0, rows, level=level)
    else:
        needed = planned_labels(y, f, rows, half_width, level=level).with_judge
    return None if needed is None else max(min(FEWEST_TO_STOP, rows) - n, needed - n, 1)


def latest(labels: Iterable[HumanLabel], system: str, metric: str) -> dict[str, HumanLabel]:
    """By query, the last that was said of a system's answers for a metric."""
    return {one.query_id: one for one in labels if (one.system, one.metric) == (system, metric)}


def exported(
    labelling: Labelling, said: Mapping[str, HumanLabel], samples: Mapping[str, Sample | None]
) -> Iterator[dict[str, Any]]:
    """The labels as ``evaluate --labels``, ``judge agreement`` and ``judge calibrate`` read them, a row each."""
    for query, value, drawn, weight in labelling.labelled(said):
        sample, label = samples[query], said[query]
        row: dict[str, Any] = {"query_id": query, "system": label.system, "label": value, labelling.metric: value}
        if sample is not None:
            row |= sample.model_dump(
                mode="json", include={"query", "ground_truth_answer", "key_facts"}, exclude_defaults=True
            )
            row |= {"answer": sample.answer, "contexts": sample.contexts}
        row |= {"drawn": drawn, "weight": round(weight, 6), "by": label.by, "at": label.at}
        yield {name: given for name, given in row.items() if given is not None}


def imported(content: bytes, labelling: Labelling, system: str, by: str, at: str) -> list[HumanLabel]:
    """The labels in lines that ``exported`` made, or with ``query_id`` and a column of the metric or ``label``.

    ``by`` and ``at`` stand for whom and when where a line names none. Raises BadData with what is wrong in each line.
    """
    labels, problems = [], []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            labels.append(_imported(orjson.loads(line), labelling, system, by, at))
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(f"line {number}: {error}")
    if problems or not labels:
        raise BadData(
            problems or ["there is no label in it"], hint="a JSON object in each line, as the export has them"
        )
    return labels


def _imported(row: dict[str, Any], labelling: Labelling, system: str, by: str, at: str) -> HumanLabel:
    if not isinstance(row, dict):
        raise TypeError("is no JSON object")
    query, about = str(row.get("query_id", "")), row.get("system", system)
    if about != system:
        raise ValueError(f"is about the system {shown(about)}, not {system}")
    if query not in labelling:
        raise ValueError(f"there is no row {shown(query)} with a score of {labelling.metric}")
    value = row.get(labelling.metric, row.get("label"))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{labelling.metric} should lie between 0 and 1, is {shown(value)}")
    who, when = str(row.get("by") or by), str(row.get("at") or at)
    return HumanLabel(system=system, query_id=query, metric=labelling.metric, value=value, by=who[:80], at=when[:40])
