"""A benchmark in a folder: which run evaluates which dataset, written before the first of them is made, and its result.

benchmarks/<id>/benchmark.json  what belongs together, and the configuration that its runs are made from
benchmarks/<id>/result.json     written last
"""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, ValidationError

from ragassay.core.errors import BadData, NotFound
from ragassay.core.eval_config import Correction
from ragassay.core.files import locked, write_whole
from ragassay.core.models import FrozenModel
from ragassay.core.validation import problems
from ragassay.storage.folder import LAST

_RECORD, _RESULT = "benchmark.json", "result.json"


class BenchmarkRecord(FrozenModel):
    """What a benchmark is. ``runs``: by dataset, the id of the run that evaluates it, be it made already or not.

    ``configuration``: the document that a run is made from, with paths as seen from ``folder``; None where data or systems
    are in the memory of a program.
    """

    schema_version: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
    created_at: str
    name: str | None
    baseline: str
    alpha: float
    correction: Correction
    runs: Annotated[dict[str, str], Field(min_length=1)]
    folder: str
    configuration: dict[str, Any] | None


class FolderBenchmark:
    """One benchmark's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def record(self) -> BenchmarkRecord:
        """What it is; raises BadData that names a field that can't be."""
        path = self.folder / _RECORD
        try:
            return BenchmarkRecord.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise BadData([f"{path}: not a benchmark of this version of ragassay ({problems(error)[0]})"]) from None

    @property
    def result_file(self) -> Path:
        """Where the result is written."""
        return self.folder / _RESULT

    def result(self) -> bytes:
        """The document; raises NotFound while there is none."""
        if not self.result_file.is_file():
            name = self.folder.name
            raise NotFound(f"benchmark {name} has no result yet", hint=f"ragassay evaluate --resume {name}")
        return self.result_file.read_bytes()

    def save_result(self, document: bytes) -> None:
        """Write the result."""
        write_whole(self.result_file, document, private=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else may work on it meanwhile; raises Conflict when somebody does. A kill frees it."""
        with locked(self.folder / "lock", f"benchmark {self.folder.name}"):
            yield

    def discard(self) -> None:
        """Remove it, as if it had never been begun."""
        shutil.rmtree(self.folder, ignore_errors=True)


class FolderBenchmarks:
    """Benchmarks under one folder, ``.ragassay`` by default."""

    def __init__(self, root: Path) -> None:
        self.root = root / "benchmarks"

    def create(self, record: BenchmarkRecord) -> FolderBenchmark:
        """A new benchmark, written down. Raises DiskFull."""
        folder = self.root / record.id
        document = orjson.dumps(record.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
        write_whole(folder / _RECORD, document, private=True)
        return FolderBenchmark(folder)

    def open(self, reference: str) -> FolderBenchmark:
        """The benchmark of that id, or whose id begins so, or ``last``; raises NotFound."""
        ids = self.ids()
        matching = ids[-1:] if reference == LAST else [i for i in ids if i == reference]
        matching = matching or [i for i in ids if i.startswith(reference)]
        if len(matching) != 1:
            what = "is not unique" if matching else f"is not in {self.root}"
            near = matching or difflib.get_close_matches(reference, ids, 3) or ids
            known = f"known: {', '.join(near[-5:]) or 'none'}"
            raise NotFound(
                f"benchmark {reference!r} {what}", hint=f"{known}; start one: ragassay evaluate --config FILE"
            )
        return FolderBenchmark(self.root / matching[0])

    def ids(self) -> list[str]:
        """Ids of the benchmarks, oldest first."""
        records = sorted(self.root.glob(f"*/{_RECORD}"), key=lambda path: path.stat().st_mtime_ns)
        return [path.parent.name for path in records]

    def of_runs(self) -> dict[str, str]:
        """{run: benchmark} of the runs that belong to one."""
        of_runs: dict[str, str] = {}
        for benchmark in self.ids():
            with suppress(BadData):  # of another version
                of_runs |= dict.fromkeys(FolderBenchmark(self.root / benchmark).record.runs.values(), benchmark)
        return of_runs
