"""What a comparison is made of: systems of reports, each under a name that its reader knows and that no other has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ragassay.analysis.rows import SystemRows
from ragassay.core.errors import BadInput, UnknownName
from ragassay.core.formatting import minute
from ragassay.core.report import ReportWithResults, SystemReport

DEFAULT_SYSTEM = "default"  # of responses that are in the dataset: a name that no reader recognises


class Side(NamedTuple):
    """A report, one of its systems or None for all, and how the caller calls it: ``file_names`` for what lies in files."""

    report: ReportWithResults
    system: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class LabelledSystem:
    """One system of one report, under the name it has in the comparison."""

    label: str
    report: ReportWithResults
    system: str

    @property
    def part(self) -> SystemReport:
        """The system's part of the report."""
        return self.report.systems[self.system]

    def rows(self, fields: Iterable[str] = ()) -> SystemRows:
        """Its rows, read for their metrics and slice ``fields``; raises NotFound where they are gone."""
        rows = self.report.results_of(self.system)
        return SystemRows(rows, self.part.metrics, fields)


def labelled(sides: Sequence[Side | tuple[ReportWithResults, str | None]]) -> tuple[LabelledSystem, ...]:
    """The systems of all sides, or the named one of each.

    A system is called by its own name; if two share that, or the responses are in the dataset, by that of its side or
    run, else of its dataset; if that is shared too, by the time of its run, else by the run's id. Raises UnknownName for a
    system that is not there, BadInput for one that is chosen twice.
    """
    picked: list[tuple[Side, str]] = []
    for side in (Side(*side) for side in sides):
        known = side.report.systems
        if side.system is not None and side.system not in known:
            raise UnknownName("system", side.system, known, where=side.name or f"run {side.report.run.id}")
        picked += [(side, name) for name in ([side.system] if side.system is not None else known)]
    ids = Counter((side.report.run.id, name) for side, name in picked)
    if twice := next((f"{run}#{name}" for (run, name), n in ids.items() if n > 1), None):
        raise BadInput(f"{twice} is chosen twice", hint="name different systems: RUN#SYSTEM")
    alone = Counter(id(side) for side, _ in picked)
    forms = [_names(side, name, alone=alone[id(side)] == 1) for side, name in picked]
    labels = [form[0] for form in forms]
    for form in range(1, 4):
        times = Counter(labels)
        labels = [label if times[label] == 1 else every[form] for label, every in zip(labels, forms, strict=True)]
    return tuple(LabelledSystem(label, side.report, name) for label, (side, name) in zip(labels, picked, strict=True))


def _names(side: Side, system: str, *, alone: bool) -> tuple[str, ...]:
    """What a system may be called, the shortest first; the last is its own alone."""
    source, run = side.report.provenance, side.report.run
    of_side, time = side.name or source.configuration.name or source.dataset.name, minute(run.created_at)
    if system == DEFAULT_SYSTEM:
        return of_side, of_side, f"{of_side} of {time}", run.id
    of_two = of_side if alone and side.name else f"{system} of {of_side}"
    return system, of_two, f"{system} of {time}", f"{run.id}#{system}"


def file_names(paths: Sequence[Path]) -> list[str]:
    """The stem of each file; its path as it is given, if another file has that stem."""
    stems = Counter(path.stem for path in {path.resolve() for path in paths})
    return [path.stem if stems[path.stem] == 1 else str(path) for path in paths]
