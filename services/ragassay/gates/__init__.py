"""Gates: thresholds that a report has to clear, alone or against a baseline. Pure: reports in, results out."""

from ragassay.gates.check import Cause, GateReport, GateResult, about_a_drop, check
from ragassay.gates.comparison import TestName
from ragassay.gates.rule import Condition, Gate, GateList

__all__ = ["Cause", "Condition", "Gate", "GateList", "GateReport", "GateResult", "TestName", "about_a_drop", "check"]
