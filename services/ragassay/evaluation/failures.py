"""What to fix first: what accuracy would be if each cause of failure were gone, alone and one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import fsum

import numpy as np

from ragassay.core.report import Fix, FixFirst
from ragassay.core.statistics import Estimate
from ragassay.metrics.failures import NEXT_STEPS, Cause
from ragassay.stats.intervals import Floats, Questions, averaged, difference_interval, mean_interval

_BOUNDS = (0.0, 1.0)


def fix_first(
    accurate: Floats, rows_by_cause: Mapping[Cause | None, Sequence[int]], questions: Questions, level: float
) -> FixFirst | None:
    """The causes of failure, the largest gain first; None if no answer is known to be inaccurate.

    ``accurate``: 1 or 0 for each row, NaN if unknown; shape (rows,). ``rows_by_cause``: the places of those that are not.
    ``questions`` has the number of each row's question: several answers to one question are averaged first.
    """
    if not rows_by_cause:
        return None
    known = np.isfinite(accurate)
    of_known = None if questions is None else questions[known]

    def means(column: Floats) -> Floats:
        return averaged(column[known], of_known)

    def share(column: Floats) -> Estimate:
        values = means(column)
        interval = mean_interval(values, level=level, bounds=_BOUNDS, binary=True)
        return Estimate(value=fsum(values) / len(values), n=int(known.sum()), interval=interval)

    failed_by: dict[Cause, Floats] = {}
    for cause in NEXT_STEPS:
        if rows := rows_by_cause.get(cause):
            failed_by[cause] = np.zeros(len(accurate))
            failed_by[cause][rows] = 1.0
    ordered = sorted(failed_by, key=lambda cause: -fsum(means(failed_by[cause])))
    fixes, cumulative = [], accurate.copy()
    for cause, after in zip_longest(ordered, ordered[1:]):
        cumulative += failed_by[cause]
        leads = None
        if after is not None:
            lead = difference_interval(means(failed_by[after]), means(failed_by[cause]), level=level, bounds=_BOUNDS)
            leads = lead.low is not None and lead.low > 0
        fixes.append(
            Fix(
                cause=cause,
                rows=len(rows_by_cause[cause]),
                alone=share(accurate + failed_by[cause]),
                gain=share(failed_by[cause]),
                cumulative=share(cumulative),
                leads=leads,
                next_step=NEXT_STEPS[cause],
            )
        )
    return FixFirst(
        accurate=share(accurate),
        unknown=len(accurate) - int(known.sum()),
        unattributed=len(rows_by_cause.get(None, ())),
        causes=tuple(fixes),
    )
