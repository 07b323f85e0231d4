"""What accurate answers cost over time: sums over stored reports, which outlive the rows."""

from ragassay.costs.asking import asked
from ragassay.costs.models import BY, DIMENSIONS, CostGroup, CostQuery, CostReport, Increment
from ragassay.costs.report import Gathered, cost_report

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
