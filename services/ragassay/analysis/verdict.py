"""Which of a report's systems is better and how sure that is, in sentences: the first thing that a report says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ragassay.analysis.comparison import compare
from ragassay.analysis.describe import MOST_PAIRS, accuracy_sentence, sentences
from ragassay.analysis.difference import Contrast, Difference
from ragassay.analysis.models import Comparison
from ragassay.analysis.rows import SystemRows
from ragassay.core.errors import AssayError
from ragassay.core.formatting import interval, percent, signed
from ragassay.core.report import ReportWithResults
from ragassay.evaluation.groups import Questions

MAX_COMPARED = 1000  # queries of a report whose systems are compared by all metrics
ALPHA = 0.05


def verdict(report: ReportWithResults) -> tuple[str, ...]:
    """Each system against the first: accuracy, the metrics that differ, cost and time. Empty for one system.

    Above 1,000 queries: on accurate answers alone. If the systems can't be compared, the reason.
    """
    if len(report.systems) < 2:
        return ()
    try:
        if report.provenance.dataset.rows <= MAX_COMPARED:
            return tuple(_sentences(compare([(report, None)])))
    except AssayError as error:
        return (error.message,)
    results = report.results
    if "accurate" not in report.provenance.metrics or len({len(of_system) for of_system in results.values()}) > 1:
        return ()
    rows = {name: SystemRows(of_system, ("accurate",)) for name, of_system in results.items()}
    scores = {name: of_system.values("accurate") for name, of_system in rows.items()}
    first = next(iter(rows.values()))
    questions = first.questions(np.arange(len(first)))
    return tuple(by_accuracy(scores, questions, report.provenance.configuration.seed))


def _sentences(made: Comparison) -> Iterator[str]:
    for pair in made.pairs[:MOST_PAIRS]:
        said, accurate = sentences(pair, made.primary, made.alpha, made.correction), pair.metrics.get("accurate")
        better = _with_size(said.in_short, accurate) if accurate else said.in_short
        yield from filter(None, (better, said.finding, said.price))
    if (more := len(made.pairs) - MOST_PAIRS) > 0:
        yield f"{more} more systems are in the comparison."


def by_accuracy(scores: Mapping[str, Any], questions: Questions, seed: int) -> Iterator[str]:
    """How often each system is accurate against the first one. ``scores``: (queries,) by system, NaN if unknown."""
    baseline, *others = scores
    for name in others:
        known = np.isfinite(scores[name]) & np.isfinite(scores[baseline])
        if not known.any():
            continue
        contrast = Contrast(baseline, name, "", ALPHA, seed)
        asked = None if questions is None else questions[known]
        one = contrast.paired(
            "accurate", scores[baseline][known], scores[name][known], questions=asked, better="higher"
        )
        one = contrast.decided(one, one.p, 1)
        yield _with_size(accuracy_sentence(one), one)


def _with_size(sentence: str, one: Difference) -> str:
    """The sentence and ``Difference +0.27, 95 % interval +0.03 to +0.47.``, which says if the correction contradicts it.

    Alone if the sentence has the judge's shares and labels correct the difference, or there is no interval.
    """
    if not sentence or one.corrected_by is not None or one.interval.low is None:
        return sentence
    ends = interval(one.interval, signed, "{} to {}")
    is_corrected = one.p is not None and one.p_adjusted is not None and one.p_adjusted > one.p
    contradicts = is_corrected and one.outcome not in ("better", "worse") and not one.interval.contains(0.0)
    before = " before the correction" if contradicts else ""
    return f"{sentence} Difference {signed(one.delta or 0.0)}, {percent(one.interval.level)} interval {ends}{before}."
