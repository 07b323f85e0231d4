"""Which rows of a report failed, and why: headline, causes, the worst rows and slices, for the terminal and Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any
from urllib.parse import urlencode

from ragassay.core.formatting import MOST_LISTED, cut, interval, number, percent
from ragassay.core.models import FactVerdict, Result, SentenceVerdict
from ragassay.core.report import Aggregate, FixFirst, Report, ReportWithResults, Slice, SystemReport
from ragassay.evaluation.groups import MAX_SLICES
from ragassay.metrics.failures import FailureName, attribute, failure
from ragassay.reporting.document import Card, Cards, Cell, Figure, Link, Table
from ragassay.reporting.figures import AT_MOST, estimate, share
from ragassay.stats.intervals import wilson_interval

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
MOST_SLICES_SHOWN = 6  # of one field, on a terminal
_LONGEST_TEXT = 170


def headline_metric(system: SystemReport) -> str:
    """``accurate`` where it was asked for, else the first metric of quality, else the first."""
    names = list(system.metrics)
    quality = [name for name in names if system.metrics[name].kind == "quality"]
    return "accurate" if "accurate" in names else (quality or names)[0]


def headline(system: SystemReport) -> str:
    """The one sentence on a system: ``10 of 30 answers are accurate (33 %, 95 % interval 19 % to 51 %)``."""
    name = headline_metric(system)
    mean = system.metrics[name]
    if name != "accurate" or mean.value is None:
        return f"{name} {estimate(mean)}"
    ends = mean.interval
    known = f"{round(mean.value * mean.n)} of {mean.n} answers are accurate ({percent(round(mean.value, 2))}"
    if ends.low is not None and ends.high is not None:
        known += f", {percent(ends.level)} interval {percent(round(ends.low, 2))} to {percent(round(ends.high, 2))}"
    if (by := mean.corrected) and by.mean is not None:
        known += f"; {percent(round(by.mean, 2))} as {by.labels} labels correct it"
    return f"{known})" + (f", {mean.unscored} of unknown accuracy" if mean.unscored else "")


def what_went_wrong(
    counts: Mapping[str, Mapping[Any, int]], rows: Mapping[str, int], address: str = "", most: int | None = None
) -> Table | None:
    """How many ``rows`` of each system failed in each way, with their share and its interval; None if none did.

    The most frequent ways come first, ``most`` of them. ``address``: of the page of rows, to which the counts lead.
    """
    total = sum(map(Counter, counts.values()), Counter[Any]())
    lines: list[tuple[Cell, ...]] = []
    for name, _ in total.most_common(most):
        cells = (
            Figure(
                f"{counts[system].get(name, 0):,}",
                _share(counts[system].get(name, 0), of),
                href=address and f"{address}?{urlencode({'system': system, 'failure': name})}",
            )
            for system, of in rows.items()
        )
        cause = Figure(words(name), FAILURES[name], href=f"{address}?failure={name}") if address else words(name)
        lines.append((cause, *cells))
    return Table("What went wrong", ("cause", *rows), tuple(lines)) if lines else None


def _share(n: int, of: int) -> str:
    if not of:
        return ""
    ends = interval(wilson_interval(n, of), lambda end: percent(round(end, 3)), "{} to {}")
    return f"of {of:,}, {percent(round(n / of, 3))} ({ends})"


def failures_of(report: ReportWithResults) -> Table | None:
    """What went wrong in each system; None if nothing did, or the rows are deleted."""
    counts = {name: Counter(filter(None, map(failure, rows))) for name, rows in report.results.items()}
    return what_went_wrong(counts, {name: len(rows) for name, rows in report.results.items()})


def fix_first(report: Report) -> Iterator[Table]:
    """What to fix first in each system, with accuracy as it would be; and the next step for each cause that there is."""
    steps: dict[str, tuple[float, str]] = {}
    for name, system in report.systems.items():
        if (fixes := system.fix_first) is None or not fixes.causes:
            continue
        rows = [("now", "", share(fixes.accurate), "")]
        for fix in fixes.causes:
            rows.append((words(fix.cause), str(fix.rows), share(fix.alone), share(fix.cumulative)))
            steps[fix.cause] = max(steps.get(fix.cause, (0.0, "")), (fix.gain.value or 0.0, fix.next_step))
        title = "What to fix first" if len(report.systems) == 1 else f"What to fix first: {name}"
        columns = ("", "rows", "accuracy without it", "and without those above")
        yield Table(title, columns, tuple(rows), " ".join(_limits(fixes)))
    if steps:
        ordered = sorted(steps.items(), key=lambda step: -step[1][0])
        yield Table("Next steps", ("cause", "what to do"), tuple((words(cause), step) for cause, (_, step) in ordered))


def _limits(fixes: FixFirst) -> Iterator[str]:
    yield AT_MOST
    for fix, after in pairwise(fixes.causes):
        if not fix.leads:
            yield f"These rows do not show that {words(fix.cause)} costs more than {words(after.cause)}."
        break
    if fixes.unattributed:
        yield f"{fixes.unattributed} further rows fail without a known cause."
    if fixes.unknown:
        yield f"{fixes.unknown} rows have no accuracy and are left out."


def first_fix(system: SystemReport) -> str | None:
    """The cause to fix first, in a sentence; None if no answer is known to be inaccurate."""
    if system.fix_first is None or not system.fix_first.causes:
        return None
    fix = system.fix_first.causes[0]
    return (
        f"{words(fix.cause)} on {fix.rows} of {fix.alone.n} rows: without it accuracy is at most {share(fix.alone)}. "
        f"{fix.next_step}"
    )


def worst_first(system: SystemReport, rows: Sequence[Result], metric: str | None = None) -> Iterator[Result]:
    """The rows of a system, worst first: by ``metric``, or what a response took, rows without a value last.

    Where no metric is named, those that are not accurate come first.
    Within those, and among the others, the mean of correctness, completeness, faithfulness and relevance decides, as
    far as a row has them; of all metrics from 0 to 1 in a report that has none of the four.
    """
    if metric is not None:
        sign = 1 if metric in system.metrics and system.metrics[metric].better == "higher" else -1
        ranks = [_ascending(row, metric, sign) for row in rows]
    else:
        names = judging(system.metrics)
        ranks = [(attribute(row) is None, _mean(row, names)) for row in rows]
    return (rows[place] for place in sorted(range(len(ranks)), key=ranks.__getitem__))


def worst_rows(report: ReportWithResults, most: int | None = None, address: str = "") -> Cards | None:
    """The few worst rows of each system, ``most`` of them; None if nothing is wrong with any.

    ``address``: of the page of a row, to which each leads; none, where there are no pages.
    """
    most = most or max(1, 4 - len(report.systems))
    shown = []
    for name, rows in report.results.items():
        system = report.systems[name]
        names = judging(system.metrics)
        counted = [name for name in names if name != "relevance"] or names  # a "mostly" alone is nothing to read first
        for row in islice(worst_first(system, rows), most):
            if attribute(row) or _mean(row, counted) < 1:
                href = address and f"{address}?{urlencode({'system': name, 'id': row.query_id})}"
                links = (Link("Read the row", href),) if href else ()
                about = f"{name} {row.query_id}"
                shown.append(Card(cut(row.query, _LONGEST_TEXT), about, _texts(row, names), links))
    return Cards("Worst rows", tuple(shown)) if shown else None


def _texts(row: Result, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    scores = {name: value for name in names if (value := row.scores[name].value) is not None and value < 1}
    answered = row.answer or row.error or ("(empty)" if row.responded else "(no response)")
    said = why(row) or ", ".join(f"{name} {number(value)}" for name, value in scores.items())
    texts = (("answer", answered), ("expected", " | ".join(row.ground_truth_answer)), ("why", said))
    return tuple((label, cut(text, _LONGEST_TEXT)) for label, text in texts if text)


def why(row: Result, *, judge: bool = True) -> str:
    """Why a row scored badly: the cause of its failure, then what the ``judge`` says, then what broke."""
    failure = attribute(row)
    said = []
    if failure:
        cause = words(failure.cause) if failure.cause else ""
        said.append(failure.why if failure.why.startswith(cause) else f"{cause}: {failure.why}")
    said += judge_says(row) if judge else []
    missing = {score.reason: None for score in row.scores.values() if score.missing == "failed"}
    return "; ".join([*said, *(reason for reason in missing if reason)])


def judge_says(row: Result) -> list[str]:
    """The judge's reasons for what it found wrong in an answer, each after the sentence or fact that it is about."""
    if row.verdict is None:
        return []
    units: list[SentenceVerdict | FactVerdict] = [
        s for s in row.verdict.sentences if s.support not in (None, "supported") or s.truth == "conflicts"
    ]
    units += [f for f in row.verdict.facts if f.covered in ("partly", "no")]
    notes = [f"{unit.id}: {unit.why}" for unit in units if unit.why]
    more = [f"and {len(notes) - MOST_LISTED} more"] if len(notes) > MOST_LISTED else []
    return [*notes[:MOST_LISTED], *more, *([row.verdict.why] if row.verdict.why else [])]


