"""Reports by the names that users have for them: a file, a run in a folder, or a job of a service; one system by #SYSTEM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragassay.analysis.comparison import compare_datasets
from ragassay.analysis.models import Comparison
from ragassay.analysis.sides import Side
from ragassay.client import Client, ServiceError
from ragassay.core.errors import BadData, NotFound, Unavailable
from ragassay.core.jobs import JOB_ID
from ragassay.core.models import Result
from ragassay.core.report import ReportWithResults, run_and_system
from ragassay.core.settings import Settings
from ragassay.core.validation import problems
from ragassay.datasets.readers import FORMATS
from ragassay.datasets.versions import DatasetStore, file_or_version, reference_in
from ragassay.evaluation.labelling import report_of
from ragassay.reporting.objects import Report
from ragassay.storage.benchmarks import FolderBenchmarks
from ragassay.storage.folder import FolderRun, FolderStore, read_report
from ragassay.storage.runs import REPORT_FILE
from ragassay.storage.selection import Selection

_COMPARISON = re.compile(rb'"kind":\s*"comparison"')
_HEAD = 4096  # bytes, in which a document says its kind


def open_report(reference: str | Path, server: str | None = None) -> Report:
    """A stored report: a run's id, its beginning or folder, ``last``, a report.json, or the id of a service's job.

    Raises NotFound if there is none of that name, BadData for a file that is no report.
    """
    document = resolve(str(reference), server).report()
    return Report.of(document, document.results)


@dataclass(frozen=True)
class Reference:
    """What a name means: a report's ``file``, a ``run`` in a folder, or else the job ``name``; and a system if one is named."""

    name: str
    system: str | None
    server: str | None
    file: Path | None = None
    run: FolderRun | None = None

    @property
    def place(self) -> str:
        """Where the report is."""
        if self.run is not None:
            return str(self.run.report_file)
        return str(self.file or f"{self.server or Settings().server}/v1/jobs/{self.name}/report")

    def report(self) -> ReportWithResults:
        """The report. Raises NotFound, BadData for a file that is no report."""
        if self.file is not None:
            return read_report(self.file)
        if self.run is not None:
            return report_of(self.run)
        with self._service() as service:
            return service.report(self.name)

    def side(self, name: str | None = None) -> Side:
        """The report as one side of a comparison, under a name of the user's."""
        return Side(self.report(), self.system, name)

    def results(self, **selection: Any) -> Iterator[Result]:
        """The results of a run or job that need not be finished, by default system by system in the dataset's order.

        ``selection`` as ``Client.results`` takes it. Of a job, the service sorts and selects. Raises as ``report`` does.
        """
        if self.system is not None:
            selection = {"system": self.system, **selection}
        systems: Mapping[str, Sequence[Result]]
        if self.run is not None:
            record = self.run.record
            systems, metrics = {system: self.run.rows(system) for system in record.systems}, record.metrics
        elif self.file is not None:
            report = self.report()
            systems, metrics = report.results, report.provenance.metrics
        else:
            with self._service() as service:
                yield from service.results(self.name, **selection)
            return
        yield from Selection.given(**selection).of(systems, metrics)

    @contextmanager
    def _service(self) -> Iterator[Client]:
        """The service. Raise NotFound if it does not answer or has no such job."""
        with Client(self.server) as service:
            try:
                yield service
            except (Unavailable, ServiceError) as error:
                if isinstance(error, ServiceError) and error.status != NotFound.status:
                    raise
                hint = error.hint if isinstance(error, Unavailable) else "ragassay runs and ragassay job list list them"
                raise NotFound(f"there is no run {self.name!r} here, and {error.message}", hint=hint) from None


def resolve(text: str, server: str | None = None) -> Reference:
    """What ``RUN`` or ``RUN#SYSTEM`` means; the service is asked later, and only about what looks like a job's id.

    Raises NotFound.
    """
    name, system = run_and_system(text, Path())
    path = Path(name)
    if path.is_file():
        return Reference(name, system, server, file=path)
    if any(path.suffix.lower() in form.extensions for form in FORMATS.values()):
        hint = f"a report is written by ragassay evaluate DATA -o {path}" if path.suffix == ".json" else None
        raise NotFound(f"{path}: there is no such file", hint=hint)
    if path.joinpath(REPORT_FILE).is_file() and not path.joinpath("run.json").is_file():
        return Reference(name, system, server, file=path / REPORT_FILE)
    try:
        return Reference(name, system, server, run=FolderStore(Settings().home).open(name))
    except NotFound:
        if not JOB_ID.fullmatch(name):
            raise
        return Reference(name, system, server)


def is_stored_dataset(text: str) -> bool:
    """Is a dataset meant? A file, a run and a job of that name come first; raises NotFound for a version that is none."""
    known, store = reference_in(text), DatasetStore.of_folder(Settings().home)
    if known is None or Path(text).exists():
        return False
    if known.prefix is not None:
        return file_or_version(store, text) is not None
    if known.name not in store.names() or JOB_ID.fullmatch(text):
        return False
    try:
        FolderStore(Settings().home).open(text)
    except NotFound:
        return True
    return False


def open_comparison(text: str) -> Comparison | None:
    """The comparison in a file, or of the systems of a benchmark; None for anything else.

    Raises BadData for one of another version, NotFound for a benchmark of one system or without all reports.
    """
    benchmarks, store = FolderBenchmarks(Settings().home), FolderStore(Settings().home)
    if text in benchmarks.ids():
        benchmark = benchmarks.open(text)
        reports = {dataset: report_of(store.open(run)) for dataset, run in benchmark.runs.items()}
        if (comparison := compare_datasets(reports, benchmark.baseline)) is None:
            raise NotFound(
                f"benchmark {text} has one system, and so no comparison", hint="ragassay runs lists its runs"
            )
        return comparison
    path = Path(text)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if not _COMPARISON.search(file.read(_HEAD)):
            return None
    try:
        return Comparison.model_validate_json(path.read_bytes())
    except ValidationError as error:
        what = f"{path}: not a comparison of this version of ragassay ({problems(error)[0]})"
        raise BadData([what], hint="ragassay compare A B -o comparison.json writes one") from None
