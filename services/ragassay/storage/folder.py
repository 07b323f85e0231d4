"""A run in a folder: its inputs, the results of each chunk, the calls it paid for, and in the end its report.

run.json                 what is evaluated: data, systems, configuration
samples.jsonl            the dataset's rows
responses/<system>.jsonl the recorded responses; of a system that answers in the run, each as it comes, before any is judged
results/<system>/<n>.jsonl  results of chunk n, present only when the whole chunk is done
gates.json               the result of the last ``ragassay gate`` of it
columns-<system>, texts/ figures and texts of a long run's rows, or of one that was looked at, so that pages choose
                         rows without reading them
calls.jsonl              every attempt of a call to a model, and the replies
report.json              the figures, written last; its rows are those in results/
labels.jsonl             what people said of its rows, where somebody labelled some
"""

from __future__ import annotations

import difflib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from ragassay.core.blobs import FolderBlobs
from ragassay.core.errors import AssayError, BadData, NotFound
from ragassay.core.files import (
    MAX_IN_MEMORY,
    KeyedRows,
    LineLog,
    LineRows,
    locked,
    private_folder,
    to_lines,
    write_errors,
    write_whole,
)
from ragassay.core.models import FrozenModel, Response, Result, Sample, Usage
from ragassay.core.report import Report, ReportWithResults, Source
from ragassay.core.validation import problems
from ragassay.datasets.dataset import digest_of_dataset, digest_of_responses
from ragassay.storage.columns import THERE, read_column, write_columns
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord
from ragassay.storage.runs import (
    DAMAGED,
    GATES_FILE,
    REPORT_FILE,
    Entry,
    Run,
    document_of,
    is_pending_again,
    report_in,
    result_lines,
    results_blob,
    row_of,
)

LAST, LAST_PASSED = "last", "last-passed"
_SLUG = slice(16, -5)  # of a run's id
R = TypeVar("R", bound=Report)
M = TypeVar("M", bound=FrozenModel)


