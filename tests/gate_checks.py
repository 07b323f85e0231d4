"""Gates in the form in which a configuration has them, checked against reports."""

from pydantic import TypeAdapter

from ragassay.analysis.gates import GateList, check

READ = TypeAdapter(GateList)


def check_gates(report, *gates, baseline=None, **more):
    """The results of the gates."""
    return check(report, READ.validate_python(list(gates)), baseline, **more)


def check_gate(report, gate, baseline=None, **more):
    """The result of a gate that gives one."""
    (result,) = check_gates(report, gate, baseline=baseline, **more).results
    return result
