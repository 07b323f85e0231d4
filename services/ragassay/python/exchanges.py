"""What a client asks of a ragassay service, apart from how it is sent: problem documents become errors.

Each function is a generator of requests and pauses. Who drives it sends the content of each response back, or throws
the error that stands for it: ``Client`` and ``AsyncClient`` differ in nothing else.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

import orjson
from pydantic import BaseModel

from ragassay import errors
from ragassay.errors import AssayError, BadInput, BadSettings, BudgetReached, NothingToEvaluate, Unavailable, Unscored
from ragassay.job_documents import ENDED, Job, JobEvent, ResultPage

if TYPE_CHECKING:
    import httpx

    from ragassay.config import Configuration
    from ragassay.data.versions import DatasetVersion
    from ragassay.runs import Inputs

T = TypeVar("T")
JSON = {"Content-Type": "application/json"}
NOTHING_MORE = 204  # of a stream of events: the job has ended, and the reader knows
_TRIES = 4
MOST_A_PAGE = 200
_POLL_S, _SLOWEST_POLL_S, _PATIENCE_S = 0.2, 2.0, 120.0


@dataclass(frozen=True)
class HttpRequest:
    """One request; its response's content is what comes back. ``timeout_s``: where it may take longer than others."""

    method: str
    path: str
    content: bytes | Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


@dataclass(frozen=True)
class Pause:
    """Seconds to wait."""

    seconds: float


Exchange = Generator[HttpRequest | Pause, bytes, T]


class Drive(Protocol):
    """What drives an exchange to its result."""

    def __call__(self, exchange: Exchange[T], /) -> T:
        """The result."""


class AwaitedDrive(Protocol):
    """The same, to be awaited."""

    def __call__(self, exchange: Exchange[T], /) -> Awaitable[T]:
        """The result, to come."""


class _ListPage(Protocol):
    @property
    def next(self) -> str | None: ...


P = TypeVar("P", bound=_ListPage)
M = TypeVar("M", bound=BaseModel)


def route(*parts: str, **query: Any) -> str:
    """``/v1/PART/PART?NAME=VALUE``; what is None is left out, each of several values is given."""
    given = {name: str(one).lower() if isinstance(one, bool) else one for name, one in query.items() if one is not None}
    path = "/".join(("/v1", *(quote(part, safe="@") for part in parts)))
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


class ServiceError(AssayError):
    """A problem document of the service; ``code``, ``status`` and the exit code are those of the error it stands for."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        more = problem.get("problems") or ()
        detail = "\n  ".join((str(problem.get("detail")), *map(str, more[1:])))
        super().__init__(detail, where=problem.get("where"), hint=problem.get("hint"))
        self.code, self.status = str(problem.get("code")), int(problem.get("status", 500))
        self.exit_code = _exit_codes().get(self.code, 2)


class NoConnection(Unavailable):
    """Not even a connection; asking again at once is no use."""


def body(configuration: Configuration, read: Inputs, registered: Sequence[str] = ()) -> bytes:
    """A job: what the configuration sets, and the rows instead of its keys about files, which are read here.

    ``registered``: the service's own systems that it shall ask.
    """
    from ragassay.data.load import load_rows

    where = str(configuration.data or "data")
    if brought := next((name for name, one in read.systems.items() if one.source.called or one.source.built), None):
        what = f"the service asks no system of a caller's, such as {brought!r}"
        raise BadSettings(what, where="systems", hint="name one that its operator registered: --system NAME")
    if not registered and not any(system.responses for system in read.systems.values()):
        raise NothingToEvaluate("no row has a response", where=where, hint="name a system: --system NAME=FILE")
    named = {name: system.responses for name, system in read.systems.items()}
    of_rows = named.pop("default", {}) if named.keys() == {"default"} else {}
    samples = [sample.model_copy(update={"response": of_rows.get(sample.query_id)}) for sample in read.samples]
    rows = [sample.model_dump(mode="json", exclude_defaults=True) for sample in samples]
    if (configuration.limit or configuration.map) and load_rows(rows).samples != tuple(samples):
        raise BadInput(
            "with this --map and --limit the service would read the rows differently",
            where=where,
            hint="name the columns as we do (ragassay schema sample), or use: ragassay evaluate",
        )
    for row, sample in zip(rows, samples, strict=True):
        given = {name: responses.get(sample.query_id) for name, responses in named.items()}
        answered = {name: one.model_dump(mode="json", exclude_defaults=True) for name, one in given.items() if one}
        row |= {"query_id": sample.query_id, "responses": answered} if named else {}
    return orjson.dumps({**remote(configuration, registered), "dataset": read.dataset.name, "samples": rows})


def remote(configuration: Configuration, registered: Sequence[str]) -> dict[str, Any]:
    """What of a configuration a service is told; raises BadSettings for the judge's prompt, and as ``read_calibration``."""
    from ragassay.config.document import options
    from ragassay.judges.calibration import read_calibration

    if configuration.judge_prompt:
        what = "the service's operator sets the judge's prompt, so 'judge_prompt' can't be sent"
        raise BadSettings(what, hint="leave it out, or use: ragassay evaluate")
    read_here = {key for key, (_, option) in options().items() if option.set_by == "files"}
    sent = configuration.model_dump(mode="json", exclude_unset=True, exclude=read_here)
    if configuration.calibration:
        sent["calibration"] = [read_calibration(file).model_dump(mode="json") for file in configuration.calibration]
    return {**sent, **({"systems": list(registered)} if registered else {})}


