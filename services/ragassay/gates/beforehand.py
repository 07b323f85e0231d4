"""What can be said of gates before there is a report: is everything that they name there?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragassay.errors import BadSettings, UnknownName
from ragassay.gates.drops import slice_values
from ragassay.gates.rules import Gate
from ragassay.models import Sample
from ragassay.render import listed


def check_names(
    gates: Sequence[Gate], metrics: Collection[str], systems: Collection[str], samples: Sequence[Sample]
) -> None:
    """Raise where a run of these metrics, systems and rows lacks what a gate is about.

    UnknownName for a system, BadSettings for a figure that is not computed and a slice that no row is in.
    """
    for n, gate in enumerate(gates):
        where = f"gates[{n}]"
        if gate.system is not None and gate.system not in systems:
            raise UnknownName("system", gate.system, systems, where=where)
        if not gate.figure.comes_with(metrics):
            what = f"the gate is on {gate.metric}, which this run does not compute"
            hint = f"ask for it (metrics), or give the rows what it needs; computed: {listed(metrics, most=8)}"
            raise BadSettings(what, where=where, hint=hint)
        if gate.slice_field is not None:
            _check_slice(gate, samples, where)


def _check_slice(gate: Gate, samples: Sequence[Sample], where: str) -> None:
    field = gate.slice_field or ""
    values = slice_values(field, samples)
    if gate.slice_value not in (None, *values) or not values:
        known = f"they have: {listed(values, most=8)}" if values else f"no row has a {field}"
        raise BadSettings(f"no row is in the slice {gate.slice!r}", where=where, hint=known)
