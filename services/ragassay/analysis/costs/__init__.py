"""What accurate answers cost over time: sums over stored reports, which outlive the rows."""

from ragassay.analysis.costs.asking import asked
from ragassay.analysis.costs.models import BY, DIMENSIONS, CostGroup, CostQuery, CostReport, Increment
from ragassay.analysis.costs.report import Gathered, cost_report

__all__ = [
    "BY",
    "DIMENSIONS",
    "CostGroup",
    "CostQuery",
    "CostReport",
    "Gathered",
    "Increment",
    "asked",
    "cost_report",
]
