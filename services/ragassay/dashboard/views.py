"""What the pages show of documents, as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragassay.core.formatting import number, percent, quantity
from ragassay.core.models import FactVerdict, Result, Sample, SentenceVerdict
from ragassay.judges.verdict import number_units
from ragassay.metrics.failures import failure as failure_of
from ragassay.reporting import failing
from ragassay.reporting.document import Bar, Cell, Figure, Table
from ragassay.reporting.listing import SystemFigure

MOST_DOCUMENTS = 50


def judged_first(metrics: Sequence[str]) -> list[str]:
    """The metrics: accuracy, those that a judge gives, then the others."""
    return sorted(metrics, key=lambda name: (name != "accurate", name not in failing.JUDGED))


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


def tables(row: Result, every: Sequence[Result], sample: Sample | None) -> Iterator[Table]:
    """The scores of a row; then what each system retrieved for the query, and what its answer took, as far as it is known."""
    scores = ((name, row.scores[name]) for name in judged_first(list(row.scores)))
    lines = [(name, "missing" if one.value is None else number(one.value), one.reason or "") for name, one in scores]
    yield Table("Scores", ("metric", "score", "why"), tuple(lines))
    if any(one.retrieved_doc_ids for one in every):
        yield _retrieved(every, (sample.judgments if sample else None) or {})
    if taken := tuple(_measured(every)):
        yield Table("Measured", ("", *(one.system for one in every)), taken)


def _retrieved(rows: Sequence[Result], grades: Mapping[str, float]) -> Table:
    """The documents that systems retrieved, and those that are relevant, the highest in any list first."""
    lists = [{id_: rank for rank, id_ in enumerate(row.retrieved_doc_ids or (), 1)} for row in rows]
    last = max(map(len, lists)) + 1
    ids = dict.fromkeys([*(id_ for ranks in lists for id_ in ranks), *(id_ for id_ in grades if grades[id_] > 0)])

    def cells(id_: str) -> Iterator[Cell]:
        relevant = grades.get(id_, 0) > 0
        yield id_
        yield Figure(f"{grades[id_]:g}", tone="good" if relevant else "") if id_ in grades else "not judged"
        for ranks in lists:
            yield str(ranks[id_]) if id_ in ranks else Figure("not retrieved", tone="bad" if relevant else "none")

    shown = sorted(ids, key=lambda id_: min(ranks.get(id_, last) for ranks in lists))[:MOST_DOCUMENTS]
    columns = ["rank"] if len(rows) == 1 else [f"rank, {row.system}" for row in rows]
    return Table("Retrieved", ("document", "grade", *columns), tuple(tuple(cells(id_)) for id_ in shown))


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


def _measured(rows: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """What the answers of each system to a query took, and judging them."""
    for name, (unit, of) in _MEASURED.items():
        values = [of(row) for row in rows]
        if any(value is not None for value in values):
            yield name, *("" if value is None else f"{quantity(value)} {unit}".strip() for value in values)


def failure(row: Result) -> str:
    """What went wrong with a row, in a few words; empty where nothing is known to."""
    return failing.words(failure_of(row) or "")


def figure(one: SystemFigure) -> Figure:
    """The figure of a system in the list of runs."""
    if one.value is None:
        return Figure("not scored")
    as_share = one.metric == "accurate"
    text = percent(round(one.value, 2)) if as_share else number(one.value)
    if one.low is None or one.high is None:
        return Figure(text)
    ends = [percent(round(end, 2)) if as_share else number(end, 2) for end in (one.low, one.high)]
    fits = one.low >= 0 and one.high <= 1
    bar = Bar(100 * one.value, 100 * one.low, 100 * one.high, "0 to 1") if fits else None
    return Figure(text, f"[{ends[0]}, {ends[1]}]", bar=bar)
