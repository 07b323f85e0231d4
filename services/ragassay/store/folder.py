"""A run is a folder: its inputs, the results of each chunk, the calls it paid for, and in the end its report.

run.json                 what is evaluated: data, systems, configuration
samples.jsonl            the dataset's rows
responses/<system>.jsonl the recorded responses
results/<system>/<n>.jsonl  results of chunk n, present only when the whole chunk is done
calls.jsonl              every finished call to the judge
report.json              written last
"""

from __future__ import annotations

import fcntl
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from ragassay.documents import Report, Source
from ragassay.errors import BadData, Conflict, NotFound
from ragassay.files import read_lines, to_lines, write_whole
from ragassay.models import CHUNK_SIZE, JobSpec, Noun, Response, Result, Sample
from ragassay.stopping import order, sorted_back


class Manifest(Noun):
    """What a run evaluates. ``judge`` and ``embeddings`` are kept to notice that they changed before a resume."""

    schema_version: int = 1
    id: str
    created_at: str
    spec: JobSpec
    metrics: tuple[str, ...]
    dataset: Source
    systems: dict[str, Source]
    judge: dict[str, Any]
    embeddings: str | None
    code_digest: str
    chunk_size: int = CHUNK_SIZE


class Run:
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def manifest(self) -> Manifest:
        """What the run evaluates."""
        return Manifest.model_validate_json((self.folder / "run.json").read_bytes())

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The dataset's rows, without responses."""
        return tuple(Sample.model_validate(row) for row in read_lines(self.folder / "samples.jsonl"))

    def responses(self, system: str) -> dict[str, Response]:
        """The recorded responses of a system by query id."""
        rows = read_lines(self.folder / "responses" / f"{system}.jsonl")
        return {row["query_id"]: Response.model_validate(row["response"]) for row in rows}

    def chunks(self) -> list[tuple[str, int]]:
        """All chunks as (system, number), in the order in which they are evaluated."""
        size = self.manifest.chunk_size
        return [(system, n) for system in self.manifest.systems for n in range(-(-len(self.samples) // size))]

    def pending(self) -> list[tuple[str, int]]:
        """The chunks without results."""
        return [chunk for chunk in self.chunks() if not self._file(*chunk).exists()]

    def chunk(self, number: int) -> tuple[Sample, ...]:
        """The samples of a chunk."""
        size = self.manifest.chunk_size
        return tuple(self.samples[place] for place in self._order[number * size : (number + 1) * size])

    @cached_property
    def _order(self) -> list[int]:
        return order(self.manifest.spec, len(self.samples))

    def commit(self, system: str, number: int, results: Sequence[Result]) -> None:
        """Store a chunk's results at once."""
        write_whole(self._file(system, number), to_lines(result.model_dump(mode="json") for result in results))

    def results(self, system: str, *, chunks: int | None = None) -> list[Result]:
        """The results of a system, of the first ``chunks`` if given, in the dataset's order."""
        numbers = [number for name, number in self.chunks() if name == system][:chunks]
        found = [result for number in numbers for result in self.chunk_results(system, number) or ()]
        return sorted_back(self.manifest.spec, len(self.samples), found)

    def chunk_results(self, system: str, number: int) -> list[Result] | None:
        """The results of a chunk, in the order of evaluation; None when it has none yet."""
        file = self._file(system, number)
        return [Result.model_validate(row) for row in read_lines(file)] if file.exists() else None

    def save(self, report: Report) -> Path:
        """Write the report; returns its path."""
        path = self.folder / "report.json"
        write_whole(path, orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_APPEND_NEWLINE))
        return path

    @property
    def report(self) -> Report:
        """The run's report; raises NotFound while there is none."""
        path = self.folder / "report.json"
        if not path.exists():
            raise NotFound(
                f"run {self.folder.name} has no report yet", hint=f"ragassay evaluate --resume {self.folder.name}"
            )
        return Report.model_validate_json(path.read_bytes())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else may work on the run meanwhile; raises Conflict when somebody does. A kill frees it."""
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    f"run {self.folder.name} is being worked on", hint="wait for the other process"
                ) from None
            yield

    def _file(self, system: str, number: int) -> Path:
        return self.folder / "results" / system / f"{number:05d}.jsonl"


class FolderStore:
    """Runs under one folder, ``.ragassay`` by default."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(
        self, manifest: Manifest, samples: Sequence[Sample], systems: Mapping[str, Mapping[str, Response]]
    ) -> Run:
        """A new run with its inputs; run.json is written last, so a folder with it is whole."""
        folder = self.root / "runs" / manifest.id
        folder.mkdir(parents=True)
        without = (sample.model_copy(update={"response": None}) for sample in samples)
        write_whole(
            folder / "samples.jsonl", to_lines(s.model_dump(mode="json", exclude_defaults=True) for s in without)
        )
        for name, responses in systems.items():
            rows = (
                {"query_id": i, "response": r.model_dump(mode="json", exclude_defaults=True)}
                for i, r in responses.items()
            )
            write_whole(folder / "responses" / f"{name}.jsonl", to_lines(rows))
        write_whole(folder / "run.json", orjson.dumps(manifest.model_dump(mode="json"), option=orjson.OPT_INDENT_2))
        return Run(folder)

    def open(self, reference: str) -> Run:
        """The run of that id, unique beginning of an id, path, or ``last``; raises NotFound."""
        if (path := Path(reference)).joinpath("run.json").is_file():
            return _checked(Run(path))
        ids = self.ids()
        if reference == "last" and ids:
            return _checked(Run(self.root / "runs" / ids[-1]))
        found = [i for i in ids if i == reference] or [i for i in ids if i.startswith(reference)]
        if len(found) != 1:
            what = (
                f"run {reference!r} is not unique"
                if found
                else f"there is no run {reference!r} in {self.root / 'runs'}"
            )
            raise NotFound(what, hint=f"known: {', '.join((found or ids)[-5:]) or 'none'}")
        return _checked(Run(self.root / "runs" / found[0]))

    def ids(self) -> list[str]:
        """Ids of the runs, oldest first."""
        manifests = sorted((self.root / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns)
        return [path.parent.name for path in manifests]


def _checked(run: Run) -> Run:
    try:
        _ = run.manifest
    except ValueError:
        raise BadData([f"{run.folder / 'run.json'}: not a run of this version of ragassay"]) from None
    return run


def new_run_id(name: str) -> str:
    """An id that sorts by time and says what was evaluated: ``20260131-140509-handbook-1f3a``."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{slug}-{secrets.token_hex(2)}"
