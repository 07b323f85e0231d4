"""What is in a dataset, before any of it is scored: counts, gaps, repeated questions, and what can be computed."""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ragassay.core.formatting import listed
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.text import is_answerable
from ragassay.datasets.columns import RESPONSE_FIELDS, SAMPLE_FIELDS
from ragassay.datasets.dataset import Rows

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SIMILAR = 0.8  # Jaccard index of the character n-grams of two questions
MAX_COMPARED = 5_000  # different questions that are compared; time grows with the square
_GRAM = 4  # characters
_MAX_LENGTH = 2_000  # characters of a question that are compared
_BLOCK = 500  # questions whose similarities to all others are in memory at once

MissingInput = Callable[[Sample], str | None]
"""Why a metric has no score for a sample, for want of input; None when it has all it needs."""

_UNSET = {name: field.get_default(call_default_factory=True) for name, field in Sample.model_fields.items()}


class Range(FrozenModel):
    """Mean and extremes over the ``n`` rows that have a value."""

    n: int
    mean: float
    min: float
    max: float


class RepeatedQuery(FrozenModel):
    """A query that several rows ask, whatever its case and spacing."""

    query: str
    query_ids: tuple[str, ...]


class Computable(FrozenModel):
    """How many rows have what a metric needs, and what the others lack: {reason: rows}."""

    metric: str
    rows: int
    lacking: dict[str, int]


class DatasetDescription(FrozenModel):
    """A dataset in numbers. Lengths are in words; ``fields`` counts the rows in which a field has a value.

    ``generated``: rows whose question was made by a program, as their metadata says; ``unanswerable``: those that have
    no answer, by their label or because their ground truth is a refusal. ``similar_queries``: questions that are nearly
    the same. ``mapped``: the columns of a file from which fields are read; ``metrics``: those that the rows allow.
    """

    name: str
    path: str
    digest: str
    description: str | None
    rows: int
    responses: int
    fields: dict[str, int]
    categories: dict[str, int]
    difficulties: dict[str, int]
    splits: dict[str, int]
    generated: int
    unanswerable: int = 0
    repeated_queries: tuple[RepeatedQuery, ...]
    similar_queries: tuple[RepeatedQuery, ...]
    relevant_per_query: Range | None
    retrieved_per_query: Range | None
    contexts_per_query: Range | None
    words: dict[str, Range]
    warnings: tuple[str, ...]
    mapped: dict[str, str]
    kept_as_metadata: tuple[str, ...]
    metrics: tuple[Computable, ...]


def describe(
    rows: Rows, metrics: Mapping[str, MissingInput] | None = None, *, similar: float = SIMILAR
) -> DatasetDescription:
    """Describe rows. ``metrics`` is {metric name: why a sample lacks its input, or None}.

    Questions with at least the similarity ``similar`` are listed, among the first 5,000 different ones.
    """
    tally, ids, queries = _Tally(metrics or {}), list[str](), list[str]()
    for sample in rows:
        tally.add(sample)
        ids.append(sample.query_id)
        queries.append(sample.query)
    texts = [normalised(query) for query in queries]
    different = len(set(texts))
    cut = [f"similar questions were looked for among the first {MAX_COMPARED:,} of {different:,} different ones"]
    return DatasetDescription(
        **tally.counts((*rows.warnings, *(cut if different > MAX_COMPARED else ()))),
        name=rows.name,
        path=str(rows.path),
        digest=rows.digest,
        description=rows.description,
        similar_queries=tuple(
            RepeatedQuery(query=queries[group[0]], query_ids=tuple(ids[place] for place in group))
            for group in similar_groups(texts, similar)
            if len({texts[place] for place in group}) > 1
        ),
        mapped=dict(rows.mapped),
        kept_as_metadata=rows.kept,
        metrics=tally.computable(),
    )


