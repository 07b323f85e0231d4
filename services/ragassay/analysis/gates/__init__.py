"""Gates: thresholds that a report has to clear, alone or against a baseline. Pure: reports in, results out."""

from ragassay.analysis.gates.check import GateReport, GateResult, about_a_drop, check, without_drops
from ragassay.analysis.gates.drops import TestName, check_names
from ragassay.analysis.gates.rules import ConditionName, Gate, GateList

__all__ = [
    "ConditionName",
    "Gate",
    "GateList",
    "GateReport",
    "GateResult",
    "TestName",
    "about_a_drop",
    "check",
    "check_names",
    "without_drops",
]
