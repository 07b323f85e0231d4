"""A client of a ragassay service: its jobs, datasets and schedules over HTTP."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import orjson
from pydantic import BaseModel

from ragassay.analysis.costs import asked
from ragassay.analysis.trends import Trend
from ragassay.config.schedules import JobSchedule, RunPage, ScheduledRun, SchedulePage
from ragassay.core import errors
from ragassay.core.addresses import is_address
from ragassay.core.errors import AssayError, BadSettings, BudgetReached, Unavailable, Unscored
from ragassay.core.jobs import ENDED, Job, JobPage, ResultPage
from ragassay.core.models import Result, Sample
from ragassay.core.settings import Settings
from ragassay.datasets.versions import (
    DatasetPage,
    DatasetVersion,
    DeletedVersions,
    KeptVersion,
    RowPage,
    check_name,
    file_or_version,
)
from ragassay.sdk import submission
from ragassay.sdk.comparing import ComparisonReport
from ragassay.sdk.costs import Costs
from ragassay.sdk.report import EvaluationReport
from ragassay.sdk.warn import warn

if TYPE_CHECKING:
    import httpx

    from ragassay.config import Configuration
    from ragassay.sdk.evaluation import Given

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_JSON = "application/json"
_TABLES = {
    **dict.fromkeys((".jsonl", ".ndjson"), "application/x-ndjson"),
    ".csv": "text/csv",
    **dict.fromkeys((".tsv", ".tab"), "text/tab-separated-values"),
    **dict.fromkeys((".parquet", ".pq"), "application/vnd.apache.parquet"),
}
_PAGE_SIZE = 200
_SUBMIT_ATTEMPTS = 4
_SHORT_S, _LONG_S = 60.0, 3600.0  # timeouts of reading a response; the server's own limits are shorter than the second
_POLL_S, _MAX_POLL_S, _OUTAGE_S = 0.2, 2.0, 120.0


class _ListPage(Protocol):
    @property
    def next(self) -> str | None: ...


Document = TypeVar("Document", bound=BaseModel)
Page = TypeVar("Page", bound=_ListPage)


class ServiceError(AssayError):
    """A problem document of the service; ``code``, ``status`` and the exit code are those of the error it stands for."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        more = problem.get("problems") or ()
        detail = "\n  ".join((str(problem.get("detail")), *map(str, more[1:])))
        super().__init__(detail, where=problem.get("where"), hint=problem.get("hint"))
        self.code, self.status = str(problem.get("code")), int(problem.get("status", 500))
        kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AssayError)]
        self.exit_code = next((kind.exit_code for kind in kinds if kind.code == self.code), 2)


class NoConnection(Unavailable):
    """The service can't be reached; an immediate second attempt would fail too."""


