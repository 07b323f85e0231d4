"""A benchmark in a folder: which run evaluates which dataset, in benchmarks/<id>/benchmark.json, written before the runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from ragassay.core.errors import BadData, UnknownName
from ragassay.core.files import write_whole
from ragassay.core.formatting import json_document
from ragassay.core.models import FrozenModel
from ragassay.core.validation import problems

_RECORD = "benchmark.json"


class BenchmarkRecord(FrozenModel):
    """What a benchmark is. ``runs``: by dataset, the id of the run that evaluates it."""

    schema_version: Literal[2] = 2
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
    baseline: str
    runs: Annotated[dict[str, str], Field(min_length=1)]


class FolderBenchmarks:
    """Benchmarks under one folder, ``.ragassay`` by default."""

    def __init__(self, root: Path) -> None:
        self.root = root / "benchmarks"

    def create(self, record: BenchmarkRecord) -> None:
        """Write a new one down. Raises DiskFull."""
        write_whole(self.root / record.id / _RECORD, json_document(record), private=True)

    def open(self, name: str) -> BenchmarkRecord:
        """The benchmark of that id; raises UnknownName, and BadData that names a field that can't be."""
        path = self.root / name / _RECORD
        try:
            return BenchmarkRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise UnknownName("benchmark", name, self.ids()) from None
        except ValidationError as error:
            raise BadData([f"{path}: not a benchmark of this version of ragassay ({problems(error)[0]})"]) from None

    def ids(self) -> list[str]:
        """Ids of the benchmarks, oldest first."""
        records = sorted(self.root.glob(f"*/{_RECORD}"), key=lambda path: path.stat().st_mtime_ns)
        return [path.parent.name for path in records]

    def of_runs(self) -> dict[str, str]:
        """{run: benchmark} of the runs that belong to one."""
        of_runs: dict[str, str] = {}
        for benchmark in self.ids():
            with suppress(BadData):  # of another version
                of_runs |= dict.fromkeys(self.open(benchmark).runs.values(), benchmark)
        return of_runs
