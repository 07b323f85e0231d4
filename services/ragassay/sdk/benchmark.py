"""Many systems on many datasets: a report for each dataset, and one comparison of each system with a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragassay.analysis.comparison import compare_datasets
from ragassay.core.errors import BadSettings
from ragassay.reporting.objects import Comparison, Report
from ragassay.storage.benchmarks import BenchmarkRecord

PLACE = "{dataset}"  # in a path: the name of each dataset


class Benchmark(Mapping[str, Report]):
    """The report of each dataset by its name, and the ``comparison`` of the systems with the baseline, None with one system."""

    def __init__(self, record: BenchmarkRecord, reports: Mapping[str, Report]) -> None:
        self.id, self.baseline = record.id, record.baseline
        self._reports = dict(reports)
        comparison = compare_datasets(reports, record.baseline)
        self.comparison = None if comparison is None else Comparison(**dict(comparison))

    def __getitem__(self, dataset: str) -> Report:
        return self._reports[dataset]

    def __iter__(self) -> Iterator[str]:
        return iter(self._reports)

    def __len__(self) -> int:
        return len(self._reports)

    def save(self, path: str | Path) -> None:
        """Write the comparison (csv, json or md); or with {dataset} in the path the report of each, in its formats.

        Raises UnknownName, BadSettings, MissingExtra, DiskFull.
        """
        if PLACE in str(path):
            for dataset, report in self.items():
                report.save(str(path).replace(PLACE, dataset))
        elif self.comparison is None:
            raise no_comparison(path)
        else:
            self.comparison.save(path)

    @property
    def figures(self) -> dict[str, Any]:
        """``reports`` without rows, by dataset, and the ``comparison``."""
        return {"reports": {name: one.without_rows for name, one in self.items()}, "comparison": self.comparison}

    def __str__(self) -> str:
        if self.comparison is not None:
            return str(self.comparison)
        return "\n\n".join(f"{dataset}\n{report}" for dataset, report in self.items())

    def _repr_html_(self) -> str:
        parts = [self.comparison] if self.comparison is not None else self.values()
        return "".join(one._repr_html_() for one in parts)

    def __repr__(self) -> str:
        return f"<Benchmark {self.id}: {', '.join(self)}, baseline {self.baseline}>"


def no_comparison(path: str | Path) -> BadSettings:
    """The error of a file for the comparison of one system."""
    hint = f"write {PLACE} into the path for the report of each dataset"
    return BadSettings(f"{path}: there is one system, and so no comparison", hint=hint)