class FolderRun(Run):
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.blobs = folder, FolderBlobs(folder)
        self._again: dict[ChunkId, None] = {}  # chunks whose failed rows are evaluated again
        self._responses_read: dict[str, Mapping[str, Any]] = {}
        self.failed_rows = 0  # committed through this object, that would be pending again
        self.without_verdict: set[tuple[str, str]] = set()  # of these, system and query id of those without a verdict
        self.forgotten: Mapping[tuple[str, str], Usage] = {}  # what replies took that are not used again, by row

    @cached_property
    def record(self) -> RunRecord:  # type: ignore[override]
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
            if not source.answers:
                sources[f"responses/{name}.jsonl"] = source, digest_of_responses(self._responses(name))
        for file, (source, digest) in sources.items():
            if digest != source.digest:
                raise BadData([f"{self.folder / file}: changed since the run began"], hint="start a new run")

    def pending(self) -> list[ChunkId]:
        """The chunks without results, and those with rows to evaluate again."""
        return [*self._pending, *self._again]

    def evaluate_failed_again(self) -> None:
        """Make failed rows pending again, if no chunk lacks results. Rows keep their results until new ones are committed."""
        if not self._pending:
            self._again = {chunk: None for chunk in self.record.chunks() if self._has_failed(chunk)}

    def _has_failed(self, chunk: ChunkId) -> bool:
        source, name = self.record.systems[chunk.system], results_blob(chunk)
        lines = (self.blobs.get(name) or b"").splitlines()
        return any(
            is_pending_again(self._result(name, number, line), source)
            for number, line in enumerate(lines, 1)
            if b'"missing":"failed"' in line or b'"error":"' in line  # the others need not be read
        )

    def samples(self, chunk: ChunkId) -> list[Sample]:
        """The rows of a chunk, with the responses that are recorded."""
        first, responses = chunk.number * self.record.chunk_size, self._responses(chunk.system)
        rows = (self._rows[first + n] for n in range(self.record.rows_in(chunk)))
        samples = [row.model_copy(update={"response": responses.get(row.query_id)}) for row in rows]
        if chunk not in self._again:
            return samples
        source = self.record.systems[chunk.system]
        before = zip(samples, self.results(chunk), strict=True)
        return [sample for sample, result in before if is_pending_again(result, source)]

    @contextmanager
    def answering(self, system: str) -> Iterator[tuple[Iterator[Sample], Callable[[Sample, Response | None], None]]]:
        """The pending rows that a system has to answer, and what keeps each response as it comes. Raises DiskFull.

        Errors are answered anew: they leave the file first, so that each query is there once.
        """
        log = LineLog(self.folder / "responses" / f"{system}.jsonl")
        try:
            log.cut_torn_line()
            self._responses_read.pop(system, None)
            answered = self._responses(system)
            if failed := {query for query, response in answered.items() if response and response.error is not None}:
                failed &= {row.query_id for row in self._pending_rows(system)}
                log.keep(lambda row: row["query_id"] not in failed)
                self._responses_read.pop(system)
                answered = self._responses(system)
            yield (
                (row for row in self._pending_rows(system) if row.query_id not in answered),
                lambda row, response: log.append(_response_row(row.query_id, response)),
            )
        finally:
            log.close()
            self._responses_read.pop(system, None)

    def _pending_rows(self, system: str) -> Iterator[Sample]:
        return (row for chunk in self.pending() if chunk.system == system for row in self.samples(chunk))

    def commit(self, chunk: ChunkId, results: Sequence[Result]) -> Outcome:
        """Write a chunk's results in one step; rows that were evaluated again take the place of the failed ones."""
        source = self.record.systems[chunk.system]
        failed = [result for result in results if is_pending_again(result, source)]
        self.failed_rows += len(failed)
        self.without_verdict |= {(row.system, row.query_id) for row in failed if row.verdict is None}
        if chunk in self._again:
            new = (_with_waste(row, self.forgotten.get((row.system, row.query_id))) for row in results)
            results = [next(new) if is_pending_again(row, source) else row for row in self.results(chunk)]
        self.blobs.put(results_blob(chunk), result_lines(results))
        self._pending.pop(chunk, None)
        self._again.pop(chunk, None)
        if self.record.dataset.rows > MAX_IN_MEMORY:
            with suppress(OSError, AssayError):  # else they are made when they are needed
                write_columns(self.blobs, self.record, chunk, results, written=self._written(chunk))
        return "kept" if self.pending() else "last"

    def json_lines(self, chunk: ChunkId) -> Iterator[bytes]:
        """See ``Run``; files may have been edited, so each line is checked to be JSON. Raises as ``results`` does."""
        for where, number, line in self._lines(chunk):
            document_of(where, number, line)
            yield line

    def without_columns(self) -> dict[ChunkId, float]:
        """The chunks whose results were written since their columns were."""
        lacking: dict[ChunkId, float] = {}
        for system in self.record.systems:
            written = read_column(self.blobs, self.record, system, THERE)
            for chunk in self.record.chunks_of(system):
                with suppress(FileNotFoundError):
                    if written[chunk.number * self.record.chunk_size] != (now := self._written(chunk)):
                        lacking[chunk] = now
        return lacking

    def _written(self, chunk: ChunkId) -> float:
        """When the results of a chunk were written."""
        return float((self.folder / results_blob(chunk)).stat().st_mtime_ns)

    def gone(self, name: str) -> BadData:
        """The error for a file of the run that is not there any more."""
        return BadData([f"{self.folder / name}: there is no such file"], hint="was the run removed?")

    def save_report(self, report: Report) -> None:
        """Write report.json."""
        self.blobs.put(REPORT_FILE, orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_APPEND_NEWLINE))

    def report(self, only: str | None = None, *, spending: bool = False) -> Report:
        """The report, or ``only`` one metric of it; raises NotFound while there is none, BadData for one that can't be read."""
        if not self.report_file.exists():
            name = self.folder.name
            raise NotFound(f"run {name} has no report yet", hint=f"ragassay evaluate --resume {name}")
        return _read(self.report_file, lambda content: report_in(content, only, spending=spending))

    def sample(self, query_id: str, system: str) -> Sample | None:
        """A row with the response that is recorded of a system; None where the run has no such row."""
        place = self._by_query.get(query_id)
        row = None if place is None else self._rows[place]
        recorded = (self.folder / "responses" / f"{system}.jsonl").exists()
        response = self._responses(system).get(query_id) if recorded else None
        return row and row.model_copy(update={"response": response})

    def save_gates(self, document: bytes) -> None:
        """Keep the result of a check of gates; the last one counts."""
        self.blobs.put(GATES_FILE, document)

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
        done = set(self.done())
        return {chunk: None for chunk in self.record.chunks() if chunk not in done}

    @cached_property
    def _rows(self) -> Sequence[Sample]:
        return _rows_of(self.folder / "samples.jsonl", Sample)

    @cached_property
    def _by_query(self) -> dict[str, int]:
        return _places_of(self.folder / "samples.jsonl")

    def _responses(self, system: str) -> Mapping[str, Any]:
        if system not in self._responses_read:
            path = self.folder / "responses" / f"{system}.jsonl"
            rows = _rows_of(path, _Answer if self.record.systems[system].answers else _RecordedResponse)
            self._responses_read[system] = KeyedRows(rows, _places_of(path), attrgetter("response"))
        return self._responses_read[system]


