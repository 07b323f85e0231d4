"""What a row says, as a document: question, answer and expected facts with their verdicts, scores, what was retrieved, cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from ragassay.core.formatting import number, quantity
from ragassay.core.models import FactVerdict, Rating, Result, Sample, SentenceVerdict
from ragassay.evaluation.labelling import HumanLabel
from ragassay.judges.combine import disagreements
from ragassay.judges.verdict import number_units
from ragassay.metrics.failures import failure
from ragassay.reporting.document import Block, Card, Cards, Cell, Document, Figure, Link, Passage, Passages, Table
from ragassay.reporting.failing import JUDGED, no_answer, said, why, words

MAX_DOCUMENTS = 50
LEGEND = "A1: answer sentence, G1: expected fact, C1.1: context sentence"
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


def of_row(
    row: Result,
    sample: Sample | None = None,
    *,
    every: Sequence[tuple[str, Result, str]] = (),
    labels: Sequence[HumanLabel] = (),
    on_page: bool = False,
) -> Document:
    """What was asked, answered and expected, with each verdict, its evidence and why; then scores, time, cost and documents.

    ``sample``: what the row was evaluated on, if it is kept. ``every``: what systems are called, their rows on the question,
    and the address of each but this one. ``labels``: what people said of the row. ``on_page``: evidence leads to the
    contexts, which are no details.
    """
    about = [row.system, row.query_id, row.category, row.difficulty, row.model]
    about += [f"conversation {row.conversation_id}"] if row.conversation_id else []
    verdict, read = row.verdict, contexts(sample)
    texts = None if on_page else evidence(row, sample)
    notes = [f"The judges of the jury disagree: {line}" for line in disagreements(row.ratings)]
    if verdict and verdict.suspicious:
        steers = ", ".join(verdict.suspicious)
        notes.append(f"Text that may steer the judge, no score was changed: {steers}")
    blocks: list[Block] = [*turns(row), answer(row, texts), expected(row, texts)]
    if verdict and verdict.criteria:
        met = [Passage(one.name, one.id, one.step or "not judged", why=one.why) for one in verdict.criteria]
        blocks.append(Passages("Criteria", tuple(met)))
    if cards := [Card(name, outcome(one).value, (("answer", said(one)),), href) for name, one, href in every if href]:
        blocks.append(Cards("Answers to compare", tuple(cards)))
    tables = _tables(row, {name: one for name, one, _ in every} or {row.system: row}, sample, labels)
    result = f"response failed: {row.error}" if row.error else why(row, judge=False) or outcome(row).value
    return Document(
        row.query,
        about=", ".join(filter(None, about)),
        answer=tuple(filter(None, [result])),
        notes=tuple(notes),
        blocks=(*blocks, *(read if on_page else ()), *tables),
        details=() if on_page else tuple(read),
    )


def outcome(row: Result) -> Figure:
    """What went wrong with a row, or that it is accurate, in a few words; empty where neither is known."""
    accurate = row.scores.get("accurate")
    if what := failure(row):
        return Figure(words(what), tone="bad")
    if accurate is None:
        return Figure("")
    return Figure("not scored", tone="none") if accurate.value is None else Figure("accurate", tone="good")


def answer(row: Result, texts: Mapping[str, str] | None = None, *, judged: bool = True) -> Passages:
    """The answer, by its sentences if it was ``judged``; ``texts``: of evidence, None on a page that has them below."""
    if not (judged and row.verdict and row.verdict.sentences):
        return Passages("Answer", (Passage(row.answer or no_answer(row)),))
    units = row.verdict.sentences
    passages = (_passage(one, _words(one.support, one.truth), one.support or one.truth, texts) for one in units)
    relevance = ", ".join(filter(None, (row.verdict.relevance, row.verdict.why)))
    return Passages("Answer", tuple(passages), f"Relevance: {relevance}. {LEGEND}" if relevance else LEGEND)


def expected(row: Result, texts: Mapping[str, str] | None = None, *, judged: bool = True) -> Passages:
    """The ground truth, and its facts if it was ``judged``; ``texts`` as of ``answer``."""
    truths = [Passage(text) for text in row.ground_truth_answer]
    facts = row.verdict.facts if judged and row.verdict else ()
    covered = [_passage(one, f"covered: {one.covered}" if one.covered else "", one.covered, texts) for one in facts]
    return Passages("Expected", (*truths, *covered), "" if truths or covered else "This query has no ground truth.")


def turns(row: Result) -> Iterator[Passages]:
    """The earlier turns, each with the label that evidence names it by."""
    if row.history:
        read = (Passage(f"{turn.role}: {turn.content}", f"H{n}") for n, turn in enumerate(row.history, 1))
        yield Passages("Earlier turns", tuple(read))


def contexts(sample: Sample | None, *, labelled: bool = True) -> list[Passages]:
    """Each context by its sentences, with its document and grade; none where the run does not keep them."""
    if sample is None or not sample.contexts:
        return []
    sentences: list[list[Passage]] = [[] for _ in sample.contexts]
    for label, text in number_units(sample).contexts.items():
        sentences[int(label[1:].partition(".")[0]) - 1].append(Passage(text, label if labelled else ""))
    ids = (sample.response.retrieved_doc_ids if sample.response else None) or ()
    titles = [f"Context {n}" for n, _ in enumerate(sentences, 1)]
    if labelled and len(ids) == len(titles):
        grades = {id_: f", grade {grade:g}" for id_, grade in (sample.judgments or {}).items()}
        titles = [f"{title}, {id_}{grades.get(id_, '')}" for title, id_ in zip(titles, ids, strict=True)]
    return [Passages(title, tuple(of), is_running=True) for title, of in zip(titles, sentences, strict=True)]


def evidence(row: Result, sample: Sample | None) -> dict[str, str]:
    """Labels such as ``C2.1`` and ``H2``, and the sentences of contexts and earlier turns that they stand for.

    Empty where the run does not keep the contexts.
    """
    if sample is None or row.verdict is None:
        return {}
    units = number_units(sample)
    texts = {**units.history, **units.contexts}
    cited = [*(s.evidence for s in row.verdict.sentences), *(f.evidence for f in row.verdict.facts)]
    return {label: texts[label] for labels in cited for label in labels if label in texts}


def _passage(
    unit: SentenceVerdict | FactVerdict, said: str, label: str | None, texts: Mapping[str, str] | None
) -> Passage:
    """A sentence or fact with what is said of it, in the tone of the label; without ``texts`` its evidence is links."""
    if texts is None:
        shown: list[str | Link] = [Link(one, f"#{one}") for one in unit.evidence]
    else:
        shown = [f"{one} {texts.get(one, '(the text is not kept here)')}" for one in unit.evidence]
    return Passage(unit.text, unit.id, said or "not judged", _TONES.get(label or "", "none"), tuple(shown), unit.why)


def _words(support: str | None, truth: str | None) -> str:
    return ", ".join(filter(None, (words(support or ""), f"ground truth: {truth}" if truth else "")))


def _tables(
    row: Result, every: Mapping[str, Result], sample: Sample | None, labels: Sequence[HumanLabel]
) -> Iterator[Block]:
    """The scores of a row and its ratings; then what the answer of each system took, by its name, and what it retrieved."""
    missing = dict[str, list[str]]()
    lines, others = list[tuple[str, str, str]](), list[str]()
    for name in judged_first(row.scores):
        score, reason = row.scores[name], row.scores[name].reason or ""
        if score.value is None:
            missing.setdefault(reason, []).append(name)
        elif reason:
            lines.append((name, number(score.value), reason))
        else:
            others.append(f"{name} {number(score.value)}")
    lines += [(", ".join(names), "missing", reason) for reason, names in missing.items()]
    if row.scores:
        yield Table("Scores", ("metric", "score", "why"), tuple(lines), ", ".join(others))
    rated = [(f"{one.rater}, {one.role}", _rated(one)) for one in row.ratings]
    rated += [(one.by, f"{one.metric} {'not known' if one.value is None else f'{one.value:g}'}") for one in labels]
    if rated:
        yield Table("Ratings", ("by", "says"), tuple(rated))
    taken = []
    for name, (unit, field) in _MEASURED.items():
        values = [attrgetter(field)(one) for one in every.values()]
        if any(value or (value == 0 and not name.startswith("judging")) for value in values):
            taken.append((name, *("" if value is None else f"{quantity(value)}{unit}" for value in values)))
    if taken:
        yield Table("Measured", ("", *every), tuple(taken))
    if any(one.retrieved_doc_ids for one in every.values()):
        yield _retrieved(every, (sample.judgments if sample else None) or {})


def judged_first(metrics: Iterable[str]) -> list[str]:
    """The metrics: accuracy, those that a judge gives, then the others."""
    return sorted(metrics, key=lambda name: (name != "accurate", name not in JUDGED))


def _rated(one: Rating) -> str:
    if one.scores:
        return ", ".join(f"{name} {value:g}" for name, value in one.scores.items())
    return f"no vote: {one.reason}" if one.verdict is None else f"relevance {one.verdict.relevance or 'not judged'}"


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
