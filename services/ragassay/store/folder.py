"""A run is a folder: its inputs, the results of each chunk, the calls it paid for, and in the end its report.

run.json                 what is evaluated: data, systems, configuration
samples.jsonl            the dataset's rows
responses/<system>.jsonl the recorded responses
results/<system>/<n>.jsonl  results of chunk n, present only when the whole chunk is done; <n>.given-up.jsonl when the
                         provider failed for too long: a resume works on that chunk again
gates.json               what ``ragassay gate`` last said of it
calls.jsonl              every finished call to the judge
report.json              written last
"""

from __future__ import annotations

import difflib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import ValidationError

from ragassay.data.dataset import digest_of_dataset, digest_of_responses
from ragassay.documents import Report, Source
from ragassay.errors import BadData, Conflict, NotFound
from ragassay.files import open_private, private_folder, read_lines, to_lines, write_errors, write_whole
from ragassay.models import FrozenModel, Response, Result, Sample
from ragassay.store.protocol import ChunkId, Outcome, RunRecord
from ragassay.validation import problems

REPORT_FILE, _GATES_FILE = "report.json", "gates.json"
LAST, LAST_PASSED = "last", "last-passed"
_SLUG = slice(16, -5)  # of a run's id
M = TypeVar("M", bound=FrozenModel)


