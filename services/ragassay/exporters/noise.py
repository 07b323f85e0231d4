"""How much of a report's scores is noise, as words: shared by the terminal and Markdown."""

from __future__ import annotations

from ragassay.documents import Report
from ragassay.exporters.summary import Section
from ragassay.render import interval, listed, number
from ragassay.stats import VariancePart, VarianceSplit

_WORTH_IT = 0.05  # an interval that twice the judgings would narrow by less is little helped


def noise_section(report: Report) -> Section | None:
    """What the variance of each judged metric is made of, and what that makes of its mean; None where it was not measured."""
    rows: list[tuple[str, tuple[str, ...]]] = []
    helped: list[str] = []
    exact, several = False, False
    for name in report.provenance.metrics:
        found = {system: one.metrics[name].noise for system, one in report.systems.items()}
        if not any(found.values()):
            continue
        exact = exact or any(one.exact for one in found.values() if one)
        several = several or any("generation" in one.parts for one in found.values() if one)
        rows.append((name, tuple(_parts(one) for one in found.values())))
        rows.append((f"{name}: error of the mean", tuple(_error(one) for one in found.values())))
        if any(one and one.narrower is not None for one in found.values()):
            rows.append((f"{name}: twice the judgings", tuple(_twice(one) for one in found.values())))
        helped += [
            f"{name} of {system}" if len(found) > 1 else name
            for system, one in found.items()
            if one and (one.narrower or 0.0) >= _WORTH_IT
        ]
    if not rows:
        return None
    if exact:
        note = "The local judge is deterministic: its part is 0 by construction, no answer was judged again. More rows help."
    elif helped:
        note = f"More rows help every mean; more judgings of the same rows help {listed(helped)}."
    else:
        note = "More rows help; more judgings of the same rows hardly do."
    if several:
        note += " Intervals take several answers to a query for independent, the errors of the means here do not."
    return Section("How much of it is noise", tuple(rows), note)


def _parts(split: VarianceSplit | None) -> str:
    if split is None or split.reason:
        return f"not known: {split.reason}" if split else ""
    of = f"; {split.rows:,} answers to {split.queries:,} queries" if "generation" in split.parts else ""
    return ", ".join(f"{name} {_share(part)}" for name, part in split.parts.items()) + of


def _share(part: VariancePart) -> str:
    if part.share is None:
        return "0"
    below = " (estimated below 0)" if part.estimate < 0 else ""
    bounds = "" if part.share_interval.low is None else f" {interval(part.share_interval, '{:.0%}'.format, '[{}, {}]')}"
    return f"{part.share:.0%}{below}{bounds}"


def _error(split: VarianceSplit | None) -> str:
    if split is None or split.error is None or split.judge_error is None:
        return ""
    if split.exact:
        return f"{number(split.error)}, none of it by the judge"
    told = f"{number(split.error)}, {number(split.judge_error)} by the judge alone"
    return f"{told}, which makes differences up to {number(split.least_difference or 0.0)}"


def _twice(split: VarianceSplit | None) -> str:
    if split is None or split.narrower is None:
        return ""
    return f"interval {split.narrower:.0%} narrower, as with {split.rows_instead:,} more rows"
