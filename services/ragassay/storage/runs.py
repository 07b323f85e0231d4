"""One run: its record, the inputs and results of its chunks, and in the end its report. Written once, over its blobs.

run.json                    what is evaluated: data, systems, configuration
results/<system>/<n>.jsonl  the results of a chunk, present only when the whole chunk is done
report.json                 the figures, written last; its rows are those in results/
gates.json                  the result of the last check of gates
columns-<system>, texts/    figures and texts of the rows, so that pages choose rows without reading them
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeVar

import orjson
from pydantic import ValidationError

from ragassay.core.blobs import Blobs
from ragassay.core.errors import AssayError, BadData, Conflict, NotFound
from ragassay.core.files import MAX_IN_MEMORY, LazyRows, to_lines
from ragassay.core.models import FrozenModel, Result, Sample
from ragassay.core.report import Report, ReportWithResults, Source
from ragassay.core.validation import problems
from ragassay.storage.cost_records import CostRecord, record_of
from ragassay.storage.protocol import ChunkId, Outcome, RunRecord

DAMAGED = "the run's folder is damaged"
REPORT_FILE, GATES_FILE, LABELS_FILE = "report.json", "gates.json", "labels.jsonl"
M = TypeVar("M", bound=FrozenModel)


def report_in(document: bytes, only: str | None = None, *, spending: bool = False) -> Report:
    """The report in a JSON document; with ``only``, this metric of each system and no slices, which takes a tenth of the time.

    ``spending``: keep what each system spent as well.

    Raises ValidationError.
    """
    try:
        figures = orjson.loads(document) if only is not None else None
        for system in figures["systems"].values() if figures else ():
            metrics = {name: mean for name, mean in system["metrics"].items() if name == only}
            system.update(metrics=metrics, slices={}, spending=system["spending"] if spending else ())
    except (AttributeError, KeyError, TypeError, ValueError):
        figures = None  # it is no report: validation says why
    return Report.model_validate(figures) if figures else Report.model_validate_json(document)


class Run(ABC):
    """One run, wherever it is kept."""

    blobs: Blobs
    record: RunRecord

    @abstractmethod
    def samples(self, chunk: ChunkId) -> list[Sample]:
        """The rows of a chunk that are to be evaluated, with the responses that are recorded."""

    @abstractmethod
    def commit(self, chunk: ChunkId, results: Sequence[Result]) -> Outcome:
        """Keep a chunk's results, whole and once: ``last`` when no chunk is pending any more, ``stale`` when refused."""

    @abstractmethod
    def save_report(self, report: Report) -> None:
        """Keep the finished report; its rows are those of the chunks."""

    @abstractmethod
    def report(self, only: str | None = None, *, spending: bool = False) -> Report:
        """The report, or part of it as ``report_in`` gives it; raises NotFound or Conflict while there is none."""

    @abstractmethod
    def gone(self, name: str) -> AssayError:
        """The error for a part of the run that is not there any more."""

    @abstractmethod
    def without_columns(self) -> dict[ChunkId, float]:
        """The chunks with results whose columns have to be written, and what marks these as done."""

    def done(self) -> list[ChunkId]:
        """The chunks that have results, in the order of evaluation."""
        kept = set(self.blobs.names("results"))
        return [chunk for chunk in self.record.chunks() if results_blob(chunk) in kept]

    def results(self, chunk: ChunkId) -> list[Result]:
        """The results of a chunk, in the order of evaluation; raises BadData, and ``gone``."""
        return [self._result(*line) for line in self._lines(chunk)]

    def documents(self, chunk: ChunkId) -> Iterator[Mapping[str, Any]]:
        """The results of a chunk as they are in JSON, read without a model; raises as ``results`` does."""
        return (document_of(*line) for line in self._lines(chunk))

    def json_lines(self, chunk: ChunkId) -> Iterator[bytes]:
        """The JSON of each result of a chunk, as it is kept; not parsed. Raises ``gone``, and BadData where rows are missing."""
        return (line for _, _, line in self._lines(chunk))

    def _lines(self, chunk: ChunkId) -> Iterator[tuple[str, int, bytes]]:
        """Where a chunk's results are, and the number and content of each."""
        name = results_blob(chunk)
        if (content := self.blobs.get(name)) is None:
            raise self.gone(name)
        where, lines = f"{self.blobs.where}/{name}", content.splitlines()
        if len(lines) != (rows := self.record.rows_in(chunk)):
            raise BadData([f"{where}: has {len(lines)} rows instead of {rows}"], hint=DAMAGED)
        return ((where, number, line) for number, line in enumerate(lines, 1))

    def read(self, wanted: Mapping[ChunkId, Iterable[int]]) -> dict[ChunkId, dict[int, Result]]:
        """Some results of chunks, by their numbers in these; what is not there is left out."""
        contents = self.blobs.get_many([results_blob(chunk) for chunk in wanted])
        found: dict[ChunkId, dict[int, Result]] = {}
        for (chunk, rows), content in zip(wanted.items(), contents, strict=True):
            if content is not None:
                where, lines = f"{self.blobs.where}/{results_blob(chunk)}", content.splitlines()
                found[chunk] = {n: self._result(where, n + 1, lines[n]) for n in rows}
        return found

    def rows(self, system: str, done: Sequence[ChunkId] | None = None) -> Sequence[Result]:
        """The results of a system that are there, in the dataset's order; many are read a chunk at a time.

        ``done``: what ``done`` gives, where the caller has it.
        """
        chunks = self.done() if done is None else done
        results = ChunkedResults(self, [chunk for chunk in chunks if chunk.system == system])
        return tuple(results) if len(results) <= MAX_IN_MEMORY else results

    def report_with_results(self) -> ReportWithResults:
        """The report with the rows that are kept; raises as ``report`` does."""
        report, done = self.report(), self.done()
        return ReportWithResults.of(report, {system: self.rows(system, done) for system in report.systems})

    def costs(self) -> CostRecord | None:
        """What its report says of costs; None if there is none. Raises BadData, or ValidationError for a damaged one."""
        try:
            return record_of(self.report("", spending=True))
        except (NotFound, Conflict):
            return None

    def gates(self) -> bytes | None:
        """The result of the last check of gates; None if none were checked."""
        return self.blobs.get(GATES_FILE)

    @property
    def passed(self) -> bool | None:
        """Has it passed its gates? None where none were checked."""
        try:
            return orjson.loads(self.gates() or b"null")["passed"] is True
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None

    def _result(self, where: str, number: int, line: bytes) -> Result:
        result = row_of(where, number, line, Result)
        if missing := sorted(set(self.record.metrics) - result.scores.keys()):
            raise BadData([f"{where}:{number}: scores.{missing[0]}: is missing"], hint=DAMAGED)
        return result


