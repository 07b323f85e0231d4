"""Which rows of a stored run ask what those of another ask, for runs whose rows are read by place."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ragassay.compare.pairing import match
from ragassay.errors import BadInput, UnknownName
from ragassay.store.places import RowPlaces

NONE = -1
_HELD = 4


@lru_cache(_HELD)
def partners(rows: RowPlaces, baseline: RowPlaces, system: str | None = None) -> Any:
    """For each place of ``rows`` that of the same query in the baseline, ``NONE`` where it has none.

    A system is set beside ``system`` of the baseline, else the one of its name, else the only one. Raises UnknownName,
    and BadInput where that leaves it open or sets a system beside itself.
    """
    if system is not None and system not in baseline.systems:
        raise UnknownName("system of the baseline", system, baseline.systems, where="baseline")
    places = np.full(len(rows.systems) * rows.record.dataset.rows, NONE, dtype=np.int64)
    for name in rows.systems:
        other = system or (name if name in baseline.systems else None)
        if other is None:
            other = baseline.systems[0]
            if len(baseline.systems) > 1:
                hint = f"write RUN#SYSTEM, of {', '.join(baseline.systems)}"
                raise BadInput(f"the baseline has no system {name!r}", where="baseline", hint=hint)
        if system is None and rows.record.id == baseline.record.id:
            raise BadInput("a run is no baseline of itself", where="baseline", hint="name another, or RUN#SYSTEM")
        for ours, theirs in match(rows.asked(name), baseline.asked(other)):
            places[ours.place] = theirs.place
    return places