def submit_stored(
    configuration: Configuration, version: DatasetVersion, rows: Path, registered: Sequence[str]
) -> Exchange[Job]:
    """Queue a job that names a dataset stored here, whose ``rows`` are uploaded where the service lacks them."""
    from ragassay.python.service_datasets import ensure

    settings = remote(configuration, registered)
    there = yield from ensure(version, rows)
    return (yield from submit(orjson.dumps({**settings, "dataset": f"{there.name}@{there.digest}"})))


def document(
    kind: type[M], method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
) -> Exchange[M]:
    """A request with a body of JSON, or none, whose response is a document of that kind."""
    content, headers = (None, {}) if body is None else (orjson.dumps(body), JSON)
    return kind.model_validate_json((yield HttpRequest(method, path, content, headers, timeout_s)))


def submit(body: bytes) -> Exchange[Job]:
    """Queue a job. A lost response is requested again under the same idempotency key."""
    request = HttpRequest("POST", "/v1/jobs", body, {**JSON, "Idempotency-Key": uuid.uuid4().hex})
    sent_again = False
    for attempt in range(_TRIES):
        try:
            return Job.model_validate_json((yield request))
        except NoConnection:
            raise
        except Unavailable as error:
            if attempt == _TRIES - 1:
                raise
            yield Pause(min(error.retry_after or 1.0, 10.0))
        except ServiceError as error:  # the first attempt may still be at work
            if not (sent_again and error.status == 409) or attempt == _TRIES - 1:
                raise
            yield Pause(1)
        sent_again = True
    raise Unavailable("the service accepted no job")  # not reached


def job(job: str) -> Exchange[Job]:
    """The job as it stands."""
    return document(Job, "GET", route("jobs", job))


def retry(job: str) -> Exchange[Job]:
    """The job, with its failed rows under way again."""
    return document(Job, "POST", route("jobs", job, "retry"))


def cancel(job: str) -> Exchange[Job]:
    """Stop a job."""
    return document(Job, "POST", route("jobs", job, "cancel"))


def report(job: str) -> Exchange[bytes]:
    """The report's JSON."""
    return (yield HttpRequest("GET", route("jobs", job, "report")))


def results(job: str, selection: Mapping[str, Any], cursor: str | None) -> Exchange[ResultPage]:
    """A page of the results that are selected: the first, or the one of a cursor."""
    return document(ResultPage, "GET", route("jobs", job, "results", limit=MOST_A_PAGE, cursor=cursor, **selection))


def all_pages(ask: Callable[[str | None], Exchange[P]]) -> Exchange[list[P]]:
    """The pages of a list: ``ask`` is for the first one, or for that of a cursor."""
    found = [(yield from ask(None))]
    while (cursor := found[-1].next) is not None:
        found.append((yield from ask(cursor)))
    return found


