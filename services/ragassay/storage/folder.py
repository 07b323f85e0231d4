"""A run is a folder: its inputs, the results of each chunk, the calls it paid for, and in the end its report.

run.json                 what is evaluated: data, systems, configuration
samples.jsonl            the dataset's rows
responses/<system>.jsonl the recorded responses; those of a built-in system are written before any is judged
results/<system>/<n>.jsonl  results of chunk n, present only when the whole chunk is done; <n>.given-up.jsonl when the
                         provider failed for too long: a resume works on that chunk again
gates.json               what ``ragassay gate`` last said of it
rows.sqlite              columns of a long run's rows, or of one that was looked at, so that pages choose without reading rows
calls.jsonl              every finished call to the judge
report.json              written last
costs.json, summary.json what the report says of costs, and in a line; made again where they are missing
labels.jsonl             what people said of its rows, where somebody labelled some
"""

from __future__ import annotations

import difflib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, DiskFull, NotFound
from ragassay.core.files import (
    MOST_IN_MEMORY,
    LineLog,
    locked,
    numbered_lines,
    private_folder,
    to_lines,
    write_errors,
    write_whole,
)
from ragassay.core.models import Response, Result, Sample
from ragassay.core.report import Report, Source, SystemReport, json_parts, without_rows
from ragassay.core.validation import problems
from ragassay.datasets.dataset import digest_of_dataset, digest_of_responses
from ragassay.storage.cost_records import CostRecord, read_report_costs, record_of
from ragassay.storage.derived import read_derived, write_derived
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord
from ragassay.storage.row_index import INDEX_FILE, RowIndex
from ragassay.storage.rows import DAMAGED, ChunkResults, RecordedResponses, places_of, row_of, rows_of
from ragassay.storage.run_ids import slug

REPORT_FILE, GATES_FILE, _FIGURES_FILE, _COSTS_FILE = "report.json", "gates.json", "figures.json", "costs.json"
LAST, LAST_PASSED = "last", "last-passed"
_SLUG = slice(16, -5)  # of a run's id