class _Tally:
    """Counts a dataset's rows as they go by. Of a row nothing is kept but its id, and a digest of its query."""

    def __init__(self, metrics: Mapping[str, MissingInput]) -> None:
        self._metrics = metrics
        self._rows = self._responses = self._generated = self._unanswerable = self._judged_and_retrieved = 0
        self._found_a_judged_one = False
        self._fields: Counter[str] = Counter()
        self._labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._ranges: defaultdict[str, _RunningRange] = defaultdict(_RunningRange)
        self._lacking: dict[str, Counter[str]] = {name: Counter() for name in metrics}
        self._first_asked: dict[bytes, str] = {}
        self._repeated: dict[bytes, tuple[str, list[str]]] = {}
        self._doubtful: dict[str, list[str]] = {what: [] for what in _DOUBTFUL}

    def add(self, sample: Sample) -> None:
        """Count a row."""
        self._rows += 1
        self._responses += sample.response is not None
        self._generated += "generated" in sample.metadata
        self._unanswerable += is_answerable(sample) is False
        self._fields.update(name for name in (*SAMPLE_FIELDS, "metadata") if getattr(sample, name) != _UNSET[name])
        if sample.response is not None:
            self._fields.update(name for name in RESPONSE_FIELDS if getattr(sample.response, name) not in (None, {}))
        for name in ("category", "difficulty", "split"):
            if (label := getattr(sample, name)) is not None:
                self._labels[name][label] += 1
        self._add_query(sample)
        self._add_lengths(sample)
        for name, lacks in self._metrics.items():
            if (reason := lacks(sample)) is not None:
                self._lacking[name][reason] += 1
        judgments, retrieved = sample.judgments, sample.retrieved_doc_ids
        if judgments is not None and retrieved:
            self._judged_and_retrieved += 1
            self._found_a_judged_one |= not judgments.keys().isdisjoint(retrieved)
        for what, is_doubtful in _DOUBTFUL.items():
            if is_doubtful(sample, judgments):
                self._doubtful[what].append(sample.query_id)

    def _add_query(self, sample: Sample) -> None:
        asked = same_text(sample.query)
        if (first := self._first_asked.setdefault(asked, sample.query_id)) != sample.query_id:
            self._repeated.setdefault(asked, (sample.query, [first]))[1].append(sample.query_id)

    def _add_lengths(self, sample: Sample) -> None:
        ranges = self._ranges
        ranges["query"].add(len(sample.query.split()))
        for text in sample.ground_truth_answer:
            ranges["ground_truth_answer"].add(len(text.split()))
        for text in sample.contexts or ():
            ranges["contexts"].add(len(text.split()))
        if sample.answer is not None:
            ranges["answer"].add(len(sample.answer.split()))
        if sample.judgments is not None:
            ranges["relevant per query"].add(sum(grade > 0 for grade in sample.judgments.values()))
        if sample.retrieved_doc_ids is not None:
            ranges["retrieved per query"].add(len(sample.retrieved_doc_ids))
        if sample.contexts is not None:
            ranges["contexts per query"].add(len(sample.contexts))

    def counts(self, warnings: Sequence[str] = ()) -> dict[str, Any]:
        """The fields of ``DatasetDescription`` that are counted; what looks wrong follows the ``warnings``."""
        ranges = {name: running.range for name, running in self._ranges.items()}
        order = (*SAMPLE_FIELDS, *RESPONSE_FIELDS, "metadata")
        texts = ("query", "ground_truth_answer", "contexts", "answer")
        return {
            "rows": self._rows,
            "responses": self._responses,
            "fields": {name: self._fields[name] for name in order if self._fields[name]},
            "categories": _table(self._labels["category"]),
            "difficulties": _table(self._labels["difficulty"]),
            "splits": _table(self._labels["split"]),
            "generated": self._generated,
            "unanswerable": self._unanswerable,
            "repeated_queries": tuple(
                RepeatedQuery(query=query, query_ids=tuple(ids)) for query, ids in self._repeated.values()
            ),
            "relevant_per_query": ranges.get("relevant per query"),
            "retrieved_per_query": ranges.get("retrieved per query"),
            "contexts_per_query": ranges.get("contexts per query"),
            "words": {name: ranges[name] for name in texts if name in ranges},
            "warnings": (*warnings, *self._doubts()),
        }

    def computable(self) -> tuple[Computable, ...]:
        """How many rows have the input of each metric."""
        return tuple(
            Computable(metric=name, rows=self._rows - lacking.total(), lacking=dict(lacking.most_common()))
            for name, lacking in self._lacking.items()
        )

    def _doubts(self) -> Iterator[str]:
        for what, ids in self._doubtful.items():
            if ids:
                yield f"{len(ids)} of {self._rows} rows {what}: {listed(ids)}"
        if self._judged_and_retrieved and not self._found_a_judged_one:
            rows = self._judged_and_retrieved
            yield f"in none of {rows} rows is a retrieved document a judged one; are they ids of the same kind?"


