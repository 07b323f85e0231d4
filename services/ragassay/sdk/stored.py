"""Reports by the names that users have for them: a file, a run in a folder, or a job of a service."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragassay.core.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ragassay.analysis.models import Comparison
    from ragassay.analysis.sides import Side
    from ragassay.core.models import Result
    from ragassay.core.report import ReportWithResults
    from ragassay.core.settings import Settings
    from ragassay.evaluation.runtime import Runtime
    from ragassay.sdk.client import Client
    from ragassay.storage.benchmarks import FolderBenchmark
    from ragassay.storage.folder import FolderRun
    from ragassay.systems.functions import Function


_NO_OUTPUT = logging.NullHandler()
_COMPARISON = re.compile(rb'"kind":\s*"comparison"')
_HEAD = 4096  # bytes, in which a document says its kind


def chosen(reference: str, server: str | None = None) -> tuple[ReportWithResults, str | None]:
    """The report that ``RUN`` or ``RUN#SYSTEM`` means, and the system where one is named."""
    from ragassay.core.report import run_and_system

    run, system = run_and_system(reference, Path())
    return open_report(run, server), system


def stored_run(reference: str) -> FolderRun | None:
    """The run in a folder that a reference means; None where it means a report's file, a job or nothing."""
    from ragassay.core.settings import Settings
    from ragassay.storage.folder import FolderStore

    if Path(reference).is_file():
        return None
    try:
        return FolderStore(Settings().home).open(reference)
    except NotFound:
        return None


def is_stored_dataset(reference: str) -> bool:
    """Is a dataset meant? A file, a run and a job of that name come first; raises NotFound for a version that is none."""
    from ragassay.core.report import JOB_ID
    from ragassay.core.settings import Settings
    from ragassay.datasets.versions import file_or_version, reference_in
    from ragassay.storage.datasets import FolderDatasets

    known, store = reference_in(reference), FolderDatasets(Settings().home)
    if known is None or Path(reference).exists():
        return False
    if known.prefix is None and (
        known.name not in store.names() or JOB_ID.fullmatch(reference) or stored_run(reference)
    ):
        return False
    return file_or_version(store, reference) is not None


def stored_benchmark(reference: str) -> FolderBenchmark | None:
    """The benchmark in a folder of that id; None where there is none: a part of an id means a run."""
    from ragassay.core.settings import Settings
    from ragassay.storage.benchmarks import FolderBenchmarks

    store = FolderBenchmarks(Settings().home)
    return store.open(reference) if reference in store.ids() else None


def side(reference: str, server: str | None = None, *, name: str | None = None) -> Side:
    """As ``chosen``, with what the user calls it where the report lies in a file."""
    from ragassay.analysis.sides import Side

    return Side(*chosen(reference, server), name)


def open_report(reference: str, server: str | None = None) -> ReportWithResults:
    """The report in a file, of a run, or of a job; only for what looks like a job's id is the service asked.

    Raises NotFound where there is none of that name, BadData for a file that is no report.
    """
    from ragassay.core.report import JOB_ID
    from ragassay.core.settings import Settings
    from ragassay.datasets.readers import FORMATS
    from ragassay.storage.folder import FolderStore, read_report
    from ragassay.storage.runs import REPORT_FILE

    path, settings = Path(reference), Settings()
    if path.is_file():
        return read_report(path)
    if any(path.suffix.lower() in form.extensions for form in FORMATS.values()):
        raise NotFound(f"{path}: there is no such file")
    if path.joinpath(REPORT_FILE).is_file() and not path.joinpath("run.json").is_file():
        return read_report(path / REPORT_FILE)
    try:
        run = FolderStore(settings.home).open(reference)
    except NotFound as error:
        if not JOB_ID.fullmatch(reference):
            raise
        return _of_job(reference, error.message, server)
    from ragassay.evaluation.human_labels import report_of

    return report_of(run)


def open_comparison(reference: str) -> Comparison | None:
    """The comparison in a file; None for a reference to anything else. Raises BadData for one of another version."""
    from pydantic import ValidationError

    from ragassay.analysis.models import Comparison
    from ragassay.core.errors import BadData
    from ragassay.core.validation import problems

    path = Path(reference)
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


def open_results(reference: str, server: str | None = None, **selection: Any) -> Iterator[Result]:
    """The results that are there of a run or job that need not be finished, by default system by system in the dataset's
    order; ``selection`` as ``Client.results`` takes it. Of a job, the service sorts and selects.

    Raises as ``open_report`` does.
    """
    from ragassay.core.report import JOB_ID
    from ragassay.core.settings import Settings
    from ragassay.sdk.client import Client
    from ragassay.storage.folder import FolderStore
    from ragassay.storage.selection import Selection

    run, not_local = None, None
    if not Path(reference).is_file():
        try:
            run = FolderStore(Settings().home).open(reference)
        except NotFound as error:
            not_local = error.message
    if not_local and JOB_ID.fullmatch(reference):
        with Client(server) as service, _job_is_there(service, not_local):
            yield from service.results(reference, **selection)
        return
    systems: Mapping[str, Sequence[Result]]
    if run is None:
        report = open_report(reference, server)
        systems, metrics = report.results, report.provenance.metrics
    else:
        systems, metrics = {system: run.rows(system) for system in run.record.systems}, run.record.metrics
    yield from Selection.given(**selection).of(systems, metrics)


def _of_job(job: str, not_local: str, server: str | None) -> ReportWithResults:
    from ragassay.sdk.client import Client

    with Client(server) as service, _job_is_there(service, not_local):
        return service.report(job)


@contextmanager
def _job_is_there(service: Client, not_local: str) -> Iterator[None]:
    """Raise NotFound where the service does not answer or has no such job; ``not_local``: nor is there a run."""
    from ragassay.sdk.client import ServiceError

    try:
        yield
    except Unavailable as error:
        raise NotFound(f"{not_local}, and {error.message}", hint=error.hint) from None
    except ServiceError as error:
        if error.status != NotFound.status:
            raise
        raise NotFound(f"{not_local}, and the service at {service.server} has no such job") from None


def runtime_of(settings: Settings, functions: Mapping[str, Function] | None = None) -> Runtime:
    """The runtime of one command or call: what it evaluates with, made once. ``functions``: systems of the caller's."""
    from ragassay.evaluation.runtime import Runtime

    # Without a handler, Python prints each logged warning, such as one for each query without a relevant result.
    logging.getLogger("ragassay").addHandler(_NO_OUTPUT)

    return Runtime(settings, functions)
