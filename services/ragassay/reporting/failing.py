"""Which rows of a report failed, and why: headline, causes, what to fix first and the worst rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from ragassay.core.formatting import cut, interval, number, percent, shortlist
from ragassay.core.models import FactVerdict, Result, SentenceVerdict
from ragassay.core.report import Aggregate, Report, ReportWithResults, SystemReport
from ragassay.metrics.failures import FailureName, attribute, failure
from ragassay.reporting.document import Card, Cards, Cell, Figure, Table
from ragassay.reporting.figures import AT_MOST, estimate, share

JUDGED = ("correctness", "completeness", "faithfulness", "relevance")
FAILURES: dict[FailureName, str] = {
    "retrieval_miss": "nothing relevant was retrieved",
    "ranking_miss": "what is relevant stands too low, or the contexts lack facts",
    "contexts_unused": "the contexts hold the facts, the answer does not use them",
    "unfaithful": "too little of the answer is supported by the contexts",
    "incomplete": "the answer leaves facts out",
    "off_topic": "the answer hardly addresses the query",
    "wrong_refusal": "the query can be answered, and the system refused",
    "answered_the_unanswerable": "the query can't be answered, and the system answered",
    "gold_suspect": "the contexts support what the ground truth contradicts: one of the two is wrong",
    "not_attributed": "not accurate, and no cause was found",
    "response_failed": "there is no answer: the system failed",
    "not_scored": "a score is missing because something broke",
}
"""What the kinds of failure mean."""
MAX_REASONS = 4
_LONGEST_TEXT = 170


def headline_metric(system: SystemReport) -> str:
    """``accurate`` where it was asked for, else the first metric of quality, else the first."""
    quality = [name for name, mean in system.metrics.items() if mean.kind == "quality"]
    return "accurate" if "accurate" in system.metrics else [*quality, *system.metrics][0]


def headline(system: SystemReport) -> str:
    """The one sentence on a system: ``10 of 30 answers are accurate (33 %, 95 % interval 19 % to 51 %)``."""
    name = headline_metric(system)
    mean = system.metrics[name]
    if name != "accurate" or mean.value is None:
        return f"{name} {estimate(mean, name)}"
    if mean.reason:  # rows of one question were averaged first, so that value x n is no count
        known = f"{_percent(mean.value)} of {mean.n} answers are accurate ({mean.reason}"
    else:
        known = f"{round(mean.value * mean.n)} of {mean.n} answers are accurate ({_percent(mean.value)}"
    if mean.interval.low is not None:
        known += f", {percent(mean.interval.level)} interval {interval(mean.interval, _percent, '{} to {}')}"
    if (by := mean.corrected) and by.value is not None:
        known += f"; {_percent(by.value)} as {by.corrected_by} labels correct it"
    return f"{known})" + (f", {mean.unscored} of unknown accuracy" if mean.unscored else "")


def _percent(value: float) -> str:
    return percent(round(value, 2))


def what_went_wrong(
    counts: Mapping[str, Mapping[Any, int]], rows: Mapping[str, int], address: str = ""
) -> Table | None:
    """How many ``rows`` of each system failed in each way, with their share; None if none did.

    The most frequent ways come first. ``address``: of the page of rows, to which the counts lead.
    """
    lines: list[tuple[Cell, ...]] = []
    for name, _ in sum(map(Counter, counts.values()), Counter[Any]()).most_common():
        cells: list[Cell] = [words(name)]
        if address:
            cells = [Figure(words(name), FAILURES[name], href=f"{address}?failure={name}")]
        for system, of in rows.items():
            n = counts[system].get(name, 0)
            href = address and f"{address}?{urlencode({'system': system, 'failure': name})}"
            detail = f"of {of:,}, {percent(round(n / of, 3))}" if of else ""
            cells.append(Figure(f"{n:,}", detail, href=href))
        lines.append(tuple(cells))
    return Table("What went wrong", ("cause", *rows), tuple(lines)) if lines else None


def failures_of(report: ReportWithResults) -> Table | None:
    """What went wrong in each system; None if nothing did, or the rows are deleted."""
    counts = {name: Counter(filter(None, map(failure, rows))) for name, rows in report.results.items()}
    return what_went_wrong(counts, {name: len(rows) for name, rows in report.results.items()})


def fix_first(report: Report) -> Iterator[Table]:
    """What to fix first in each system: accuracy as it would be, and what limits these figures; then the next steps."""
    steps: dict[str, str] = {}
    for name, system in report.systems.items():
        if not (fixes := system.fix_first) or not fixes.causes:
            continue
        rows = [("now", "", share(fixes.accurate), "")]
        for fix in fixes.causes:
            rows.append((words(fix.cause), str(fix.rows), share(fix.alone), share(fix.cumulative)))
            steps[words(fix.cause)] = fix.next_step
        notes, (first, *others) = [AT_MOST], fixes.causes
        if others and not first.leads:
            notes.append(f"These rows do not show that {words(first.cause)} costs more than {words(others[0].cause)}.")
        if fixes.unattributed:
            notes.append(f"{fixes.unattributed} further rows fail without a known cause.")
        if fixes.unknown:
            notes.append(f"{fixes.unknown} rows have no accuracy and are left out.")
        title = "What to fix first" if len(report.systems) == 1 else f"What to fix first: {name}"
        columns = ("", "rows", "accuracy without it", "and without those above")
        yield Table(title, columns, tuple(rows), " ".join(notes))
    if steps:
        yield Table("Next steps", ("cause", "what to do"), tuple(steps.items()))


def first_fix(system: SystemReport) -> str | None:
    """The cause to fix first, in a sentence; None if no answer is known to be inaccurate."""
    if system.fix_first is None or not system.fix_first.causes:
        return None
    fix = system.fix_first.causes[0]
    what = f"{words(fix.cause)} on {fix.rows} of {fix.alone.n} rows: without it accuracy is at most {share(fix.alone)}."
    return f"{what} {fix.next_step}"


def worst_first(system: SystemReport, rows: Sequence[Result], metric: str | None = None) -> Iterator[Result]:
    """The rows of a system, worst first: by ``metric``, or what a response took, rows without a value last.

    Where no metric is named, those that are not accurate come first.
    Within those, and among the others, the mean of correctness, completeness, faithfulness and relevance decides, as
    far as a row has them; of all metrics from 0 to 1 in a report that has none of the four.
    """
    is_higher = metric in system.metrics and system.metrics[metric].better == "higher"
    names = judging(system.metrics)

    def rank(row: Result) -> tuple[bool, float]:
        if metric is None:
            return attribute(row) is None, _mean(row, names)
        value = row.scores[metric].value if metric in row.scores else getattr(row, metric)
        return value is None, (value or 0.0) * (1 if is_higher else -1)

    ranks = list(map(rank, rows))
    return (rows[place] for place in sorted(range(len(ranks)), key=ranks.__getitem__))


def worst_rows(report: ReportWithResults, max_rows: int | None = None, address: str = "") -> Cards | None:
    """The few worst rows of each system, ``max_rows`` of them; None if nothing is wrong with any.

    ``address``: of the page of a row, to which each leads; none, where there are no pages.
    """
    max_rows = max_rows or max(1, 4 - len(report.systems))
    shown = []
    for name, rows in report.results.items():
        names = judging(report.systems[name].metrics)
        counted = [name for name in names if name != "relevance"] or names  # a "mostly" alone is nothing to read first
        for row in islice(worst_first(report.systems[name], rows), max_rows):
            if attribute(row) or _mean(row, counted) < 1:
                href = address and f"{address}?{urlencode({'system': name, 'id': row.query_id})}"
                shown.append(Card(cut(row.query, _LONGEST_TEXT), f"{name} {row.query_id}", _texts(row, names), href))
    return Cards("Worst rows", tuple(shown)) if shown else None


def _texts(row: Result, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    low = [f"{name} {number(value)}" for name in names if (value := row.scores[name].value) is not None and value < 1]
    texts = {
        "answer": said(row),
        "expected": " | ".join(row.ground_truth_answer),
        "why": why(row) or ", ".join(low),
    }
    return tuple((label, cut(text, _LONGEST_TEXT)) for label, text in texts.items() if text)


def why(row: Result, *, judge: bool = True) -> str:
    """Why a row scored badly: the cause of its failure, then what the ``judge`` says, then what broke."""
    reasons = []
    if failure := attribute(row):
        cause = words(failure.cause) if failure.cause else ""
        reasons.append(failure.why if failure.why.startswith(cause) else f"{cause}: {failure.why}")
    if judge and (verdict := row.verdict):
        units: list[SentenceVerdict | FactVerdict] = [
            s for s in verdict.sentences if s.support not in (None, "supported") or s.truth == "conflicts"
        ]
        units += [f for f in verdict.facts if f.covered in ("partly", "no")]
        reasons += shortlist([f"{unit.id}: {unit.why}" for unit in units if unit.why], MAX_REASONS)
        reasons += [verdict.why] if verdict.why else []
    broken = {score.reason: None for score in row.scores.values() if score.missing == "failed"}
    return "; ".join([*reasons, *filter(None, broken)])


def said(row: Result) -> str:
    """The answer, or what there is instead."""
    return row.answer or row.error or no_answer(row)


def no_answer(row: Result) -> str:
    """What stands where there is no answer."""
    return "(empty)" if row.responded else "(no response)"


def words(name: str) -> str:
    """A name of several words as text."""
    return name.replace("_", " ")


def judging(metrics: Mapping[str, Aggregate]) -> Sequence[str]:
    """The metrics by which rows are the worst: correctness and so on, else all from 0 to 1."""
    judged = [name for name in JUDGED if name in metrics]
    return judged or [name for name, mean in metrics.items() if mean.bounds is not None and mean.better == "higher"]


def _mean(row: Result, names: Sequence[str]) -> float:
    """The mean of the scores that a row has; 1 where it has none, since nothing is known to be wrong."""
    values = [value for name in names if (value := row.scores[name].value) is not None]
    return math.fsum(values) / len(values) if values else 1.0
