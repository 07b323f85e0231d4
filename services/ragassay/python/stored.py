"""Reports by the names that users have for them: a file, a run in a folder, or a job of a service."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ragassay.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ragassay.compare.sides import Side
    from ragassay.documents import Report
    from ragassay.models import Result
    from ragassay.python.client import Client
    from ragassay.runs import Session
    from ragassay.settings import Settings
    from ragassay.store.folder import FolderRun
    from ragassay.strategies.live import Function


def chosen(reference: str, server: str | None = None) -> tuple[Report, str | None]:
    """The report that ``RUN`` or ``RUN#SYSTEM`` means, and the system where one is named."""
    from ragassay.documents import run_and_system

    run, system = run_and_system(reference, Path())
    return open_report(run, server), system


def stored_run(reference: str) -> FolderRun | None:
    """The run in a folder that a reference means; None where it means a report's file, a job or nothing."""
    from ragassay.settings import Settings
    from ragassay.store.folder import FolderStore

    if Path(reference).is_file():
        return None
    try:
        return FolderStore(Settings().home).open(reference)
    except NotFound:
        return None


def side(reference: str, server: str | None = None, *, name: str | None = None) -> Side:
    """As ``chosen``, with what the user calls it where the report lies in a file."""
    from ragassay.compare.sides import Side

    return Side(*chosen(reference, server), name)


def open_report(reference: str, server: str | None = None) -> Report:
    """The report in a file, of a run, or of a job; only for what looks like a job's id is the service asked.

    Raises NotFound where there is none of that name, BadData for a file that is no report.
    """
    from ragassay.data.formats import FORMATS
    from ragassay.documents import JOB_ID
    from ragassay.settings import Settings
    from ragassay.store.folder import REPORT_FILE, FolderStore, read_report

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
    return run.report()


def open_results(reference: str, server: str | None = None) -> Iterator[Result]:
    """The results that are there, system by system in the dataset's order, of a run or job that need not be finished.

    Raises as ``open_report`` does.
    """
    from ragassay.documents import JOB_ID
    from ragassay.python.client import Client
    from ragassay.settings import Settings
    from ragassay.store.folder import FolderStore

    run, not_local = None, None
    if not Path(reference).is_file():
        try:
            run = FolderStore(Settings().home).open(reference)
        except NotFound as error:
            not_local = error.message
    if run:
        for system in run.record.systems:
            yield from run.evaluated([chunk for chunk in run.record.chunks() if chunk.system == system])
    elif not_local and JOB_ID.fullmatch(reference):
        with Client(server) as service, _job_is_there(service, not_local):
            yield from service.results(reference)
    else:
        for one in open_report(reference, server).systems.values():
            yield from one.results


def _of_job(job: str, not_local: str, server: str | None) -> Report:
    from ragassay.python.client import Client

    with Client(server) as service, _job_is_there(service, not_local):
        return service.report(job)


@contextmanager
def _job_is_there(service: Client, not_local: str) -> Iterator[None]:
    """Raise NotFound where the service does not answer or has no such job; ``not_local``: nor is there a run."""
    from ragassay.python.exchanges import ServiceError

    try:
        yield
    except Unavailable as error:
        raise NotFound(f"{not_local}, and {error.message}", hint=error.hint) from None
    except ServiceError as error:
        if error.status != NotFound.status:
            raise
        raise NotFound(f"{not_local}, and the service at {service.server} has no such job") from None


def session_of(settings: Settings, functions: Mapping[str, Function] | None = None) -> Session:
    """The session of one command or call: what it evaluates with, made once. ``functions``: systems of the caller's."""
    from ragassay.runs import Session
    from ragassay.runs.stopping import baseline_rows
    from ragassay.wiring import Wiring

    return Session(Wiring(settings, functions), lambda reference: baseline_rows(*chosen(reference)))
