"""What the pages show of documents, as texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ragassay.core.formatting import number, quantity
from ragassay.core.models import FactVerdict, Result, Sample, SentenceVerdict
from ragassay.core.report import Aggregate
from ragassay.judges.verdict import number_units
from ragassay.metrics.failures import failure as failure_of
from ragassay.reporting import failing

MOST_COLUMNS = 6
MOST_DOCUMENTS = 50


def columns(metrics: Mapping[str, Aggregate] | Sequence[str], wanted: Sequence[str] = ()) -> list[str]:
    """The metrics that a table of rows shows: accuracy and the judged ones first, then others; ``wanted`` in any case."""
    first = [name for name in ("accurate", *failing.JUDGED) if name in metrics]
    return list(dict.fromkeys([*wanted, *first, *metrics]))[: max(MOST_COLUMNS, len(wanted))]


@dataclass(frozen=True)
class Unit:
    """A sentence or fact with the judge's word on it; ``tone``: good, half, bad or none."""

    id: str
    text: str
    said: str
    tone: str
    evidence: tuple[str, ...]
    why: str


_TONES = {"supported": "good", "yes": "good", "partly": "half", "contradicted": "bad", "not_found": "bad", "no": "bad"}


def units(row: Result) -> tuple[list[Unit], list[Unit]]:
    """The sentences of the answer and the key facts, with their verdicts."""
    if row.verdict is None:
        return [], []
    return [_sentence(one) for one in row.verdict.sentences], [_fact(one) for one in row.verdict.facts]


def _sentence(one: SentenceVerdict) -> Unit:
    said = [one.support.replace("_", " ")] if one.support else []
    said += [f"ground truth: {one.truth}"] if one.truth else []
    tone = _TONES[one.support] if one.support else {"agrees": "good", "conflicts": "bad"}.get(one.truth or "", "none")
    return Unit(one.id, one.text, ", ".join(said) or "not judged", tone, one.evidence, one.why)


def _fact(one: FactVerdict) -> Unit:
    said = f"covered: {one.covered}" if one.covered else "not judged"
    return Unit(one.id, one.text, said, _TONES.get(one.covered or "", "none"), one.evidence, one.why)


def contexts(sample: Sample | None) -> list[list[tuple[str, str]]]:
    """The contexts, each as its sentences with their labels; empty where the run does not keep them."""
    if sample is None or not sample.contexts:
        return []
    cut: list[list[tuple[str, str]]] = [[] for _ in sample.contexts]
    for label, text in number_units(sample).contexts.items():
        cut[int(label[1:].partition(".")[0]) - 1].append((label, text))
    return cut


def history(row: Result) -> list[tuple[str, str, str]]:
    """The earlier turns, each with the label that evidence names it by: (label, role, text)."""
    return [(f"H{n}", turn.role, turn.content) for n, turn in enumerate(row.history, 1)]


@dataclass(frozen=True)
class RankedDocument:
    """A document with its rank in the list of each system, and its grade where it was judged."""

    id: str
    ranks: tuple[str, ...]
    grade: str
    relevant: bool


def retrieved(rows: Sequence[Result], sample: Sample | None) -> list[RankedDocument]:
    """The documents that systems retrieved for a query, and those that are relevant, the highest in any list first."""
    if not any(row.retrieved_doc_ids for row in rows):
        return []
    grades = (sample.judgments if sample else None) or {}
    lists = [{id_: rank for rank, id_ in enumerate(row.retrieved_doc_ids or (), 1)} for row in rows]
    last = max(map(len, lists)) + 1
    ids = dict.fromkeys([*(id_ for ranks in lists for id_ in ranks), *(id_ for id_ in grades if grades[id_] > 0)])
    return [
        RankedDocument(
            id_,
            tuple(str(ranks[id_]) if id_ in ranks else "not retrieved" for ranks in lists),
            f"{grades[id_]:g}" if id_ in grades else "not judged",
            grades.get(id_, 0) > 0,
        )
        for id_ in sorted(ids, key=lambda id_: min(ranks.get(id_, last) for ranks in lists))[:MOST_DOCUMENTS]
    ]


def scores(row: Result) -> list[tuple[str, str, str]]:
    """Name, value and reason of each score."""
    return [
        (name, "missing" if score.value is None else number(score.value), score.reason or "")
        for name, score in row.scores.items()
    ]


_MEASURED: dict[str, tuple[str, Callable[[Result], float | None]]] = {
    "latency": ("ms", lambda row: row.latency_ms),
    "first token": ("ms", lambda row: row.first_token_ms),
    "retrieval": ("ms", lambda row: row.retrieval_latency_ms),
    "generation": ("ms", lambda row: row.generation_latency_ms),
    "input tokens": ("", lambda row: row.input_tokens),
    "output tokens": ("", lambda row: row.output_tokens),
    "cost": ("USD", lambda row: row.cost_usd),
    "judging: calls": ("", lambda row: row.evaluation.calls or None),
    "judging: from the cache": ("", lambda row: row.evaluation.cache_hits or None),
    "judging: input tokens": ("", lambda row: row.evaluation.input_tokens or None),
    "judging: output tokens": ("", lambda row: row.evaluation.output_tokens or None),
    "judging: cost": ("USD", lambda row: row.evaluation.cost_usd or None),
}


def measured(rows: Sequence[Result]) -> list[tuple[str, tuple[str, ...]]]:
    """What the responses of each system to a query took, and judging them, as far as it is known."""
    taken = {name: [of(row) for row in rows] for name, (_, of) in _MEASURED.items()}
    return [
        (
            name,
            tuple("" if value is None else f"{quantity(value)} {_MEASURED[name][0]}".strip() for value in values),
        )
        for name, values in taken.items()
        if any(value is not None for value in values)
    ]


def failure(row: Result) -> str:
    """What went wrong with a row, in a few words; empty where nothing is known to."""
    return failing.words(failure_of(row) or "")
