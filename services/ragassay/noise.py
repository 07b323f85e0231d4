"""How far a judge's scores are its own noise: the judgings that rows hold, and what variance they show."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence

from ragassay.data.dataset import plain_text
from ragassay.metrics import Metric
from ragassay.metrics.judged import is_judged
from ragassay.models import Result, Score
from ragassay.specification import JobSpec
from ragassay.stats import VarianceSplit, variance_split

_KEY = "judgings"


def averaged(of: Sequence[Score]) -> Score:
    """The first of a row's scores, one for each judging, with their mean as its value; without one, it stays without."""
    values = [score.value for score in of if score.value is not None]
    if of[0].value is None:
        return of[0]
    return with_judgings(of[0].model_copy(update={"value": math.fsum(values) / len(values)}), of)


def majority(of: Sequence[Score]) -> Score:
    """Of a row's scores that are 1 or 0, one for each judging, the first that says what most say; of two halves, the first."""
    known = [score for score in of if score.value is not None]
    if of[0].value is None:
        return of[0]
    yes = sum(score.value == 1.0 for score in known)
    said = of[0].value if 2 * yes == len(known) else float(2 * yes > len(known))
    return with_judgings(next(score for score in known if score.value == said), of)


def with_judgings(score: Score, of: Sequence[Score]) -> Score:
    """A row's score with what it would be by each judging alone, in ``details``."""
    values = [one.value for one in of if one.value is not None]
    if score.value is None or not values:
        return score
    return score.model_copy(update={"details": {**(score.details or {}), _KEY: values}})


def judgings(score: Score) -> tuple[float, ...]:
    """What the score would be by each judging alone; none where the judge was asked once."""
    return tuple((score.details or {}).get(_KEY, ())) if score.value is not None else ()


class JudgingCount:
    """The judgings of a system's judged metrics, gathered from its rows in one pass; nothing where ``repeat`` is 1.

    Rows that ask the same and have the same ground truth are several answers to one query; where all rows do, what they
    ask is an instruction, and each is a query of its own.
    """

    def __init__(self, metrics: Iterable[Metric], spec: JobSpec) -> None:
        self._metrics = {one.name: one for one in metrics if is_judged(one)} if spec.repeat > 1 else {}
        self._spec = spec
        self._queries: dict[tuple[str, ...], int] = {}
        self._values = {name: array("d") for name in self._metrics}
        self._sizes = {name: array("i") for name in self._metrics}
        self._query_of = {name: array("i") for name in self._metrics}

    def counting(self, rows: Iterable[Result]) -> Iterator[Result]:
        """The same rows, taken in as they pass."""
        for row in rows:
            if self._metrics:
                asked = (plain_text(row.query), *row.ground_truth_answer)
                query = self._queries.setdefault(asked, len(self._queries))
                for name in self._metrics:
                    self._add(name, row.scores[name], query)
            yield row

    def _add(self, name: str, score: Score, query: int) -> None:
        if score.value is None:
            return
        values = judgings(score) or (score.value,)
        self._values[name].extend(values)
        self._sizes[name].append(len(values))
        self._query_of[name].append(query)

    def split(self, name: str) -> VarianceSplit | None:
        """What a metric's variance is made of; None where it was not to be measured."""
        if name not in self._metrics:
            return None
        sizes, queries = self._sizes[name], self._query_of[name]
        return variance_split(
            self._values[name],
            sizes,
            queries if len(self._queries) > 1 else range(len(sizes)),
            averaged=not self._metrics[name].share,
            exact=self._spec.judge == "local",
            level=self._spec.confidence,
            seed=self._spec.seed,
        )


def judge_variance(rows: Sequence[Result], metric: str) -> float | None:
    """The variance of one judging about the mean of all judgings of the same answer; None where no row has two."""
    squares, free = [], 0
    for row in rows:
        values = judgings(row.scores[metric]) if metric in row.scores else ()
        if len(values) > 1:
            mean = math.fsum(values) / len(values)
            squares.append(math.fsum((value - mean) ** 2 for value in values))
            free += len(values) - 1
    return math.fsum(squares) / free if free else None
