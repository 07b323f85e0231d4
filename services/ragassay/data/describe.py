"""What is in a dataset, before any of it is scored: counts, gaps, duplicates, and what can be computed at all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from ragassay.data.dataset import Dataset
from ragassay.data.mapping import RESPONSE_FIELDS, SAMPLE_FIELDS
from ragassay.models import FrozenModel, Sample
from ragassay.render import listed

Lacks = Callable[[Sample], str | None]
"""Why a metric has no score for a sample, for want of input; None when it has all it needs."""

_UNSET = {name: field.default for name, field in Sample.model_fields.items()}


class Range(FrozenModel):
    """Mean and extremes over the ``n`` rows that have a value."""

    n: int
    mean: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Range | None:
        """None without a value."""
        numbers = list(values)
        if not numbers:
            return None
        return cls(n=len(numbers), mean=sum(numbers) / len(numbers), min=min(numbers), max=max(numbers))


class RepeatedQuery(FrozenModel):
    """A query that several rows ask, whatever its case and spacing."""

    query: str
    query_ids: tuple[str, ...]


class Computable(FrozenModel):
    """How many rows have what a metric needs, and what the others lack: {reason: rows}."""

    metric: str
    rows: int
    lacking: dict[str, int]


class Description(FrozenModel):
    """A dataset in numbers. Lengths are in words; ``fields`` counts the rows in which a field has a value."""

    name: str
    path: str
    digest: str
    description: str | None
    rows: int
    responses: int
    mapped: dict[str, str]
    kept_as_metadata: tuple[str, ...]
    fields: dict[str, int]
    categories: dict[str, int]
    difficulties: dict[str, int]
    repeated_queries: tuple[RepeatedQuery, ...]
    relevant_per_query: Range | None
    retrieved_per_query: Range | None
    contexts_per_query: Range | None
    words: dict[str, Range]
    metrics: tuple[Computable, ...]
    warnings: tuple[str, ...]


def describe(dataset: Dataset, metrics: Mapping[str, Lacks] | None = None) -> Description:
    """Describe a dataset. ``metrics`` is {metric name: why a sample lacks its input, or None}."""
    samples = dataset.samples
    relevant = [sum(g > 0 for g in s.judgments.values()) for s in samples if s.judgments is not None]
    return Description(
        name=dataset.name,
        path=str(dataset.path),
        digest=dataset.digest,
        description=dataset.description,
        rows=len(samples),
        responses=sum(s.response is not None for s in samples),
        mapped=dict(dataset.mapped),
        kept_as_metadata=dataset.kept,
        fields=_filled(samples),
        categories=_table(s.category for s in samples),
        difficulties=_table(s.difficulty for s in samples),
        repeated_queries=_repeated(samples),
        relevant_per_query=Range.of(relevant),
        retrieved_per_query=Range.of(len(s.retrieved_doc_ids) for s in samples if s.retrieved_doc_ids is not None),
        contexts_per_query=Range.of(len(s.contexts) for s in samples if s.contexts is not None),
        words=_words(samples),
        metrics=tuple(_computable(name, lacks, samples) for name, lacks in (metrics or {}).items()),
        warnings=(*dataset.warnings, *_doubts(samples)),
    )


def _filled(samples: Iterable[Sample]) -> dict[str, int]:
    """Rows with a value, for each field that any row has. An empty list of judgments or documents is a value."""
    counts: Counter[str] = Counter()
    for sample in samples:
        counts.update(name for name in (*SAMPLE_FIELDS, "metadata") if getattr(sample, name) != _UNSET[name])
        if sample.response is not None:
            counts.update(name for name in RESPONSE_FIELDS if getattr(sample.response, name) is not None)
    order = (*SAMPLE_FIELDS, *RESPONSE_FIELDS, "metadata")
    return {name: counts[name] for name in order if counts[name]}


def _table(labels: Iterable[str | None]) -> dict[str, int]:
    """Rows per label, the most frequent first; rows without one are not in it."""
    return dict(sorted(Counter(x for x in labels if x is not None).items(), key=lambda item: (-item[1], item[0])))


def _repeated(samples: Iterable[Sample]) -> tuple[RepeatedQuery, ...]:
    asked: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        asked[" ".join(sample.query.casefold().split())].append(sample)
    return tuple(
        RepeatedQuery(query=same[0].query, query_ids=tuple(s.query_id for s in same))
        for same in asked.values()
        if len(same) > 1
    )


def _words(samples: Iterable[Sample]) -> dict[str, Range]:
    lengths: defaultdict[str, list[int]] = defaultdict(list)
    for sample in samples:
        lengths["query"].append(len(sample.query.split()))
        lengths["ground_truth_answer"] += [len(text.split()) for text in sample.ground_truth_answer]
        lengths["contexts"] += [len(text.split()) for text in sample.contexts or ()]
        if sample.answer is not None:
            lengths["answer"].append(len(sample.answer.split()))
    return {name: words for name, counts in lengths.items() if (words := Range.of(counts))}


def _computable(name: str, lacks: Lacks, samples: Iterable[Sample]) -> Computable:
    reasons = [lacks(sample) for sample in samples]
    lacking = Counter(reason for reason in reasons if reason is not None)
    return Computable(metric=name, rows=reasons.count(None), lacking=dict(lacking.most_common()))


def _doubts(samples: tuple[Sample, ...]) -> list[str]:
    """What can be read and is still not likely to be meant."""
    judged = [(s, s.judgments) for s in samples if s.judgments is not None]
    retrieved = [(s, set(s.retrieved_doc_ids), j) for s, j in judged if s.retrieved_doc_ids]
    doubtful = (
        (
            [s for s, j in judged if not any(grade > 0 for grade in j.values())],
            "have judgments that name no relevant document; retrieval metrics are 0 there",
        ),
        (
            [s for s, j in judged if any(grade < 0 for grade in j.values())],
            "have negative grades, which count as 0",
        ),
        (
            [s for s in samples if s.primary_relevant is not None and not (s.judgments or {}).get(s.primary_relevant)],
            "have a primary_relevant that is not among the relevant documents",
        ),
        (
            [s for s in samples if s.answer is not None and not s.answer.strip()],
            "have an empty answer",
        ),
    )
    doubts = [
        f"{len(some)} of {len(samples)} rows {what}: {listed(s.query_id for s in some)}"
        for some, what in doubtful
        if some
    ]
    if retrieved and not any(ids & j.keys() for _, ids, j in retrieved):
        doubts.append(
            f"in none of {len(retrieved)} rows is a retrieved document a judged one; are they ids of the same kind?"
        )
    return doubts