class FolderRun:
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def record(self) -> RunRecord:
        """What the run evaluates; raises BadData that names a field of run.json that can't be."""
        path = self.folder / "run.json"
        try:
            return RunRecord.model_validate_json(path.read_bytes(), strict=True)
        except ValidationError as error:
            raise BadData([f"{path}: not a run of this version of ragassay ({problems(error)[0]})"]) from None

    def check(self) -> None:
        """Raise BadData where a file of the run leads out of its folder, or run.json and what is left to do do not agree."""
        for path in self.folder.rglob("*"):
            if path.is_symlink():
                raise BadData([f"{path}: is a symbolic link"], hint="a run that is resumed keeps its own files")
        if (there := sum(1 for _ in self._rows)) != self.record.dataset.rows:  # each is read, and so checked
            rows = f"dataset.rows: is {self.record.dataset.rows}, but samples.jsonl has {there} rows"
            raise BadData([f"{self.folder / 'run.json'}: {rows}"], hint=DAMAGED)
        if self.pending():
            self._check_digests()

    def _check_digests(self) -> None:
        """Rows that were evaluated and rows that are left have to be of the same questions and answers."""
        sources = {"samples.jsonl": (self.record.dataset, digest_of_dataset(self._rows))}
        for name, source in self.record.systems.items():
            if source.built is None and source.called is None:
                sources[f"responses/{name}.jsonl"] = source, digest_of_responses(self._responses(name))
        for file, (source, digest) in sources.items():
            if digest != source.digest:
                raise BadData([f"{self.folder / file}: changed since the run began"], hint="start a new run")

    def pending(self) -> list[ChunkId]:
        """The chunks without results."""
        return list(self._pending)

    def samples(self, chunk: ChunkId) -> list[Sample]:
        """The rows of a chunk, with the responses that are recorded."""
        first, responses = chunk.number * self.record.chunk_size, self._responses(chunk.system)
        rows = (self._rows[first + n] for n in range(self.record.rows_in(chunk)))
        return [row.model_copy(update={"response": responses.get(row.query_id)}) for row in rows]

    @contextmanager
    def answering(self, system: str) -> Iterator[Callable[[str, Response], None]]:
        """What keeps the response of a system to a query, by its id; the last one counts. Raises DiskFull."""
        log = LineLog(self.folder / "responses" / f"{system}.jsonl")
        log.cut_torn_line()
        try:
            yield lambda query, response: log.append(_response_row(query, response))
        finally:
            log.close()
            self._responses_read.pop(system, None)

    def commit(self, chunk: ChunkId, results: Sequence[Result], *, given_up: bool = False) -> Outcome:
        """Write a chunk's results in one step; when ``given_up``, under a name that a resume passes over."""
        file, other = self._results_file(chunk), self._given_up_file(chunk)
        file, other = (other, file) if given_up else (file, other)
        (self.folder / _FIGURES_FILE).unlink(missing_ok=True)
        write_whole(file, to_lines(result.model_dump(mode="json") for result in results), private=True)
        other.unlink(missing_ok=True)
        self._pending.pop(chunk, None)
        if self.record.dataset.rows > MOST_IN_MEMORY:
            with suppress(OSError, sqlite3.Error):  # else it is made when it is needed
                self._index.write({chunk: (file, results)})
        return "kept" if self._pending else "last"

    def results(self, chunk: ChunkId) -> list[Result] | None:
        """The results of a chunk; None when it has none yet."""
        file = self.file_of(chunk)
        return (
            None
            if file is None
            else [self.result(file, number, line) for number, line in numbered_lines(file, longest=-1)]
        )

    def evaluated(self, chunks: Sequence[ChunkId]) -> Sequence[Result]:
        """The results that these chunks of one system have, in the dataset's order; many are read as they are asked for."""
        files = [self.file_of(chunk) for chunk in chunks]
        there = [file for file in files if file]
        if sum(map(self.record.rows_in, chunks)) <= MOST_IN_MEMORY or files[: len(there)] != there:
            return [row for chunk in chunks for row in self.results(chunk) or ()]
        return ChunkResults(self.record, there, self.result)

    def file_of(self, chunk: ChunkId) -> Path | None:
        """Where the results of a chunk are; None when it has none yet."""
        files = self._results_file(chunk), self._given_up_file(chunk)
        return next((file for file in files if file.exists()), None)

    def result(self, file: Path, number: int, line: bytes) -> Result:
        """A line of such a file, counted from 1; raises BadData."""
        result = row_of(file, number, line, Result)
        if missing := sorted(set(self.record.metrics) - result.scores.keys()):
            raise BadData([f"{file}:{number}: scores.{missing[0]}: is missing"], hint=DAMAGED)
        return result

    def given_up(self) -> list[ChunkId]:
        """The chunks whose rows were given up because a provider failed for too long."""
        return [chunk for chunk in self.record.chunks() if self._given_up_file(chunk).exists()]

    def save_report(self, report: Report) -> None:
        """Write report.json and, beside that of a long run, its figures alone."""
        (self.folder / _FIGURES_FILE).unlink(missing_ok=True)
        write_whole(self.report_file, json_parts(report), private=True)
        if any(isinstance(one.results, ChunkResults) for one in report.systems.values()):
            write_derived(self.report_file, _FIGURES_FILE, "report", without_rows(report).model_dump(mode="json"))
        self._save_costs(record_of(report))

    def report(self) -> Report:
        """The run's report; raises NotFound while there is none, BadData for one that can't be read.

        That of a long run has its figures in memory and its results in the files of the chunks.
        """
        if not self.report_file.exists():
            name = self.folder.name
            raise NotFound(f"run {name} has no report yet", hint=f"ragassay evaluate --resume {name}")
        figures = self._figures()
        if figures is None:
            return read_report(self.report_file)
        systems = {
            name: one.model_copy(update={"results": self._of_report(name, one)})
            for name, one in figures.systems.items()
        }
        return figures.model_copy(update={"systems": systems})

    def report_without_rows(self) -> Report:
        """The report with ``results`` left out, which takes far less time to read; raises as ``report`` does."""
        if not self.report_file.exists():
            return self.report()
        if figures := self._figures():
            return figures
        try:
            document = orjson.loads(self.report_file.read_bytes())
            for system in document["systems"].values():
                system["results"] = ()
            return Report.model_validate(document)
        except (ValueError, LookupError, TypeError, AttributeError):
            return self.report()  # which says what is wrong with it

    def costs(self) -> CostRecord:
        """What the report says of costs; raises NotFound while there is none, BadData for one that can't be read."""
        if kept := read_derived(self.report_file, _COSTS_FILE, "costs", CostRecord):
            return kept
        if not self.report_file.exists() or self._figures():
            record = record_of(self.report())
        else:
            record = read_report_costs(self.report_file.read_bytes(), str(self.report_file))
        with suppress(OSError, DiskFull):  # a folder that may only be read
            self._save_costs(record)
        return record

    def _save_costs(self, record: CostRecord) -> None:
        write_derived(self.report_file, _COSTS_FILE, "costs", record.model_dump(mode="json", exclude_defaults=True))

    def _of_report(self, system: str, report: SystemReport) -> Sequence[Result]:
        chunks = [chunk for chunk in self.record.chunks() if chunk.system == system]
        return self.evaluated(chunks[: -(-report.queries // self.record.chunk_size)])

    def _figures(self) -> Report | None:
        """The figures of the report; None where they were not kept apart, or report.json is no longer as it was then."""
        return read_derived(self.report_file, _FIGURES_FILE, "report", Report)

    def sample(self, query_id: str, system: str) -> Sample | None:
        """A row with the response that is recorded of a system; None where the run has no such row."""
        place = self._by_query.get(query_id)
        row = None if place is None else self._rows[place]
        recorded = (self.folder / "responses" / f"{system}.jsonl").exists()
        response = self._responses(system).get(query_id) if recorded else None
        return row and row.model_copy(update={"response": response})

    def save_gates(self, document: bytes) -> None:
        """Keep what gates said of the run; the last check counts."""
        write_whole(self.folder / GATES_FILE, document, private=True)

    @property
    def passed(self) -> bool | None:
        """Has it passed its gates? None where none were checked."""
        try:
            return orjson.loads(self.gates() or b"null")["passed"] is True
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None

    def gates(self) -> bytes | None:
        """What ``save_gates`` has kept; None if no gates were checked."""
        file = self.folder / GATES_FILE
        return file.read_bytes() if file.is_file() else None

    @property
    def report_file(self) -> Path:
        """Where the report is written."""
        return self.folder / REPORT_FILE

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else may work on the run meanwhile; raises Conflict when somebody does. A kill frees it."""
        with locked(self.folder / "lock", f"run {self.folder.name}"):
            self.__dict__.pop("_pending", None)  # somebody else may have worked on it until now
            yield

    @cached_property
    def _pending(self) -> dict[ChunkId, None]:
        return {chunk: None for chunk in self.record.chunks() if not self._results_file(chunk).exists()}

    @cached_property
    def _index(self) -> RowIndex:
        return RowIndex(self.folder / INDEX_FILE)

    @cached_property
    def _rows(self) -> Sequence[Sample]:
        return rows_of(self.folder / "samples.jsonl", Sample)

    @cached_property
    def _by_query(self) -> dict[str, int]:
        return places_of(self.folder / "samples.jsonl")

    def _responses(self, system: str) -> Mapping[str, Response]:
        if system not in self._responses_read:
            self._responses_read[system] = RecordedResponses(self.folder / "responses" / f"{system}.jsonl")
        return self._responses_read[system]

    @cached_property
    def _responses_read(self) -> dict[str, Mapping[str, Response]]:
        return {}

    def _results_file(self, chunk: ChunkId) -> Path:
        return self.folder / "results" / chunk.system / f"{chunk.number:05d}.jsonl"

    def _given_up_file(self, chunk: ChunkId) -> Path:
        return self._results_file(chunk).with_suffix(".given-up.jsonl")


class FolderStore:
    """Runs under one folder, ``.ragassay`` by default."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._written: dict[str, int] = {}

    def create(
        self,
        record: RunRecord,
        samples: Sequence[Sample],
        responses: Mapping[str, Mapping[str, Response]],
        *,
        described: Callable[[RunRecord], RunRecord] = lambda record: record,
    ) -> FolderRun:
        """A new run with its inputs; run.json is written last, so a folder with it is whole. Raises DiskFull.

        ``described`` completes the record. It may take seconds, so the folder is there before: ``interrupted_start``.
        """
        folder = self.root / "runs" / record.id
        try:
            with write_errors(folder):
                private_folder(folder.parent)
                folder.mkdir(mode=0o700)
            rows = (one.model_dump(mode="json", exclude_defaults=True, exclude={"response"}) for one in samples)
            write_whole(folder / "samples.jsonl", to_lines(rows), private=True)
            for system, by_query in responses.items():
                lines = (_response_row(query, response) for query, response in by_query.items())
                write_whole(folder / "responses" / f"{system}.jsonl", to_lines(lines), private=True)
            document = orjson.dumps(described(record).model_dump(mode="json"), option=orjson.OPT_INDENT_2)
            write_whole(folder / "run.json", document, private=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return FolderRun(folder)

    def made(self, run_id: str) -> FolderRun | None:
        """The run of that id; None where there is none, or a kill left one half made, which is removed."""
        run = self._run(run_id)
        if run.folder.joinpath("run.json").is_file():
            return _checked(run)
        shutil.rmtree(run.folder, ignore_errors=True)
        return None

    def interrupted_start(self) -> str | None:
        """The id of a run that is newer than all others and whose process was killed before run.json was written."""
        folders = list((self.root / "runs").glob("*"))
        newest = max(folders, key=lambda folder: folder.stat().st_mtime_ns, default=None)
        ids = self.ids()
        if newest is None or newest.name in ids:
            return None
        later = not ids or newest.stat().st_mtime_ns > self._written[ids[-1]]
        return newest.name if later else None

    def open(self, reference: str) -> FolderRun:
        """The run of that path or id, the newest of that name, the one whose id begins so, ``last``, or ``last-passed``.

        A name is what ``--name`` gave. Raises NotFound.
        """
        if (path := Path(reference)).joinpath("run.json").is_file():
            return _checked(FolderRun(path))
        ids = self.ids()
        if reference == LAST and ids:
            newest_first = (_checked(self._run(run)) for run in reversed(ids))
            if newest := next((run for run in newest_first if run.record.kind == "evaluation"), None):
                return newest
        if reference == LAST_PASSED:
            return self.last_passed()
        matching = [i for i in ids if i == reference] or self._named(reference, ids)[-1:]
        matching = matching or [i for i in ids if i.startswith(reference)]
        if len(matching) != 1:
            runs = self.root / "runs"
            what = f"run {reference!r} is not unique" if matching else f"there is no run {reference!r} in {runs}"
            near = matching or [i for i in ids if reference in i] or difflib.get_close_matches(reference, ids, 3) or ids
            raise NotFound(what, hint=f"known: {', '.join(near[-5:]) or 'none'}; ragassay runs lists them")
        return _checked(self._run(matching[0]))

    def last_passed(self, dataset: Source | None = None, *, but: str | None = None) -> FolderRun:
        """The newest run, on ``dataset`` where one is given, that has passed its gates; raises NotFound."""
        for run in map(self._run, reversed(self.ids())):
            if run.folder.name != but and run.passed:
                source = _checked(run).record.dataset
                if dataset is None or dataset.name == source.name or dataset.digest == source.digest:
                    return run
        which = f" on {dataset.name}" if dataset else ""
        raise NotFound(
            f"no earlier run{which} has passed its gates",
            hint="begin with a run that you trust: ragassay gate --baseline RUN, a report file or the --name of a run",
        )

    def _named(self, name: str, ids: Sequence[str]) -> list[str]:
        """Ids of the runs that were given this name, oldest first; those without a report only where none has one."""
        alike = [run for run in ids if run[_SLUG] == slug(name)]
        named = []
        for run in alike:
            with suppress(BadData):  # of another version
                named += [run] if self._run(run).record.spec.name == name else []
        return [run for run in named if self._run(run).report_file.exists()] or named

    def _run(self, run_id: str) -> FolderRun:
        return FolderRun(self.root / "runs" / run_id)

    def ids(self) -> list[str]:
        """Ids of the runs, oldest first."""
        written: dict[str, int] = {}
        for folder in (self.root / "runs").glob("*"):
            if (known := self._written.get(folder.name)) or (folder / "run.json").is_file():  # it is written once
                written[folder.name] = known or (folder / "run.json").stat().st_mtime_ns
        self._written = written
        return sorted(written, key=lambda run: (written[run], run))


def _response_row(query_id: str, response: Response) -> dict[str, Any]:
    return {"query_id": query_id, "response": response.model_dump(mode="json", exclude_defaults=True)}


def _checked(run: FolderRun) -> FolderRun:
    _ = run.record
    return run


def read_report(path: Path) -> Report:
    """The report in a file; raises BadData for one that is no report of this version."""
    try:
        return Report.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BadData(
            [f"{path}: not a report of this version of ragassay ({problems(error)[0]})"],
            hint="ragassay evaluate DATA -o report.json writes one",
        ) from None
    except OSError as error:
        raise BadData([f"{path}: can't be read ({error.strerror})"]) from None