def _rows_of(path: Path, model: type[M]) -> LineRows[M]:
    """The rows of a run's file, which stay there; raises NotFound where there is no file."""
    try:
        return LineRows.of(path, lambda number, line: row_of(str(path), number, line, model))
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file", hint=DAMAGED) from None


def _places_of(path: Path) -> dict[str, int]:
    """The places of a file's rows by query id."""
    return {row.query_id: place for place, row in enumerate(_rows_of(path, _Keyed))}


class _RecordedResponse(FrozenModel):
    query_id: str
    response: Response


class _Answer(FrozenModel):
    query_id: str
    response: Response | None


class _Keyed(FrozenModel, extra="ignore"):
    query_id: str


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

    def newest(self) -> Iterator[Entry]:
        """All runs, the newest first."""
        for run_id in reversed(self.ids()):
            run = self._run(run_id)
            try:
                _ = run.record
            except (AssayError, OSError):
                yield Entry(run_id, "unreadable")
            else:
                yield Entry(run_id, "finished" if run.report_file.is_file() else "without a report", run)

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
            known = f"known: {', '.join(near[-5:]) or 'none'}; ragassay runs lists them"
            raise NotFound(what, hint=f"{known}. Give an id, or its beginning, or a name that --name gave")
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


def new_run_id(name: str) -> str:
    """An id that sorts by time and says what was evaluated: ``20260131-140509-handbook-1f3a``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{slug(name)}-{secrets.token_hex(2)}"


def slug(name: str) -> str:
    """The name as it stands in an id."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"


def _with_waste(row: Result, usage: Usage | None) -> Result:
    return row if usage is None else row.model_copy(update={"waste": row.waste + usage})


def _response_row(query_id: str, response: Response | None) -> dict[str, Any]:
    return {"query_id": query_id, "response": response and response.model_dump(mode="json", exclude_defaults=True)}


def _checked(run: FolderRun) -> FolderRun:
    _ = run.record
    return run


def read_report(path: Path) -> ReportWithResults:
    """The report in a file, or in a run's folder; raises BadData for one that is no report of this version."""
    if path.name == REPORT_FILE and path.with_name("run.json").is_file():
        return FolderRun(path.parent).report_with_results()
    return _read(path, ReportWithResults.model_validate_json)


def _read(path: Path, parse: Callable[[bytes], R]) -> R:
    try:
        return parse(path.read_bytes())
    except ValidationError as error:
        raise BadData(
            [f"{path}: not a report of this version of ragassay ({problems(error)[0]})"],
            hint="ragassay evaluate DATA -o report.json writes one",
        ) from None
    except OSError as error:
        raise BadData([f"{path}: can't be read ({error.strerror})"]) from None