@dataclass
class _RunningRange:
    n: int = 0
    total: float = 0
    min: float = math.inf
    max: float = -math.inf

    def add(self, value: float) -> None:
        self.n, self.total = self.n + 1, self.total + value
        self.min, self.max = min(self.min, value), max(self.max, value)

    @property
    def range(self) -> Range:
        return Range(n=self.n, mean=self.total / self.n, min=self.min, max=self.max)


def same_text(query: str) -> bytes:
    """Equal for queries that differ in case and white space at the most."""
    return hashlib.sha256(" ".join(query.casefold().split()).encode()).digest()[:16]


def _table(rows: Counter[str]) -> dict[str, int]:
    """Rows per label, the most frequent first; rows without one are not in it."""
    return dict(sorted(rows.items(), key=lambda item: (-item[1], item[0])))


_DOUBTFUL: dict[str, Callable[[Sample, dict[str, float] | None], bool]] = {
    "have judgments that name no relevant document; retrieval metrics are 0 there": lambda _, judgments: (
        judgments is not None and not any(grade > 0 for grade in judgments.values())
    ),
    "have negative grades, which count as 0": lambda _, judgments: (
        judgments is not None and any(grade < 0 for grade in judgments.values())
    ),
    "have a primary_relevant that is not among the relevant documents": lambda sample, judgments: (
        sample.primary_relevant is not None and not (judgments or {}).get(sample.primary_relevant)
    ),
    "have an empty answer": lambda sample, _: sample.answer is not None and not sample.answer.strip(),
}
"""What can be read and is still not likely to be meant."""


def normalised(text: str) -> str:
    """The words of the beginning of a text, in lower case; vowel signs and other marks belong to their word."""
    kept = (c if c.isalnum() or c == "_" or unicodedata.category(c)[0] == "M" else " " for c in text[:_MAX_LENGTH])
    return " ".join("".join(kept).casefold().split())


def similar_groups(texts: Sequence[str], least: float = SIMILAR) -> list[list[int]]:
    """Places of normalised texts in groups of two or more, by their first place.

    Two texts whose similarity is at least ``least`` are in one group, so a group may hold two that are less similar, with
    others between them. Equal texts are always found; of more than ``MAX_COMPARED`` different ones the first are compared.
    """
    from scipy.sparse.csgraph import connected_components  # slow to import, and the API does not need it

    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(text, []).append(place)
    labels = np.arange(len(places))
    compared = list(places)[:MAX_COMPARED]
    if least < 1 and compared:
        labels[: len(compared)] = connected_components(_alike(compared, least), directed=False)[1]
        labels[len(compared) :] += len(compared)
    groups: dict[int, list[int]] = {}
    for label, same in zip(labels.tolist(), places.values(), strict=True):
        groups.setdefault(label, []).extend(same)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def _alike(texts: Sequence[str], least: float) -> csr_matrix:
    """Which texts are similar enough, shape (texts, texts)."""
    from scipy.sparse import coo_matrix, csr_matrix

    numbers: dict[str, int] = {}
    grams = [[numbers.setdefault(gram, len(numbers)) for gram in _grams(text)] for text in texts]
    sizes = np.fromiter(map(len, grams), np.int64, len(grams))
    rows = np.repeat(np.arange(len(texts)), sizes)
    ones = np.ones(len(rows), np.int32)
    matrix = csr_matrix((ones, (rows, np.concatenate(grams))), shape=(len(texts), len(numbers)))
    pairs = []
    for begin in range(0, len(texts), _BLOCK):
        shared = (matrix[begin : begin + _BLOCK] @ matrix[begin:].T).tocoo()
        one, other = shared.row + begin, shared.col + begin
        near = shared.data >= least * (sizes[one] + sizes[other] - shared.data)
        pairs.append(np.stack([one[near], other[near]]))
    one, other = np.concatenate(pairs, axis=1)
    return coo_matrix((np.ones(len(one), np.int8), (one, other)), shape=(len(texts), len(texts))).tocsr()


def _grams(text: str) -> set[str]:
    padded = text.ljust(_GRAM)
    return {padded[n : n + _GRAM] for n in range(len(padded) - _GRAM + 1)}
