"""Reports by the names that users have for them: a file, a run in a folder, or a job of a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragassay.errors import BadData, BadSettings, NotFound, Unavailable

if TYPE_CHECKING:
    from ragassay.documents import Report


def chosen(reference: str, server: str | None = None) -> tuple[Report, str | None]:
    """The report that ``RUN`` or ``RUN#SYSTEM`` means, and the system where one is named."""
    run, hash_, system = reference.rpartition("#")
    if not hash_ or Path(reference).exists():
        return open_report(reference, server), None
    if not (run and system):
        raise BadSettings(f"{reference!r} is not of the form RUN#SYSTEM", hint="write, for example, last#baseline")
    return open_report(run, server), system


def open_report(reference: str, server: str | None = None) -> Report:
    """The report in a file, of a run, or of a job; only what looks like a job's id is asked of the service.

    Raises NotFound where nobody knows it, BadData for a file that is no report.
    """
    from ragassay.documents import JOB_ID
    from ragassay.settings import Settings
    from ragassay.store.folder import FolderStore

    path, settings = Path(reference), Settings()
    if path.is_file():
        return _read(path)
    if path.suffix == ".json":
        raise NotFound(f"{path}: there is no such file")
    if path.joinpath("report.json").is_file() and not path.joinpath("run.json").is_file():
        return _read(path / "report.json")
    try:
        run = FolderStore(settings.home).open(reference)
    except NotFound as error:
        if not JOB_ID.fullmatch(reference):
            raise
        return _of_job(reference, error.message, server)
    if not (run.folder / "report.json").exists():
        raise NotFound(f"run {run.folder.name} has no report yet", hint=f"ragassay evaluate --resume {run.folder.name}")
    return _read(run.folder / "report.json")


def _of_job(job: str, so_far: str, server: str | None) -> Report:
    from ragassay.cli.remote import Refused, remote
    from ragassay.documents import Report

    with remote(server) as service:
        try:
            return Report.model_validate_json(service.report(job))
        except Unavailable as error:
            raise NotFound(f"{so_far}, and {error.message}", hint=error.hint) from None
        except Refused as error:
            if error.status != NotFound.status:
                raise
            raise NotFound(f"{so_far}, and the service at {service.server} has no such job") from None


def _read(path: Path) -> Report:
    from pydantic import ValidationError

    from ragassay.documents import Report

    try:
        return Report.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = f"{where}: {first['msg'].lower()}" if where else first["msg"].lower()
        raise BadData(
            [f"{path}: not a report of this version of ragassay ({what})"],
            hint="ragassay evaluate DATA -o report.json writes one",
        ) from None
    except OSError as error:
        raise BadData([f"{path}: can't be read ({error.strerror})"]) from None
