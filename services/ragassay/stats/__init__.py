"""How far numbers can be trusted: intervals, tests, corrections, power and trends. Pure and seeded.

Nothing here reads, writes or remembers; the same input and seed give the same result. docs/statistics.md: which
question each function answers, and why this way.
"""

from ragassay.core.cost_sums import RatioSums
from ragassay.core.statistics import (
    ChangePoint,
    CorrectedMean,
    IncrementalCost,
    Interval,
    NonInferiority,
    PairedTest,
    ParetoFront,
    Significance,
    UnpairedTest,
)
from ragassay.stats.corrections import Correction, benjamini_hochberg, bonferroni, correct, holm, marks
from ragassay.stats.costs import incremental_cost, pareto_front
from ragassay.stats.intervals import (
    bootstrap_interval,
    clustered_intervals,
    mean_interval,
    wilson_interval,
)
from ragassay.stats.power import minimum_detectable_effect, needed_n, power_of
from ragassay.stats.ratios import Stratum, difference_sums_interval, mean_intervals, sums_interval
from ragassay.stats.tests import difference_interval, non_inferiority, paired, welch
from ragassay.stats.trends import change_points

__all__ = [
    "ChangePoint",
    "CorrectedMean",
    "Correction",
    "IncrementalCost",
    "Interval",
    "NonInferiority",
    "PairedTest",
    "ParetoFront",
    "RatioSums",
    "Significance",
    "Stratum",
    "UnpairedTest",
    "benjamini_hochberg",
    "bonferroni",
    "bootstrap_interval",
    "change_points",
    "clustered_intervals",
    "correct",
    "difference_interval",
    "difference_sums_interval",
    "holm",
    "incremental_cost",
    "marks",
    "mean_interval",
    "mean_intervals",
    "minimum_detectable_effect",
    "needed_n",
    "non_inferiority",
    "paired",
    "pareto_front",
    "power_of",
    "sums_interval",
    "welch",
    "wilson_interval",
]