def slice_fields(report: Report) -> list[str]:
    """The fields that group rows: category, difficulty, then those of metadata that the report has slices of."""
    own = (field for system in report.systems.values() for field in system.slices)
    return list(dict.fromkeys(["category", "difficulty", *own]))


def slice_section(report: Report, field: str, most: int | None = None) -> Table | None:
    """The headline metric by a field; None where no row has it, or all have the same value.

    ``most`` slices, those with most rows; the note counts the others, and says so where a field has too many values.
    """
    systems = report.systems.values()
    name = headline_metric(next(iter(systems)))
    title, columns = f"{name} by {field}", ("", *report.systems)
    tables = [system.slices.get(field, {}) for system in systems]
    sizes: dict[str, int] = {}
    for table in tables:
        for value, one in table.items():
            sizes[value] = max(sizes.get(value, 0), one.n)
    if not sizes:
        note = f"more than {MAX_SLICES} values are too many for slices; {_one(field, report)}"
        return Table(title, columns, (), note) if any(field in system.slices for system in systems) else None
    largest = sorted(sizes, key=lambda value: (-sizes[value], value))
    shown = sorted(largest[:most])
    rows = tuple((value, *(_slice(table.get(value), name) for table in tables)) for value in shown)
    left = len(largest) - len(shown)
    note = f"{left} more with fewer rows: -o FILE.md has all; {_one(field, report)}" if left else ""
    return Table(title, columns, rows, note) if len(sizes) > 1 else None


def _one(field: str, report: Report) -> str:
    """What shows the rows of one slice."""
    if field == "category":
        return f"ragassay show {report.run.id} --where category=NAME shows one"
    return f"-o FILE.csv has the column {field}"


def _slice(one: Slice | None, name: str) -> str:
    return "no row" if one is None else estimate(one.metrics[name])


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


def _ascending(row: Result, metric: str, sign: int) -> tuple[bool, float]:
    value = row.scores[metric].value if metric in row.scores else getattr(row, metric)
    return value is None, 0.0 if value is None else sign * value