def pages(run: Drive, ask: Callable[[str | None], Exchange[P]]) -> Iterator[P]:
    """The same, each when it is asked for."""
    cursor = None
    while True:
        page = run(ask(cursor))
        yield page
        if (cursor := page.next) is None:
            return


async def awaited_pages(run: AwaitedDrive, ask: Callable[[str | None], Exchange[P]]) -> AsyncIterator[P]:
    """The same where ``run`` is to be awaited."""
    cursor = None
    while True:
        page = await run(ask(cursor))
        yield page
        if (cursor := page.next) is None:
            return


def events(job: str, known: str | None) -> HttpRequest:
    """The request for what has changed since the event with this id, and then for what becomes of the job."""
    return HttpRequest("GET", route("jobs", job, "events"), headers={"Last-Event-ID": known} if known else {})


class EventReader:
    """Reads events line by line as they come. ``known`` is the id of the last one."""

    def __init__(self) -> None:
        self.known: str | None = None
        self.ended = False
        self._fields: dict[str, str] = {}

    def line(self, line: str) -> JobEvent | None:
        """The event that this line completes."""
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")  # a comment has no name
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        event = JobEvent.model_validate(
            {"job": orjson.loads(fields["data"]), "event": fields["event"], "id": fields["id"]}
        )
        self.known, self.ended = event.id, event.event == "finished"
        return event


class Lost:
    """How long a connection has been lost."""

    def __init__(self, server: str) -> None:
        self._server, self._pause_s = server, _POLL_S
        self._since: float | None = None

    def over(self) -> None:
        """Something has arrived."""
        self._since, self._pause_s = None, _POLL_S

    def pause_s(self, error: httpx.TransportError | Unavailable) -> float:
        """Seconds to wait before it is made again; raises what it stands for after two minutes."""
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since > _PATIENCE_S:
            raise error if isinstance(error, Unavailable) else connection_error(error, self._server)
        self._pause_s = min(self._pause_s * 1.5, _SLOWEST_POLL_S)
        return self._pause_s


def compare(jobs: tuple[str, ...], options: Mapping[str, Any]) -> Exchange[bytes]:
    """The JSON of a comparison of finished jobs."""
    content = orjson.dumps({"jobs": jobs, **options})
    return (yield HttpRequest("POST", "/v1/comparisons", content, JSON))


def costs(asked: Mapping[str, Any]) -> Exchange[bytes]:
    """The JSON of a cost report over jobs."""
    return (yield HttpRequest("GET", route("costs", **asked)))


def wait(waited: Job, seen: Callable[[Job], object], server: str) -> Exchange[Job]:
    """Ask until the job has ended, through restarts of the service too; ``seen`` is told each answer.

    Raises BudgetReached while it is paused, Unscored when it has ended without a report.
    """
    lost_since, pause = None, _POLL_S
    seen(waited)
    while waited.status not in ENDED:
        if waited.status == "paused":
            path = f"POST {server}/v1/jobs/{waited.id}/resume?budget_usd=MORE"
            raise BudgetReached(waited.error or "the budget is reached", hint=f"go on with a higher one: {path}")
        yield Pause(pause)
        pause = min(pause * 1.1, _SLOWEST_POLL_S)
        try:
            waited, lost_since = (yield from job(waited.id)), None
        except Unavailable:
            lost_since = time.monotonic() if lost_since is None else lost_since
            if time.monotonic() - lost_since > _PATIENCE_S:
                raise
            continue
        seen(waited)
    if waited.status != "finished":
        raise Unscored(f"job {waited.id} is {waited.status}" + (f": {waited.error}" if waited.error else ""))
    return waited


def connection_error(error: httpx.TransportError, server: str) -> Unavailable:
    """What a request that got no response stands for."""
    import httpx

    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return NoConnection(
            f"no service answers at {server} ({error})", hint="start one: ragassay up; or name it: --server URL"
        )
    return Unavailable(f"the connection to {server} was lost ({error or type(error).__name__})")


def response_error(response: httpx.Response) -> AssayError:
    """What a response that is no success stands for."""
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


def _exit_codes() -> dict[str, int]:
    """{code: exit code} of every error in the tree."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AssayError)]
    return {kind.code: kind.exit_code for kind in kinds}
