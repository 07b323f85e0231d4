"""What is in a dataset, before any of it is scored: counts, gaps, repeated questions, and what can be computed."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ragassay.core.formatting import listed
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.text import is_answerable
from ragassay.datasets.columns import RESPONSE_FIELDS, SAMPLE_FIELDS
from ragassay.datasets.dataset import Dataset

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
    """A query that several rows ask after the same turns, whatever its case and spacing."""

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


def describe(rows: Dataset, metrics: Mapping[str, MissingInput] | None = None) -> DatasetDescription:
    """Describe rows. ``metrics`` is {metric name: why a sample lacks its input, or None}.

    Nearly the same questions are listed, among the first 5,000 different ones.
    """
    metrics = metrics or {}
    ids, queries, asked, counts = list[str](), list[str](), list[bytes](), Counter[str]()
    fields: Counter[str] = Counter()
    labels = {name: Counter[str]() for name in ("category", "difficulty", "split")}
    lengths: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
    lacking = {name: Counter[str]() for name in metrics}
    doubtful: dict[str, list[str]] = {what: [] for what in _DOUBTFUL}
    for sample in rows:
        judgments = sample.judgments
        ids.append(sample.query_id)
        queries.append(sample.query)
        asked.append(same_text("\n".join((*(turn.content for turn in sample.history), sample.query))))
        counts["response"] += sample.response is not None
        counts["generated"] += "generated" in sample.metadata
        counts["unanswerable"] += is_answerable(sample) is False
        if judgments is not None and sample.retrieved_doc_ids:
            counts["judged and retrieved"] += 1
            counts["judged document retrieved"] += not judgments.keys().isdisjoint(sample.retrieved_doc_ids)
        fields.update(_filled_fields(sample))
        for name, by_label in labels.items():
            if (label := getattr(sample, name)) is not None:
                by_label[label] += 1
        for name, length in _lengths(sample, judgments):
            lengths[name].append(length)
        for name, missing_input in metrics.items():
            if (reason := missing_input(sample)) is not None:
                lacking[name][reason] += 1
        for what, is_doubtful in _DOUBTFUL.items():
            if is_doubtful(sample, judgments):
                doubtful[what].append(sample.query_id)

    def repeated(groups: Iterable[Sequence[int]]) -> tuple[RepeatedQuery, ...]:
        return tuple(
            RepeatedQuery(query=queries[group[0]], query_ids=tuple(ids[place] for place in group)) for group in groups
        )

    ranges = {
        name: Range(n=len(values), mean=sum(values) / len(values), min=min(values), max=max(values))
        for name, values in lengths.items()
    }
    warnings = [f"{len(found)} of {len(ids)} rows {what}: {listed(found)}" for what, found in doubtful.items() if found]
    if counts["judged and retrieved"] and not counts["judged document retrieved"]:
        judged = counts["judged and retrieved"]
        warnings.append(
            f"in none of {judged} rows is a retrieved document a judged one; are they ids of the same kind?"
        )
    texts = [normalised(query) for query in queries]
    if (different := len(set(texts))) > MAX_COMPARED:
        cut = f"similar questions were looked for among the first {MAX_COMPARED:,} of {different:,} different ones"
        warnings.insert(0, cut)
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, text in enumerate(asked):
        places[text].append(place)
    return DatasetDescription(
        name=rows.name,
        path=str(rows.path),
        digest=rows.digest,
        description=rows.description,
        rows=len(ids),
        responses=counts["response"],
        fields={name: fields[name] for name in (*SAMPLE_FIELDS, *RESPONSE_FIELDS, "metadata") if fields[name]},
        categories=_by_frequency(labels["category"]),
        difficulties=_by_frequency(labels["difficulty"]),
        splits=_by_frequency(labels["split"]),
        generated=counts["generated"],
        unanswerable=counts["unanswerable"],
        repeated_queries=repeated(group for group in places.values() if len(group) > 1),
        similar_queries=repeated(
            group for group in similar_groups(texts) if len({texts[place] for place in group}) > 1
        ),
        relevant_per_query=ranges.get("relevant per query"),
        retrieved_per_query=ranges.get("retrieved per query"),
        contexts_per_query=ranges.get("contexts per query"),
        words={name: ranges[name] for name in ("query", "ground_truth_answer", "contexts", "answer") if name in ranges},
        warnings=(*rows.warnings, *warnings),
        mapped=dict(rows.mapped),
        kept_as_metadata=rows.kept,
        metrics=tuple(
            Computable(metric=name, rows=len(ids) - reasons.total(), lacking=dict(reasons.most_common()))
            for name, reasons in lacking.items()
        ),
    )


def _filled_fields(sample: Sample) -> Iterator[str]:
    """The fields that have a value in a row."""
    yield from (name for name in (*SAMPLE_FIELDS, "metadata") if getattr(sample, name) != _UNSET[name])
    if sample.response is not None:
        yield from (name for name in RESPONSE_FIELDS if getattr(sample.response, name) not in (None, {}))


def _lengths(sample: Sample, judgments: Mapping[str, float] | None) -> Iterator[tuple[str, int]]:
    """Words of the texts of a row, and how many documents and contexts it has."""
    yield "query", len(sample.query.split())
    yield from (("ground_truth_answer", len(text.split())) for text in sample.ground_truth_answer)
    yield from (("contexts", len(text.split())) for text in sample.contexts or ())
    if sample.answer is not None:
        yield "answer", len(sample.answer.split())
    if judgments is not None:
        yield "relevant per query", sum(grade > 0 for grade in judgments.values())
    for name, values in (("retrieved", sample.retrieved_doc_ids), ("contexts", sample.contexts)):
        if values is not None:
            yield f"{name} per query", len(values)


def same_text(query: str) -> bytes:
    """Equal for queries that differ in case and white space at the most."""
    return hashlib.sha256(" ".join(query.casefold().split()).encode()).digest()[:16]


def _by_frequency(rows: Counter[str]) -> dict[str, int]:
    """Rows per label, the most frequent first; rows without one are not in it."""
    return dict(sorted(rows.items(), key=lambda item: (-item[1], item[0])))


_DOUBTFUL: dict[str, Callable[[Sample, dict[str, float] | None], bool]] = {
    "have judgments that name no relevant document; retrieval metrics are 0 there": lambda _, judgments: (
        judgments is not None and not any(grade > 0 for grade in judgments.values())
    ),
    "have an empty answer": lambda sample, _: sample.answer is not None and not sample.answer.strip(),
}
"""What can be read and is still not likely to be meant."""


def normalised(text: str) -> str:
    """The words of the beginning of a text, in lower case; vowel signs and other marks belong to their word."""
    characters = (
        c if c.isalnum() or c == "_" or unicodedata.category(c)[0] == "M" else " " for c in text[:_MAX_LENGTH]
    )
    return " ".join("".join(characters).casefold().split())


def similar_groups(texts: Sequence[str], least: float = SIMILAR) -> list[list[int]]:
    """Places of normalised texts in groups of two or more, by their first place.

    Two texts whose similarity is at least ``least`` are in one group, so a group may hold two that are less similar, with
    others between them. Equal texts are always found; of more than ``MAX_COMPARED`` different ones the first are compared.
    """
    import numpy as np  # slow to import, and the API does not need it
    from scipy.sparse.csgraph import connected_components

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
    import numpy as np
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
