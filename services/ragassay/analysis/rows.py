"""The rows of a system as columns, read once, and which rows of two systems are about the same query.

Everything that compares uses ``match``: comparisons, gates and preferences have one meaning of "the same query".
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ragassay.core.models import Result, Score
from ragassay.datasets.dataset import NUMBERED, plain_text
from ragassay.evaluation.groups import Questions, RowIndexes, numbered, question_key, slice_value
from ragassay.metrics.failures import failures
from ragassay.metrics.metric import OPERATIONAL
from ragassay.stats.intervals import Floats

NAN = float("nan")
NOT_COMPUTED = Score.absent("was not computed", "no_input")


class ScoreColumn:
    """The scores of one metric: each row's value, NaN if it has none, and the reason for that."""

    def __init__(self) -> None:
        self._values, self._reasons = array("d"), dict[str, list[int]]()

    def add(self, score: Score) -> None:
        """The next row's."""
        if score.value is None:
            self._reasons.setdefault(score.reason or "", []).append(len(self._values))
        self._values.append(NAN if score.value is None else score.value)

    @property
    def values(self) -> Floats:
        """Shape (rows,)."""
        return np.asarray(self._values)

    def missing(self, places: RowIndexes) -> dict[str, int]:
        """How many of these rows have no score, by reason."""
        chosen = np.zeros(len(self._values), bool)
        chosen[places] = True
        counts = {reason: int(chosen[missing].sum()) for reason, missing in self._reasons.items()}
        return {reason: count for reason, count in sorted(counts.items()) if count}


class Queries:
    """What rows ask: ids, and hashes of the texts without regard to white space."""

    def __init__(self, rows: Iterable[Result] = ()) -> None:
        self.ids: list[str] = []
        self.texts = array("q")
        for row in rows:
            self.ask(row)

    def __len__(self) -> int:
        return len(self.ids)

    def ask(self, row: Result) -> None:
        """The next row."""
        self.ids.append(row.query_id)
        self.texts.append(hash(plain_text(row.query)))


class SystemRows(Queries):
    """Numbers of all rows of one system, in the dataset's order; ``results`` are the rows, for those that are shown.

    ``metrics`` and slice ``fields`` name the columns to read. A number is NaN where a row has none. ``labels``: by metric and
    place, what people or reference judges say. ``truths``: equal if ground truth and number of relevant documents are.
    ``failures`` has up to ``examples`` rows for each cause.
    """

    def __init__(
        self, results: Sequence[Result], metrics: Iterable[str], fields: Iterable[str] = (), *, examples: int = 0
    ) -> None:
        super().__init__()
        self.results = results
        self.scores = {name: ScoreColumn() for name in metrics}
        self.measured = {name: array("d") for name in OPERATIONAL}
        self.labels: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self.truths, self._question_keys = array("q"), array("q")
        self._slices: dict[str, defaultdict[str, list[int]]] = {field: defaultdict(list) for field in fields}
        self.failures = failures(map(self._added, results), examples=examples)

    def _added(self, row: Result) -> Result:
        place = len(self)
        self.ask(row)
        self.truths.append(hash((row.ground_truth_answer, row.relevant)))
        self._question_keys.append(question_key(row))
        for name, scores in self.scores.items():
            scores.add(row.scores.get(name, NOT_COMPUTED))
        for name, column in self.measured.items():
            column.append(NAN if (value := getattr(row, name)) is None else value)
        for name in {name for rating in row.ratings if rating.role == "reference" for name in rating.scores}:
            self.labels[name][place] = row.label(name) or 0.0
        for field, places in self._slices.items():
            if (of_row := slice_value(row, field)) is not None:
                places[of_row].append(place)
        return row

    def values(self, name: str) -> Floats:
        """The scores of a metric, or what responses report of time, tokens or cost."""
        return self.scores[name].values if name in self.scores else np.asarray(self.measured[name])

    def labels_of(self, metric: str) -> Floats:
        """The label of each row."""
        values = np.full(len(self), np.nan)
        by_place = self.labels.get(metric, {})
        values[list(by_place)] = list(by_place.values())
        return values

    def questions(self, places: RowIndexes) -> Questions:
        """The number of each of these rows' question."""
        return numbered(np.asarray(self._question_keys)[places].tolist())

    def slices(self, field: str) -> Mapping[str, Sequence[int]]:
        """The places of the rows by each value of a field, in the order of the values."""
        return dict(sorted(self._slices[field].items()))


def match(a: Queries, b: Queries) -> tuple[RowIndexes, RowIndexes]:
    """Places in ``a`` and in ``b`` of each query that both have, in the order of ``a``.

    The same query is the same id and, white space aside, the same text. An id that only numbers the row tells nothing
    in another file: rows with such an id that are left match on text alone, where one row on either side has it.
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


def by_text(queries: Queries, without: Iterable[int]) -> dict[int, list[int]]:
    """Places by text, of all rows but some."""
    left_out, grouped = set(without), defaultdict[int, list[int]](list)
    for place, text in enumerate(queries.texts):
        if place not in left_out:
            grouped[text].append(place)
    return dict(grouped)
