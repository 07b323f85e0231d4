"""A client of a ragassay service: its jobs, datasets and schedules over HTTP."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

import orjson
from pydantic import BaseModel

from ragassay.analysis.trends import Trend
from ragassay.core import errors
from ragassay.core.addresses import check_address
from ragassay.core.errors import AssayError, BadSettings, BudgetReached, NothingToEvaluate, Unavailable, Unscored
from ragassay.core.jobs import ENDED, Job, JobPage, ResultPage
from ragassay.core.models import Result, Sample
from ragassay.core.schedules import JobSchedule, RunPage, ScheduledRun, SchedulePage
from ragassay.core.settings import Settings
from ragassay.datasets.columns import MapOption
from ragassay.datasets.dataset import canonical_line
from ragassay.datasets.versions import (
    DatasetPage,
    DatasetStore,
    DatasetVersion,
    DeletedVersions,
    KeptVersion,
    RowPage,
    check_name,
    file_or_version,
    open_data,
)
from ragassay.metrics.metric import names_of
from ragassay.reporting.objects import Comparison, Costs, Report

if TYPE_CHECKING:
    import httpx

    from ragassay.evaluation.inputs import Inputs

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PAGE_SIZE, _SUBMIT_ATTEMPTS = 200, 4
_SHORT_S, _LONG_S = 60.0, 3600.0  # timeouts of reading a response; the server's own limits are shorter than the second
_POLL_S, _OUTAGE_S = 1.0, 120.0


Document = TypeVar("Document", bound=BaseModel)
Page = TypeVar("Page", JobPage, ResultPage, DatasetPage, RowPage, SchedulePage, RunPage)


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
            check_address(url)
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

    def submit(self, data: Any = None, *, systems: Any = None, **options: Any) -> Job:
        """Queue an evaluation of rows with responses; ``data`` as ``ragassay.evaluate`` takes it, options as a job's body.

        ``systems``: responses by name. None for a name, or a name or list of names, evaluates systems that the service's
        operator registered. A dataset that is stored here, ``NAME`` or ``NAME@VERSION``, is uploaded if the service lacks it.
        """
        from ragassay.evaluation.inputs import load
        from ragassay.systems.functions import is_function

        names = [systems] if isinstance(systems, str) else systems or ()
        by_name = systems if isinstance(systems, Mapping) else dict.fromkeys(names)
        recorded = {name: one for name, one in by_name.items() if one is not None}
        registered = [name for name in by_name if name not in recorded]
        _refuse_local(name for name, one in recorded.items() if isinstance(one, Mapping) or is_function(one))
        if (metrics := options.get("metrics")) is not None:
            options["metrics"] = names_of(metrics)
        store = DatasetStore.of_folder(Settings().home)
        version = file_or_version(store, data) if isinstance(data, str | Path) else None
        if version is not None and not recorded:
            return self.submit_stored(version, registered, options)
        read = load(None if data is None else open_data(store, data), recorded)
        for warning in read.warnings:
            warnings.warn(warning, stacklevel=2)
        return self.submit_inputs(read, registered, options)

    def submit_stored(self, version: DatasetVersion, systems: Sequence[str], options: Mapping[str, Any]) -> Job:
        """Queue an evaluation of a dataset that is stored here, by the service's ``systems`` or its recorded responses."""
        stored = self.datasets.ensure(version)
        return self._queue({**options, "dataset": f"{stored.name}@{stored.digest}", "systems": [*systems]})

    def submit_inputs(self, read: Inputs, systems: Sequence[str], options: Mapping[str, Any]) -> Job:
        """Queue an evaluation of rows and responses that are read already, and by the service's ``systems``."""
        _refuse_local(name for name, one in read.systems.items() if one.source.called or one.source.built)
        if not systems and not any(system.responses for system in read.systems.values()):
            raise NothingToEvaluate("no row has a response", hint="name systems", option="systems")
        return self._queue({**options, **_rows(read), "systems": [*systems]})

    def _queue(self, body: Mapping[str, Any]) -> Job:
        """Post a job. A request whose response was lost is repeated under the same idempotency key."""
        headers, attempts = {"Idempotency-Key": uuid.uuid4().hex}, 1
        while True:
            try:
                return self.request(Job, "POST", "jobs", body=body, timeout_s=_LONG_S, headers=headers)
            except Unavailable as error:
                if attempts == _SUBMIT_ATTEMPTS or isinstance(error, NoConnection):
                    raise
                attempts += 1
                time.sleep(min(error.retry_after or 1.0, 10.0))

    def jobs(self, status: str | None = None) -> Iterator[Job]:
        """The jobs, newest first, page by page; ``status`` keeps those that have it."""
        for page in self.pages(JobPage, "jobs", status=status):
            yield from page.jobs

    def job(self, job: str | Job) -> Job:
        """The job as it is now."""
        return self.request(Job, "GET", "jobs", _id(job))

    def wait(self, job: str | Job, progress: Callable[[Job], object] | None = None) -> Job:
        """Poll until a job has ended and return it; ``progress`` gets the job after each poll.

        Polls as often as ``Retry-After`` of the response allows. Continues for two minutes while the service can't be
        reached. Raises BudgetReached if the job is paused, Unscored if it ends without a report.
        """
        (now, pause_s), outage_since = self._polled(job), None
        while True:
            if progress is not None and outage_since is None:
                progress(now)
            if now.status in ENDED:
                break
            if now.status == "paused":
                command = f"ragassay job resume {now.id} --budget-usd USD{self._server_option}"
                raise BudgetReached(now.error or "the budget is reached", hint=f"resume with a higher one: {command}")
            time.sleep(pause_s)
            try:
                (now, pause_s), outage_since = self._polled(now), None
            except Unavailable as error:
                outage_since = time.monotonic() if outage_since is None else outage_since
                if time.monotonic() - outage_since > _OUTAGE_S:
                    raise
                pause_s = error.retry_after or pause_s
        if now.status != "finished":
            raise Unscored(f"job {now.id} is {now.status}" + (f": {now.error}" if now.error else ""))
        return now

    def _polled(self, job: str | Job) -> tuple[Job, float]:
        """The job as it is now, and for how many seconds not to ask again."""
        response = self._response("GET", "jobs", _id(job))
        return Job.model_validate_json(response.content), _retry_after(response) or _POLL_S

    def report(self, job: str | Job) -> Report:
        """The report of a finished job."""
        return self.request(Report, "GET", "jobs", _id(job), "report", timeout_s=_LONG_S)

    def results(self, job: str | Job, **selection: Any) -> Iterator[Result]:
        """The results that exist, page by page: system by system in the dataset's order.

        ``sort`` is a metric, such as "faithfulness", or "-faithfulness" for descending order; ``system``, ``category``,
        ``difficulty``, ``failed``, ``failure``, ``text`` and ``where`` (["latency_ms>=2000"]) choose rows.
        """
        for page in self.pages(ResultPage, "jobs", _id(job), "results", limit=_PAGE_SIZE, **selection):
            yield from page.results

    def compare(self, *jobs: str | Job, **options: Any) -> Comparison:
        """Compare finished jobs; options are ``baseline``, ``metrics``, ``alpha``, ``correction`` and ``examples``."""
        body = {"jobs": [*map(_id, jobs)], **options}
        return self.request(Comparison, "POST", "comparisons", body=body, timeout_s=_LONG_S)

    def costs(self, **options: Any) -> Costs:
        """The cost per accurate answer over the service's jobs; ``options`` as ``Costs.of_runs`` takes them."""
        by = options.pop("by", None)
        groups = by if by is None or isinstance(by, str) else ",".join(by)
        return self.request(Costs, "GET", "costs", query={**options, "by": groups}, timeout_s=_LONG_S)

    def trend(self, metric: str, **options: Any) -> Trend:
        """A figure over the service's jobs; ``options``: ``system``, ``dataset``, ``judge``, ``last``, ``alpha``, ``seed``."""
        return self.request(Trend, "GET", "trends", query={"metric": metric, **options}, timeout_s=_LONG_S)

    def resume(
        self,
        job: str | Job,
        *,
        budget_usd: float | Literal["none"] | None = None,
        budget_tokens: int | Literal["none"] | None = None,
    ) -> Job:
        """Resume a paused job. A cap that is given replaces the job's, ``none`` lifts it; one that is not given stays."""
        return self._act(job, "resume", budget_usd=budget_usd, budget_tokens=budget_tokens)

    def retry(self, job: str | Job) -> Job:
        """Evaluate the failed rows of a job that has ended again; the others stay, and no call is paid twice."""
        return self._act(job, "retry")

    def cancel(self, job: str | Job) -> Job:
        """Cancel a job; finished rows stay."""
        return self._act(job, "cancel")

    def _act(self, job: str | Job, verb: str, **query: Any) -> Job:
        return self.request(Job, "POST", "jobs", _id(job), verb, query=query)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pages(self, kind: type[Page], *parts: str, **query: Any) -> Iterator[Page]:
        """The pages of a list, each requested when it is read."""
        cursor = None
        while True:
            page = self.request(kind, "GET", *parts, query={**query, "cursor": cursor}, timeout_s=_LONG_S)
            yield page
            if (cursor := page.next) is None:
                return

    def request(self, kind: type[Document], method: str, *parts: str, **sent: Any) -> Document:
        """The document at ``/v1/PART/PART``; ``sent`` as ``_response`` takes it. Raises Unavailable and ServiceError."""
        return kind.model_validate_json(self._response(method, *parts, **sent).content)

    def _response(
        self,
        method: str,
        *parts: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = _SHORT_S,
    ) -> httpx.Response:
        """The response at ``/v1/PART/PART``. ``body`` is sent as JSON, pieces of ``content`` as they are read.

        Of ``query``, None is left out and a list gives the name several times. Raises Unavailable and ServiceError.
        """
        import httpx

        if body is not None:
            content, headers = orjson.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        url = "/".join(("/v1", *(quote(part, safe="@") for part in parts)))
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        timeout = httpx.Timeout(timeout_s, connect=5)
        try:
            response = self._http.request(
                method, url, params=parameters, content=content, timeout=timeout, headers=headers
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            what = f"no service answers at {self.server} ({error})"
            raise NoConnection(what, hint="start one: ragassay serve; or name it: --server URL") from None
        except httpx.TransportError as error:
            raise Unavailable(f"the connection to {self.server} was lost ({error or type(error).__name__})") from None
        if not response.is_success:
            raise _response_error(response)
        return response


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
        map: MapOption | None = None,  # noqa: A002 - as the option is called
        duplicates: Literal["error", "keep_first"] = "error",
    ) -> KeptVersion:
        """Keep rows as a version of ``name``. ``data``: a file, a dataset stored here, or rows as ``evaluate`` takes them.

        ``map`` and ``duplicates`` as ``ragassay.load`` takes them. Raises BadSettings if rows in memory have no name.
        """
        store, path = DatasetStore.of_folder(Settings().home), Path(data) if isinstance(data, str | Path) else None
        if path is not None and (version := file_or_version(store, path)):
            return self._send(name or version.name, store.lines(version), description)
        if path is None and name is None:
            raise BadSettings("rows in memory need a name", hint='import_(rows, "NAME")')
        rows = open_data(store, data, mapping=map, duplicates=duplicates)
        kept_version = self._send(name or rows.name, (canonical_line(row) for row in rows), description)
        return kept_version.model_copy(update={"warnings": tuple(rows.warnings)})

    def _send(self, name: str, lines: Iterable[bytes], description: str | None) -> KeptVersion:
        rest = iter(lines)
        content = iter(lambda: b"".join(islice(rest, 1000)), b"")  # sent piece by piece, whatever their number
        query, headers = {"columns": "ours", "description": description}, {"Content-Type": "application/x-ndjson"}
        path = ("datasets", check_name(name))
        return self._client.request(
            KeptVersion, "PUT", *path, content=content, query=query, headers=headers, timeout_s=_LONG_S
        )

    def ensure(self, version: DatasetVersion) -> DatasetVersion:
        """A version that is stored here at the service, which gets its rows if it lacks them."""
        try:
            return self.show(f"{version.name}@{version.digest}")
        except ServiceError as error:
            if error.status != 404:
                raise
        lines = DatasetStore.of_folder(Settings().home).lines(version)
        return self._send(version.name, lines, version.description)

    def list(self) -> tuple[DatasetVersion, ...]:
        """The datasets by name, each with its latest version."""
        pages = self._client.pages(DatasetPage, "datasets", limit=_PAGE_SIZE)
        return tuple(version for page in pages for version in page.datasets)

    def show(self, dataset: str) -> DatasetVersion:
        """One version."""
        return self._client.request(DatasetVersion, "GET", "datasets", dataset)

    def rows(self, dataset: str) -> Iterator[Sample]:
        """The rows in their order, page by page."""
        for page in self._client.pages(RowPage, "datasets", dataset, "rows", limit=_PAGE_SIZE):
            yield from page.rows

    def delete(self, dataset: str) -> tuple[DatasetVersion, ...]:
        """Delete NAME@VERSION, or all versions of NAME, and return them. Jobs have copies of their rows."""
        return self._client.request(DeletedVersions, "DELETE", "datasets", dataset).deleted


