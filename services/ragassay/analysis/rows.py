"""The rows of a system as columns, read once, and which rows of two systems are about the same query.

Everything that compares uses ``match``: comparisons and gates have one meaning of "the same query".
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ragassay.core.models import Result
from ragassay.core.report import ReferenceJudge
from ragassay.datasets.dataset import NUMBERED, plain_text
from ragassay.evaluation.groups import RowIndexes, group_value, numbered, question_key
from ragassay.metrics.judged import RIGHT_REFUSAL, UNANSWERABLE
from ragassay.metrics.metric import OPERATIONAL
from ragassay.stats.intervals import Floats, Questions
from ragassay.storage.runs import documents

NAN = float("nan")
NOT_CONCERNED = (UNANSWERABLE, RIGHT_REFUSAL)
"""How the reason ends why a score is missing that a query can't have, because it can't be answered."""
_NOT_COMPUTED = {"value": None, "reason": "was not computed"}
Row = Mapping[str, Any]
Mask = npt.NDArray[np.bool_]


class SystemRows:
    """Numbers of all rows of one system, in the dataset's order; ``results`` are the rows, for those that are shown.

    ``metrics`` and slice ``fields`` name the columns to read. A number is NaN where a row has none. ``labels``: by metric and
    place, what people or reference judges say; ``references``: by place, why a reference judge that was asked failed, None if
    it did not. ``truths``: equal if ground truth and number of relevant documents are; ``texts``: hashes of the queries without
    regard to white space.
    """

    def __init__(
        self,
        results: Sequence[Result],
        metrics: Iterable[str],
        fields: Iterable[str] = (),
    ) -> None:
        self.ids: list[str] = []
        self.texts = array("q")
        self.results, self.metrics = results, tuple(metrics)
        self.labels: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self.references: dict[int, str | None] = {}
        self.truths, self._question_keys = array("q"), array("q")
        self._scores, self._reported = array("d"), array("d")
        self._missing: dict[str, defaultdict[str, list[int]]] = {name: defaultdict(list) for name in self.metrics}
        self._slices: dict[str, defaultdict[str, list[int]]] = {field: defaultdict(list) for field in fields}
        self._matched: dict[int, MatchedRows] = {}
        for place, row in enumerate(documents(results)):
            try:
                self._add(row)
            except (KeyError, TypeError, ValueError):
                results[place]  # as a model, which says what is wrong
                raise

    def __len__(self) -> int:
        return len(self.ids)

    def _add(self, row: Row) -> None:
        """The next row, as it is in JSON."""
        place, scores = len(self), row["scores"]
        self.ids.append(row["query_id"])
        self.texts.append(hash(plain_text(row["query"])))
        self.truths.append(hash((tuple(row["ground_truth_answer"]), row["relevant"])))
        turns, conversation = [turn["content"] for turn in row.get("history", ())], row.get("conversation_id")
        self._question_keys.append(question_key(row["query"], row["ground_truth_answer"], turns, conversation))
        of_row = [scores.get(name, _NOT_COMPUTED) for name in self.metrics]
        values = [score["value"] for score in of_row]
        if None in values:
            for name, score in zip(self.metrics, of_row, strict=True):
                if score["value"] is None:
                    self._missing[name][score["reason"]].append(place)
        self._scores.extend([NAN if value is None else value for value in values])
        self._reported.extend([NAN if (value := row[name]) is None else value for name in OPERATIONAL])
        for field, places in self._slices.items():
            if (group := group_value(row, field)) is not None:
                places[group].append(place)
        if row["ratings"]:
            result = Result.model_validate(row)
            if result.by_reference_judges:
                self.references[place] = result.reference_failure
            for name, label in result.labels.items():
                self.labels[name][place] = label

    def values(self, name: str) -> Floats:
        """The scores of a metric, else what responses report of time, tokens or cost; NaN for anything else."""
        for names, values in ((self.metrics, self._scores), (OPERATIONAL, self._reported)):
            if name in names:
                return np.asarray(values).reshape(-1, len(names))[:, names.index(name)]
        return np.full(len(self), NAN)

    def missing(self, metric: str, places: RowIndexes) -> dict[str, int]:
        """How many of these rows have no score, by reason."""
        chosen, counts = np.zeros(len(self), bool), Counter[str]()
        chosen[places] = True
        for reason, rows in self._missing[metric].items():
            counts[reason] += int(chosen[rows].sum())
        return {reason: count for reason, count in sorted(counts.items()) if count}

    def concerned(self, metric: str) -> Mask:
        """Which rows could have a score: not those without one because the query can't be answered."""
        rows = np.ones(len(self), bool)
        for reason, places in self._missing.get(metric, {}).items():
            if reason.endswith(NOT_CONCERNED):
                rows[places] = False
        return rows

    def reference(self, places: RowIndexes) -> ReferenceJudge:
        """How reference judges did on these rows."""
        failures = [self.references[place] for place in places.tolist() if place in self.references]
        return ReferenceJudge.of(len(failures), Counter(failure for failure in failures if failure is not None))

    def labels_of(self, metric: str) -> Floats:
        """The label of each row."""
        values = np.full(len(self), np.nan)
        by_place = self.labels.get(metric, {})
        values[list(by_place)] = list(by_place.values())
        return values

    def questions(self, places: RowIndexes) -> Questions:
        """The number of each of these rows' question."""
        return numbered(np.asarray(self._question_keys)[places])

    def matched(self, other: SystemRows) -> MatchedRows:
        """These rows and those of another system that are about the same queries; found once."""
        if id(other) not in self._matched:
            in_a, in_b = match(self, other)
            self._matched[id(other)] = MatchedRows(self, other, in_a, in_b, self.questions(in_a))
        return self._matched[id(other)]

    def places(self, slice_: str | None) -> RowIndexes:
        """The places of the rows in a slice such as ``category=factual``; of all rows."""
        if slice_ is None:
            return np.arange(len(self))
        field, _, value = slice_.partition("=")
        return np.array(self._slices[field].get(value, ()), int)

    def slices(self, field: str) -> Mapping[str, Sequence[int]]:
        """The places of the rows by each value of a field, in the order of the values."""
        return dict(sorted(self._slices[field].items()))