class _RecordedResponse(FrozenModel):
    query_id: str
    response: Response


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
        if len(self._rows) != self.record.dataset.rows:
            rows = f"dataset.rows: is {self.record.dataset.rows}, but samples.jsonl has {len(self._rows)} rows"
            raise BadData([f"{self.folder / 'run.json'}: {rows}"], hint="the run's folder is damaged")
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
        """The rows of a chunk, in the order of evaluation, with the responses that are recorded."""
        size, responses = self.record.chunk_size, self._responses(chunk.system)
        rows = [self._rows[place] for place in self._order[chunk.number * size : (chunk.number + 1) * size]]
        return [row.model_copy(update={"response": responses.get(row.query_id)}) for row in rows]

    def commit(self, chunk: ChunkId, results: Sequence[Result], *, given_up: bool = False) -> Outcome:
        """Write a chunk's results in one step; when ``given_up``, under a name that a resume passes over."""
        file, other = self._results_file(chunk), self._given_up_file(chunk)
        file, other = (other, file) if given_up else (file, other)
        write_whole(file, to_lines(result.model_dump(mode="json") for result in results), private=True)
        other.unlink(missing_ok=True)
        self._pending.pop(chunk, None)
        return "kept" if self._pending else "last"

    def stop_early(self) -> None:
        """Nothing has to be told to anybody: the report is made by the process that works."""

    def results(self, chunk: ChunkId) -> list[Result] | None:
        """The results of a chunk in the order of evaluation; None when it has none yet."""
        file = self._results_file(chunk)
        if not file.exists():
            file = self._given_up_file(chunk)
        if not file.exists():
            return None
        results = _read(file, Result)
        for number, result in enumerate(results, 1):
            if missing := sorted(set(self.record.metrics) - result.scores.keys()):
                raise BadData([f"{file}:{number}: scores.{missing[0]}: is missing"], hint="the run's folder is damaged")
        return results

    def given_up(self) -> list[ChunkId]:
        """The chunks whose rows were given up because a provider failed for too long."""
        return [chunk for chunk in self.record.chunks() if self._given_up_file(chunk).exists()]

    def save_report(self, report: Report) -> None:
        """Write report.json."""
        content = orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_APPEND_NEWLINE)
        write_whole(self.report_file, content, private=True)

    def report(self) -> Report:
        """The run's report; raises NotFound while there is none, BadData for one that can't be read."""
        if not self.report_file.exists():
            name = self.folder.name
            raise NotFound(f"run {name} has no report yet", hint=f"ragassay evaluate --resume {name}")
        return read_report(self.report_file)

    def report_without_rows(self) -> Report:
        """The report with ``results`` left out, which takes far less time to read; raises as ``report`` does."""
        if not self.report_file.exists():
            return self.report()
        document = orjson.loads(self.report_file.read_bytes())
        for system in document["systems"].values():
            system["results"] = ()
        return Report.model_validate(document)

    def sample(self, query_id: str, system: str) -> Sample | None:
        """A row with the response that is recorded of a system; None where the run has no such row."""
        row = self._by_query.get(query_id)
        recorded = (self.folder / "responses" / f"{system}.jsonl").exists()
        response = self._responses(system).get(query_id) if recorded else None
        return row and row.model_copy(update={"response": response})

    def save_gates(self, document: bytes) -> None:
        """Keep what gates said of the run; the last check counts."""
        write_whole(self.folder / _GATES_FILE, document, private=True)

    @property
    def passed(self) -> bool:
        """Has it passed its gates?"""
        try:
            return orjson.loads((self.folder / _GATES_FILE).read_bytes())["passed"] is True
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            return False

    @property
    def report_file(self) -> Path:
        """Where the report is written."""
        return self.folder / REPORT_FILE

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else may work on the run meanwhile; raises Conflict when somebody does. A kill frees it."""
        path = self.folder / "lock"
        with write_errors(path):
            file = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.__dict__.pop("_pending", None)  # somebody else may have worked on it until now
            yield
        except BlockingIOError:
            raise Conflict(f"run {self.folder.name} is being worked on", hint="wait for the other process") from None
        finally:
            os.close(file)

    @cached_property
    def _pending(self) -> dict[ChunkId, None]:
        return {chunk: None for chunk in self.record.chunks() if not self._results_file(chunk).exists()}

    @cached_property
    def _rows(self) -> list[Sample]:
        return _read(self.folder / "samples.jsonl", Sample)

    @cached_property
    def _by_query(self) -> dict[str, Sample]:
        return {row.query_id: row for row in self._rows}

    @cached_property
    def _order(self) -> list[int]:
        return self.record.evaluation_order()

    def _responses(self, system: str) -> dict[str, Response]:
        if system not in self._responses_read:
            rows = _read(self.folder / "responses" / f"{system}.jsonl", _RecordedResponse)
            self._responses_read[system] = {row.query_id: row.response for row in rows}
        return self._responses_read[system]

    @cached_property
    def _responses_read(self) -> dict[str, dict[str, Response]]:
        return {}

    def _results_file(self, chunk: ChunkId) -> Path:
        return self.folder / "results" / chunk.system / f"{chunk.number:05d}.jsonl"

    def _given_up_file(self, chunk: ChunkId) -> Path:
        return self._results_file(chunk).with_suffix(".given-up.jsonl")


class FolderStore:
    """Runs under one folder, ``.ragassay`` by default."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(
        self, record: RunRecord, samples: Sequence[Sample], responses: Mapping[str, Mapping[str, Response]]
    ) -> FolderRun:
        """A new run with its inputs; run.json is written last, so a folder with it is whole. Raises DiskFull."""
        folder = self.root / "runs" / record.id
        try:
            with write_errors(folder):
                private_folder(folder.parent)
                folder.mkdir(mode=0o700)
            rows = (sample.model_copy(update={"response": None}) for sample in samples)
            content = to_lines(row.model_dump(mode="json", exclude_defaults=True) for row in rows)
            write_whole(folder / "samples.jsonl", content, private=True)
            for system, by_query in responses.items():
                lines = (
                    {"query_id": query, "response": response.model_dump(mode="json", exclude_defaults=True)}
                    for query, response in by_query.items()
                )
                write_whole(folder / "responses" / f"{system}.jsonl", to_lines(lines), private=True)
            document = orjson.dumps(record.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
            write_whole(folder / "run.json", document, private=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return FolderRun(folder)

    def open(self, reference: str) -> FolderRun:
        """The run of that path or id, the newest of that name, the one whose id begins so, ``last``, or ``last-passed``.

        A name is what ``--name`` gave. Raises NotFound.
        """
        if (path := Path(reference)).joinpath("run.json").is_file():
            return _checked(FolderRun(path))
        ids = self.ids()
        if reference == LAST and ids:
            return _checked(self._run(ids[-1]))
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
        alike = [run for run in ids if run[_SLUG] == _slug(name)]
        named = []
        for run in alike:
            with suppress(BadData):  # of another version
                named += [run] if self._run(run).record.spec.name == name else []
        return [run for run in named if self._run(run).report_file.exists()] or named

    def _run(self, run_id: str) -> FolderRun:
        return FolderRun(self.root / "runs" / run_id)

    def ids(self) -> list[str]:
        """Ids of the runs, oldest first."""
        records = sorted((self.root / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns)
        return [path.parent.name for path in records]


def _checked(run: FolderRun) -> FolderRun:
    _ = run.record
    return run


def _read(path: Path, model: type[M]) -> list[M]:
    """The rows of a run's file; raises BadData that names file, line and field, NotFound where there is no file."""
    rows: list[M] = []
    try:
        rows.extend(model.model_validate(row) for row in read_lines(path))
    except ValidationError as error:
        raise BadData([f"{path}:{len(rows) + 1}: {problems(error)[0]}"], hint="the run's folder is damaged") from None
    except FileNotFoundError:
        raise NotFound(f"{path}: there is no such file", hint="the run's folder is damaged") from None
    return rows


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


def new_run_id(name: str) -> str:
    """An id that sorts by time and says what was evaluated: ``20260131-140509-handbook-1f3a``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{_slug(name)}-{secrets.token_hex(2)}"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