class Client:
    """The service at ``url``; ``key`` is sent as a bearer token. Close it, or use it in a ``with``.

    Defaults: ``RAGASSAY_SERVER`` and ``RAGASSAY_SERVER_KEY``. A job is named by its id or by its Job. Raises Unavailable
    if the service does not answer, and ServiceError with the code, text and hint of a problem document.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        import httpx

        settings = Settings()
        self._server_option = f" --server {url}" if url else ""
        url, key = url or settings.server, key or settings.server_key
        try:
            is_address(url)
        except ValueError as error:
            raise BadSettings(str(error), where="server") from None
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise BadSettings(f"server {url!r} is not an address", hint="write it as http://127.0.0.1:8400")
        self.server = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.server,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            trust_env=address.hostname not in _LOOPBACK,  # a proxy can't reach our loopback
        )
        self.datasets = ServiceDatasets(self)
        self.schedules = ServiceSchedules(self)

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    def submit(self, data: Any = None, **options: Any) -> Job:
        """Queue an evaluation of rows with responses; ``data`` and options as ``ragassay.evaluate`` takes them.

        ``systems``: responses by name. None for a name, or a list of names, asks systems that the service's operator
        registered. A stored dataset, ``NAME`` or ``NAME@VERSION``, is uploaded if the service lacks it.
        """
        return self.submit_configured(*submission.configured(data, options), warn)

    def submit_configured(
        self,
        configuration: Configuration,
        given: Given | None,
        registered: Sequence[str],
        warn: Callable[[str], object],
    ) -> Job:
        """Queue the evaluation of a configuration and of ``given`` data; ``warn`` gets a line about each doubtful row."""
        stored = submission.stored_dataset(configuration, given)
        if stored is None:
            body = submission.rows_body(configuration, given, registered, warn)
        else:
            settings = submission.settings_body(configuration, registered)
            there = self.datasets.ensure(*stored)
            body = orjson.dumps({**settings, "dataset": f"{there.name}@{there.digest}"})
        return self._queue(body)

    def _queue(self, body: bytes) -> Job:
        """Post a job. A request whose response was lost is repeated under the same idempotency key."""
        headers = {"Content-Type": _JSON, "Idempotency-Key": uuid.uuid4().hex}
        attempt = 1
        while True:
            try:
                return Job.model_validate_json(
                    self.request("POST", "/v1/jobs", content=body, headers=headers, timeout_s=_LONG_S).content
                )
            except NoConnection:
                raise
            except Unavailable as error:
                if attempt == _SUBMIT_ATTEMPTS:
                    raise
                pause_s = min(error.retry_after or 1.0, 10.0)
            attempt += 1
            time.sleep(pause_s)

    def jobs(self, status: str | None = None) -> Iterator[Job]:
        """The jobs, newest first, page by page; ``status`` keeps those that have it."""
        for page in self.pages(JobPage, "jobs", status=status):
            yield from page.jobs

    def job(self, job: str | Job) -> Job:
        """The job as it is now."""
        return self.document(Job, "GET", "jobs", _id(job))

    def wait(self, job: str | Job, progress: Callable[[Job], object] | None = None) -> Job:
        """Poll until a job has ended and return it; ``progress`` gets the job after each poll.

        Continues for two minutes while the service can't be reached. Raises BudgetReached if the job is paused, Unscored
        if it ends without a report.
        """
        now, outage_since, pause_s = self.job(job), None, _POLL_S
        while True:
            if progress is not None and outage_since is None:
                progress(now)
            if now.status in ENDED:
                break
            if now.status == "paused":
                command = f"ragassay job resume {now.id} --budget-usd USD{self._server_option}"
                raise BudgetReached(now.error or "the budget is reached", hint=f"resume with a higher one: {command}")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.1, _MAX_POLL_S)
            try:
                now, outage_since = self.job(now), None
            except Unavailable as error:
                outage_since = time.monotonic() if outage_since is None else outage_since
                if time.monotonic() - outage_since > _OUTAGE_S:
                    raise
                pause_s = error.retry_after or pause_s
        if now.status != "finished":
            raise Unscored(f"job {now.id} is {now.status}" + (f": {now.error}" if now.error else ""))
        return now

    def report(self, job: str | Job) -> EvaluationReport:
        """The report of a finished job."""
        return self.document(EvaluationReport, "GET", "jobs", _id(job), "report", timeout_s=_LONG_S)

    def results(self, job: str | Job, **selection: Any) -> Iterator[Result]:
        """The results that exist, page by page: system by system in the dataset's order.

        ``sort`` is a metric, such as "faithfulness", or "-faithfulness" for descending order; ``system``, ``category``,
        ``difficulty``, ``failed``, ``failure``, ``text`` and ``where`` (["latency_ms>=2000"]) choose rows.
        """
        for page in self.pages(ResultPage, "jobs", _id(job), "results", limit=_PAGE_SIZE, **selection):
            yield from page.results

    def compare(self, *jobs: str | Job, **options: Any) -> ComparisonReport:
        """Compare finished jobs; options are ``baseline``, ``metrics``, ``alpha``, ``correction`` and ``limit``."""
        body = {"jobs": [*map(_id, jobs)], **options}
        return self.document(ComparisonReport, "POST", "comparisons", body=body, timeout_s=_LONG_S)

    def costs(self, **options: Any) -> Costs:
        """The cost per accurate answer over the service's jobs; ``options`` as ``Costs.of_runs`` takes them."""
        query = asked(**options)
        parameters = {
            "since": query.since,
            "until": query.until,
            "zone": query.zone,
            "by": ",".join(query.by),
            "system": query.systems,
            "dataset": query.datasets,
        }
        return self.document(Costs, "GET", "costs", query=parameters, timeout_s=_LONG_S)

    def trend(self, metric: str, **options: Any) -> Trend:
        """A figure over the service's jobs; ``options``: ``system``, ``dataset``, ``judge``, ``last``, ``alpha``, ``seed``."""
        return self.document(Trend, "GET", "trends", query={"metric": metric, **options}, timeout_s=_LONG_S)

    def resume(
        self,
        job: str | Job,
        *,
        budget_usd: float | Literal["none"] | None = None,
        budget_tokens: int | Literal["none"] | None = None,
    ) -> Job:
        """Resume a paused job. A cap that is given replaces the job's, ``none`` lifts it; one that is not given stays."""
        caps = {"budget_usd": budget_usd, "budget_tokens": budget_tokens}
        return self.document(Job, "POST", "jobs", _id(job), "resume", query=caps)

    def retry(self, job: str | Job) -> Job:
        """Evaluate the failed rows of a job that has ended again; the others stay, and no call is paid twice."""
        return self.document(Job, "POST", "jobs", _id(job), "retry")

    def cancel(self, job: str | Job) -> Job:
        """Cancel a job; finished rows stay."""
        return self.document(Job, "POST", "jobs", _id(job), "cancel")

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def document(
        self,
        kind: type[Document],
        method: str,
        *parts: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        timeout_s: float = _SHORT_S,
    ) -> Document:
        """The response to a request at ``/v1/PART/PART`` as a document of that kind; ``body`` is sent as JSON."""
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"Content-Type": _JSON}
        path = route(*parts, **query or {})
        response = self.request(method, path, content=content, headers=headers, timeout_s=timeout_s)
        return kind.model_validate_json(response.content)

    def pages(self, kind: type[Page], *parts: str, **query: Any) -> Iterator[Page]:
        """The pages of a list, each requested when it is read."""
        cursor = None
        while True:
            response = self.request("GET", route(*parts, cursor=cursor, **query), timeout_s=_LONG_S)
            page = kind.model_validate_json(response.content)  # type: ignore[attr-defined]
            yield page
            if (cursor := page.next) is None:
                return

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | Path | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = _SHORT_S,
    ) -> httpx.Response:
        """A successful response; a file is sent piece by piece. Raises Unavailable and ServiceError."""
        import httpx

        timeout = httpx.Timeout(timeout_s, connect=5)
        try:
            if isinstance(content, Path):
                with content.open("rb") as file:
                    response = self._http.request(method, path, content=file, headers=headers, timeout=timeout)
            else:
                response = self._http.request(method, path, content=content, headers=headers, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            what = f"no service answers at {self.server} ({error})"
            raise NoConnection(what, hint="start one: ragassay serve api; or name it: --server URL") from None
        except httpx.TransportError as error:
            raise Unavailable(f"the connection to {self.server} was lost ({error or type(error).__name__})") from None
        if not response.is_success:
            raise _response_error(response)
        return response


def route(*parts: str, **query: Any) -> str:
    """``/v1/PART/PART?NAME=VALUE``; None is left out, a list gives the name several times."""
    used = {name: str(one).lower() if isinstance(one, bool) else one for name, one in query.items() if one is not None}
    path = "/".join(("/v1", *(quote(part, safe="@") for part in parts)))
    return f"{path}?{urlencode(used, doseq=True)}" if used else path


def _id(job: str | Job) -> str:
    return job.id if isinstance(job, Job) else job


def _response_error(response: httpx.Response) -> AssayError:
    """The error of a response that is no success."""
    try:
        problem = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        problem = None
    if not isinstance(problem, dict) or "code" not in problem:
        what = f"{response.request.url} responded {response.status_code}, but not as a ragassay service does"
        return Unavailable(what, hint="check the address: --server URL")
    if response.status_code not in (429, 503, 504):
        return ServiceError(problem)
    wait = response.headers.get("Retry-After", "")
    after = float(wait) if wait.isdecimal() else None
    return Unavailable(str(problem.get("detail")), hint=problem.get("hint"), retry_after=after)


class _Upload(NamedTuple):
    """Rows to send: a file or lines, their Content-Type, and whether their keys are those of a Sample."""

    name: str
    content: Path | bytes
    content_type: str
    ours: bool = False


class ServiceDatasets:
    """The datasets of a service. A dataset is named ``NAME`` or ``NAME@VERSION``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def import_(
        self,
        data: Any,
        name: str | None = None,
        *,
        description: str | None = None,
        map: Mapping[str, str] | None = None,  # noqa: A002 - as the option is called
        duplicates: Literal["error", "keep_first"] = "error",
    ) -> KeptVersion:
        """Keep rows as a version of ``name``. ``data``: a file, a dataset stored here, or rows as ``evaluate`` takes them.

        ``map`` and ``duplicates`` as ``ragassay.load`` takes them.
        """
        upload = _upload_of(data, name, map, duplicates)
        columns = [f"{ours}={theirs}" for ours, theirs in (map or {}).items()]
        return self._send(upload, description, columns, duplicates)

    def _send(
        self,
        upload: _Upload,
        description: str | None,
        columns: Sequence[str] = (),
        duplicates: str = "error",
    ) -> KeptVersion:
        query: dict[str, Any] = {"columns": "ours"}
        if not upload.ours:
            query = {"map": columns, "duplicates": None if duplicates == "error" else duplicates}
        path = route("datasets", upload.name, description=description, **query)
        headers = {"Content-Type": upload.content_type}
        response = self._client.request("PUT", path, content=upload.content, headers=headers, timeout_s=_LONG_S)
        return KeptVersion.model_validate_json(response.content)

    def ensure(self, version: DatasetVersion, rows: Path) -> DatasetVersion:
        """The version at the service, which gets its ``rows`` if it lacks them."""
        try:
            return self.show(f"{version.name}@{version.digest}")
        except ServiceError as error:
            if error.status != 404:
                raise
        upload = _Upload(version.name, rows, _TABLES[".jsonl"], ours=True)
        return self._send(upload, version.description)

    def list(self) -> tuple[DatasetVersion, ...]:
        """The datasets by name, each with its latest version."""
        pages = self._client.pages(DatasetPage, "datasets", limit=_PAGE_SIZE)
        return tuple(version for page in pages for version in page.datasets)

    def show(self, dataset: str) -> DatasetVersion:
        """One version."""
        return self._client.document(DatasetVersion, "GET", "datasets", dataset)

    def rows(self, dataset: str) -> Iterator[Sample]:
        """The rows in their order, page by page."""
        for page in self._client.pages(RowPage, "datasets", dataset, "rows", limit=_PAGE_SIZE):
            yield from page.rows

    def delete(self, dataset: str) -> tuple[DatasetVersion, ...]:
        """Delete NAME@VERSION, or all versions of NAME, and return them. Jobs have copies of their rows."""
        return self._client.document(DeletedVersions, "DELETE", "datasets", dataset).deleted


def _upload_of(
    data: Any, name: str | None, mapping: Mapping[str, str] | None, duplicates: Literal["error", "keep_first"]
) -> _Upload:
    """What to send for a file, a version that is stored here, or rows in memory.

    A file that the service can read row by row is sent unchanged. Raises BadSettings if rows in memory have no name.
    """
    from ragassay.datasets.dataset import canonical_line
    from ragassay.storage.datasets import FolderDatasets, open_data

    store = FolderDatasets(Settings().home)
    if isinstance(data, str | Path):
        version = file_or_version(store, data)
        if version is not None:
            return _Upload(check_name(name or version.name), store.rows_file(version), _TABLES[".jsonl"], ours=True)
        path = Path(data)
        if path.is_file() and (kind := _TABLES.get(path.suffix.lower())):
            return _Upload(check_name(name or path.resolve().stem), path, kind)
        name = name or path.resolve().stem
    if name is None:
        raise BadSettings("rows in memory need a name", hint='import_(rows, "NAME")')
    rows = open_data(store, data, mapping=mapping, duplicates=duplicates)
    return _Upload(check_name(name), b"".join(map(canonical_line, rows)), _TABLES[".jsonl"], ours=True)


class ServiceSchedules:
    """Jobs that a service runs at planned times. A schedule is named by its name."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def add(
        self, name: str, cron: str, job: Mapping[str, Any], *, replace: bool = False, **options: Any
    ) -> JobSchedule:
        """Plan a job: the body of one without rows, such as ``{"dataset": "handbook", "systems": ["online"]}``.

        Options are ``zone`` ("UTC"), ``catch_up``, ``overlap``, ``deadline_s`` and ``paused``. ``replace``: change a
        schedule that has this name already.
        """
        planned = {"cron": cron, "job": job, **options}
        try:
            return self._client.document(JobSchedule, "POST", "schedules", body={"name": name, **planned})
        except ServiceError as error:
            if not (replace and error.status == 409):
                raise
        return self.change(name, **planned)

    def list(self) -> tuple[JobSchedule, ...]:
        """All schedules, by name."""
        return tuple(one for page in self._client.pages(SchedulePage, "schedules") for one in page.schedules)

    def show(self, name: str) -> JobSchedule:
        """One schedule, with its next times and its newest run."""
        return self._client.document(JobSchedule, "GET", "schedules", name)

    def runs(self, name: str) -> Iterator[ScheduledRun]:
        """Its runs, and the times without a run with the reason, the newest first, page by page."""
        for page in self._client.pages(RunPage, "schedules", name, "runs"):
            yield from page.runs

    def change(self, name: str, **changes: Any) -> JobSchedule:
        """Change ``cron``, ``zone``, ``job`` or an option of ``add``."""
        return self._client.document(JobSchedule, "PATCH", "schedules", name, body=changes)

    def pause(self, name: str) -> JobSchedule:
        """Start no run until ``resume``; the times in between do not count as missed."""
        return self.change(name, paused=True)

    def resume(self, name: str) -> JobSchedule:
        """Start runs again, at the next time."""
        return self.change(name, paused=False)

    def run(self, name: str) -> ScheduledRun:
        """Request a run now, in addition to those that are planned; ``runs`` has its job once a worker started it."""
        return self._client.document(ScheduledRun, "POST", "schedules", name, "run")

    def delete(self, name: str) -> JobSchedule:
        """Delete a schedule and its history; its jobs stay."""
        return self._client.document(JobSchedule, "DELETE", "schedules", name)