class ServiceSchedules:
    """Jobs that a service runs at planned times. A schedule is named by its name."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def add(
        self, name: str, cron: str, job: Mapping[str, Any], *, replace: bool = False, **options: Any
    ) -> JobSchedule:
        """Plan a job: the body of one without rows, such as ``{"dataset": "handbook", "systems": ["online"]}``.

        Options are ``zone`` ("UTC"), ``catch_up`` and ``paused``. ``replace``: change a
        schedule that has this name already.
        """
        planned = {"cron": cron, "job": job, **options}
        try:
            return self._client.request(JobSchedule, "POST", "schedules", body={"name": name, **planned})
        except ServiceError as error:
            if not (replace and error.status == 409):
                raise
        return self.change(name, **planned)

    def list(self) -> tuple[JobSchedule, ...]:
        """All schedules, by name."""
        return tuple(one for page in self._client.pages(SchedulePage, "schedules") for one in page.schedules)

    def show(self, name: str) -> JobSchedule:
        """One schedule, with its next times and its newest run."""
        return self._client.request(JobSchedule, "GET", "schedules", name)

    def runs(self, name: str) -> Iterator[ScheduledRun]:
        """Its runs, and the times without a run with the reason, the newest first, page by page."""
        for page in self._client.pages(RunPage, "schedules", name, "runs"):
            yield from page.runs

    def change(self, name: str, **changes: Any) -> JobSchedule:
        """Change ``cron``, ``zone``, ``job`` or an option of ``add``.

        With ``paused=True`` no run starts until ``paused=False``; the times in between do not count as missed.
        """
        return self._client.request(JobSchedule, "PATCH", "schedules", name, body=changes)

    def run(self, name: str) -> ScheduledRun:
        """Request a run now, in addition to those that are planned; ``runs`` has its job once a worker started it."""
        return self._client.request(ScheduledRun, "POST", "schedules", name, "run")

    def delete(self, name: str) -> JobSchedule:
        """Delete a schedule and its history; its jobs stay."""
        return self._client.request(JobSchedule, "DELETE", "schedules", name)


def _refuse_local(systems: Iterator[str]) -> None:
    """Raise BadSettings if there is a system that only its caller can ask."""
    if local := next(systems, None):
        what = f"the service asks no system of a caller's, such as {local!r}"
        raise BadSettings(what, where="systems", hint="name one that its operator registered")


def _rows(read: Inputs) -> dict[str, Any]:
    """``dataset`` and ``samples`` of a body: each row with its response, or with the responses of several systems by name."""
    named = {name: system.responses for name, system in read.systems.items()}
    of_rows = named.pop("default", {}) if named.keys() == {"default"} else {}
    rows = []
    for sample in read.samples:
        response = of_rows.get(sample.query_id)
        row = sample.model_copy(update={"response": response}).model_dump(mode="json", exclude_defaults=True)
        by_system = {name: by_id.get(sample.query_id) for name, by_id in named.items()}
        answered = {name: one.model_dump(mode="json", exclude_defaults=True) for name, one in by_system.items() if one}
        rows.append({**row, **({"query_id": sample.query_id, "responses": answered} if named else {})})
    return {"dataset": read.dataset.name, "samples": rows}


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
    return Unavailable(str(problem.get("detail")), hint=problem.get("hint"), retry_after=_retry_after(response))


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds for which the service asks to wait."""
    seconds = response.headers.get("Retry-After", "")
    return float(seconds) if seconds.isdecimal() else None
