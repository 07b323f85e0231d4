"""What the pages show of a row and of a run in the list, as texts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from ragassay.core.formatting import number, percent, quantity
from ragassay.core.models import Result, Sample
from ragassay.judges.verdict import number_units
from ragassay.metrics.failures import failure as failure_of
from ragassay.reporting.document import Bar, Cell, Figure, Table
from ragassay.reporting.failing import JUDGED, words
from ragassay.reporting.listing import SystemFigure

MAX_DOCUMENTS = 50
_TONES = {
    **dict.fromkeys(("supported", "yes", "agrees"), "good"),
    "partly": "half",
    **dict.fromkeys(("contradicted", "not_found", "no", "conflicts"), "bad"),
}
_MEASURED = {
    "latency": (" ms", "latency_ms"),
    "first token": (" ms", "first_token_ms"),
    "retrieval": (" ms", "retrieval_latency_ms"),
    "generation": (" ms", "generation_latency_ms"),
    "input tokens": ("", "input_tokens"),
    "output tokens": ("", "output_tokens"),
    "cost": (" USD", "cost_usd"),
    "judging: calls": ("", "evaluation.calls"),
    "judging: from the cache": ("", "evaluation.cache_hits"),
    "judging: input tokens": ("", "evaluation.input_tokens"),
    "judging: output tokens": ("", "evaluation.output_tokens"),
    "judging: cost": (" USD", "evaluation.cost_usd"),
}


def judged_first(metrics: Sequence[str]) -> list[str]:
    """The metrics: accuracy, those that a judge gives, then the others."""
    return sorted(metrics, key=lambda name: (name != "accurate", name not in JUDGED))


class Unit(NamedTuple):
    """A sentence or fact with the judge's word on it; ``tone``: good, half, bad or none."""

    id: str
    text: str
    said: str
    tone: str
    evidence: tuple[str, ...]
    why: str


def units(row: Result) -> tuple[list[Unit], list[Unit]]:
    """The sentences of the answer and the key facts, with their verdicts."""
    sentences, facts = [], []
    for one in row.verdict.sentences if row.verdict else ():
        said = [one.support.replace("_", " ")] if one.support else []
        said += [f"ground truth: {one.truth}"] if one.truth else []
        tone = _TONES.get(one.support or one.truth or "", "none")
        sentences.append(Unit(one.id, one.text, ", ".join(said) or "not judged", tone, one.evidence, one.why))
    for fact in row.verdict.facts if row.verdict else ():
        covered = f"covered: {fact.covered}" if fact.covered else "not judged"
        tone = _TONES.get(fact.covered or "", "none")
        facts.append(Unit(fact.id, fact.text, covered, tone, fact.evidence, fact.why))
    return sentences, facts


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


def tables(row: Result, every: Mapping[str, Result], sample: Sample | None) -> Iterator[Table]:
    """The scores of a row; then what each system retrieved, by its name, and what its answer took, as far as it is known."""
    scores = ((name, row.scores[name]) for name in judged_first(list(row.scores)))
    lines = ((name, "missing" if one.value is None else number(one.value), one.reason or "") for name, one in scores)
    yield Table("Scores", ("metric", "score", "why"), tuple(lines))
    if any(one.retrieved_doc_ids for one in every.values()):
        yield _retrieved(every, (sample.judgments if sample else None) or {})
    taken = []
    for name, (unit, field) in _MEASURED.items():
        values = [attrgetter(field)(one) for one in every.values()]
        if any(value or (value == 0 and not name.startswith("judging")) for value in values):
            taken.append((name, *("" if value is None else f"{quantity(value)}{unit}" for value in values)))
    if taken:
        yield Table("Measured", ("", *every), tuple(taken))


def _retrieved(rows: Mapping[str, Result], grades: Mapping[str, float]) -> Table:
    """The documents that systems retrieved, and those that are relevant, the highest in any list first."""
    lists = [{id_: rank for rank, id_ in enumerate(row.retrieved_doc_ids or (), 1)} for row in rows.values()]
    last = max(map(len, lists)) + 1
    ids = dict.fromkeys([*(id_ for ranks in lists for id_ in ranks), *(id_ for id_ in grades if grades[id_] > 0)])
    shown: list[tuple[Cell, ...]] = []
    for id_ in sorted(ids, key=lambda id_: min(ranks.get(id_, last) for ranks in lists))[:MAX_DOCUMENTS]:
        good, bad = ("good", "bad") if grades.get(id_, 0) > 0 else ("", "none")
        grade = Figure(f"{grades[id_]:g}", tone=good) if id_ in grades else "not judged"
        ranks = (str(of[id_]) if id_ in of else Figure("not retrieved", tone=bad) for of in lists)
        shown.append((id_, grade, *ranks))
    columns = ["rank"] if len(rows) == 1 else [f"rank, {name}" for name in rows]
    return Table("Retrieved", ("document", "grade", *columns), tuple(shown))


def failure(row: Result) -> str:
    """What went wrong with a row, in a few words; empty where nothing is known to."""
    return words(failure_of(row) or "")


def figure(one: SystemFigure) -> Figure:
    """The figure of a system in the list of runs."""
    if one.value is None:
        return Figure("not scored")
    is_share = one.metric == "accurate"
    value = percent(round(one.value, 2)) if is_share else number(one.value)
    if one.low is None or one.high is None:
        return Figure(value)
    low, high = (percent(round(end, 2)) if is_share else number(end, 2) for end in (one.low, one.high))
    fits = one.low >= 0 and one.high <= 1
    bar = Bar(100 * one.value, 100 * one.low, 100 * one.high, "0 to 1") if fits else None
    return Figure(value, f"[{low}, {high}]", bar=bar)
