"""What a client asks of a ragassay service, apart from how it is sent: problem documents become errors.

Each function is a generator of requests and pauses. Who drives it sends the content of each response back, or throws
the error that stands for it: ``Client`` and ``AsyncClient`` differ in nothing else.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import orjson

from ragassay import errors
from ragassay.documents import ENDED, Job, ResultPage
from ragassay.errors import AssayError, BadInput, BudgetReached, NothingToEvaluate, Unavailable, Unscored

if TYPE_CHECKING:
    import httpx

    from ragassay.config import Configuration
    from ragassay.data.dataset import Dataset

T = TypeVar("T")
JSON = {"Content-Type": "application/json"}
_TRIES = 4
_PAGE = 200
_POLL_S, _SLOWEST_POLL_S, _PATIENCE_S = 0.2, 2.0, 120.0


@dataclass(frozen=True)
class HttpRequest:
    """One request; its response's content is what comes back."""

    method: str
    path: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pause:
    """Seconds to wait."""

    seconds: float


Exchange = Generator[HttpRequest | Pause, bytes, T]


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


def body(configuration: Configuration, dataset: Dataset) -> bytes:
    """A job: what the configuration sets, and the rows instead of its keys about files, which are read here."""
    from ragassay.config.document import options
    from ragassay.data.load import load_rows
    from ragassay.errors import BadSettings

    where = str(dataset.path)
    if configuration.systems:
        what = "a job takes the responses that are in DATA, so 'systems' can't be sent"
        raise BadSettings(what, hint="use: ragassay evaluate")
    if not dataset.has_responses:
        raise NothingToEvaluate("no row has a response", where=where, hint="submit takes recorded responses")
    rows = [sample.model_dump(mode="json", exclude_defaults=True) for sample in dataset.samples]
    if (configuration.limit or configuration.map) and load_rows(rows).samples != dataset.samples:
        raise BadInput(
            "with this --map and --limit the service would read the rows differently",
            where=where,
            hint="name the columns as we do (ragassay schema sample), or use: ragassay evaluate",
        )
    read_here = {key for key, (_, option) in options().items() if option.set_by == "files"}
    job = configuration.model_dump(mode="json", exclude_unset=True, exclude=read_here)
    return orjson.dumps({**job, "dataset": dataset.name, "samples": rows})


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
    return Job.model_validate_json((yield HttpRequest("GET", _path(job))))


def cancel(job: str) -> Exchange[Job]:
    """Stop a job."""
    return Job.model_validate_json((yield HttpRequest("POST", _path(job, "cancel"))))


def report(job: str) -> Exchange[bytes]:
    """The report's JSON."""
    return (yield HttpRequest("GET", _path(job, "report")))


def page(job: str, cursor: str) -> Exchange[ResultPage]:
    """Results from a cursor on, ``0`` at first."""
    path = f"{_path(job, 'results')}?limit={_PAGE}&cursor={quote(cursor, safe='')}"
    return ResultPage.model_validate_json((yield HttpRequest("GET", path)))


def compare(jobs: tuple[str, ...], options: Mapping[str, Any]) -> Exchange[bytes]:
    """The JSON of a comparison of finished jobs."""
    content = orjson.dumps({"jobs": jobs, **options})
    return (yield HttpRequest("POST", "/v1/comparisons", content, JSON))


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


def _path(job: str, *more: str) -> str:
    return "/".join(("/v1/jobs", quote(job, safe=""), *more))


def _exit_codes() -> dict[str, int]:
    """{code: exit code} of every error in the tree."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AssayError)]
    return {kind.code: kind.exit_code for kind in kinds}