@dataclass(frozen=True)
class MatchedRows:
    """Rows of ``a`` and of ``b`` about the same queries: the places of each pair, and the number of its question."""

    a: SystemRows
    b: SystemRows
    in_a: RowIndexes
    in_b: RowIndexes
    questions: Questions

    def __len__(self) -> int:
        return len(self.in_a)

    def only(self, chosen: Mask) -> MatchedRows:
        """Some of the pairs."""
        questions = None if self.questions is None else self.questions[chosen]
        return replace(self, in_a=self.in_a[chosen], in_b=self.in_b[chosen], questions=questions)

    def values(self, name: str) -> tuple[Floats, Floats]:
        """``SystemRows.values`` of both sides."""
        return self.a.values(name)[self.in_a], self.b.values(name)[self.in_b]

    def scored(self, *names: str) -> MatchedRows:
        """The pairs that have all of these numbers on both sides."""
        known = np.ones(len(self), bool)
        for name in names:
            for column in self.values(name):
                known &= np.isfinite(column)
        return self.only(known)

    def labels(self, metric: str) -> Floats | None:
        """What labels say of b - a, NaN where a side has none; None if no row has one."""
        if metric not in self.a.labels and metric not in self.b.labels:
            return None
        return self.b.labels_of(metric)[self.in_b] - self.a.labels_of(metric)[self.in_a]

    def too_many_failed(self, limit: float) -> str | None:
        """Why labels of reference judges correct nothing: one failed on more than a share ``limit`` of its rows."""
        judges = self.a.reference(self.in_a), self.b.reference(self.in_b)
        return next(filter(None, (judge.too_many_failed(limit) for judge in judges)), None)


def match(a: SystemRows, b: SystemRows) -> tuple[RowIndexes, RowIndexes]:
    """Places in ``a`` and in ``b`` of each query that both have, in the order of ``a``.

    The same query is the same id and, white space aside, the same text. An id that only numbers the row means
    another row in another file: rows with such an id that are left match on text alone, where one row on either side has it.
    """
    by_id = {query_id: place for place, query_id in enumerate(b.ids)}
    partners = {
        place: other
        for place, query_id in enumerate(a.ids)
        if (other := by_id.get(query_id)) is not None and a.texts[place] == b.texts[other]
    }
    left_a, left_b = by_text(a, partners.keys()), by_text(b, set(partners.values()))
    for text, places in left_a.items():
        others = left_b.get(text, [])
        if len(places) == len(others) == 1 and any(map(NUMBERED.fullmatch, (a.ids[places[0]], b.ids[others[0]]))):
            partners[places[0]] = others[0]
    pairs = np.array(sorted(partners.items()), np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def by_text(rows: SystemRows, without: Iterable[int]) -> dict[int, list[int]]:
    """Places by text, of all rows but some."""
    left_out, grouped = set(without), defaultdict[int, list[int]](list)
    for place, text in enumerate(rows.texts):
        if place not in left_out:
            grouped[text].append(place)
    return dict(grouped)