@dataclass(frozen=True)
class Entry:
    """A run in a catalog. ``run``: None if its record can't be read. ``partial``: its report is of the rows that are done."""

    id: str
    status: Literal["finished", "partial", "without a report", "not finished", "failed", "unreadable"]
    run: Run | None = None


class ChunkedResults(LazyRows[Result]):
    """The results of those chunks of one system that have some, in the dataset's order; those of one chunk are in memory."""

    def __init__(self, run: Run, chunks: Sequence[ChunkId]) -> None:
        self._run, self._chunks = run, chunks
        self._rows = sum(map(run.record.rows_in, chunks))
        self._in_memory: tuple[int, Sequence[Result]] = (-1, ())

    def __len__(self) -> int:
        return self._rows

    def row(self, place: int) -> Result:
        """The result at a place, from 0."""
        number, n = divmod(place, self._run.record.chunk_size)
        chunk = self._in_memory  # another thread may read another chunk
        if chunk[0] != number:
            chunk = self._in_memory = number, self._run.results(self._chunks[number])
        return chunk[1][n]

    def documents(self) -> Iterator[Mapping[str, Any]]:
        """All rows as they are in JSON."""
        return chain.from_iterable(map(self._run.documents, self._chunks))

    def json_lines(self) -> Iterator[bytes]:
        """See ``JsonRows``."""
        return chain.from_iterable(map(self._run.json_lines, self._chunks))


def results_blob(chunk: ChunkId) -> str:
    """The name of the blob of a chunk's results."""
    return f"results/{chunk.system}/{chunk.number:05d}.jsonl"


def result_lines(results: Iterable[Result]) -> bytes:
    """Results as they are kept: JSON Lines."""
    return b"".join(to_lines(result.model_dump(mode="json") for result in results))


def documents(rows: Sequence[Result]) -> Iterator[Mapping[str, Any]]:
    """Rows as they are in JSON: many are read in a quarter of the time that models take, and not checked."""
    return rows.documents() if isinstance(rows, ChunkedResults) else (row.model_dump(mode="json") for row in rows)


def is_pending_again(row: Result, source: Source) -> bool:
    """Does a resumed run, or a job's retry, evaluate a row again? If something failed, but not a recorded response."""
    return row.failed and (row.error is None or source.answers)


def row_of(where: str, number: int, line: bytes, model: type[M]) -> M:
    """A row of a run's file; raises BadData that names file, line and field."""
    try:
        return model.model_validate(document_of(where, number, line))
    except ValidationError as error:
        raise BadData([f"{where}:{number}: {problems(error)[0]}"], hint=DAMAGED) from None


def document_of(where: str, number: int, line: bytes) -> Any:
    """A row of a run's file as it is in JSON; raises BadData that names file and line."""
    try:
        return orjson.loads(line)
    except ValueError as error:
        raise BadData([f"{where}:{number}: not JSON ({error})"], hint=DAMAGED) from None
