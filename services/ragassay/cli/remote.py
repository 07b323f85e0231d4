"""A ragassay service over HTTP, as the command line uses it: problem documents become the errors they stand for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import orjson

from ragassay import errors
from ragassay.documents import Job, ResultPage
from ragassay.errors import AssayError, BadSettings, Unavailable
from ragassay.models import Result

if TYPE_CHECKING:
    import httpx

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TRIES = 4
_PAGE = 200


class ServiceError(AssayError):
    """A problem document of the service; ``code``, ``status`` and the exit code are those of the error it stands for."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        more = problem.get("problems") or ()
        detail = "\n  ".join((str(problem.get("detail")), *map(str, more[1:])))
        super().__init__(detail, where=problem.get("where"), hint=problem.get("hint"))
        self.code, self.status = str(problem.get("code")), int(problem.get("status", 500))
        self.exit_code = _exit_codes().get(self.code, 2)


class Remote:
    """A connection to a service; to be closed, or used in a ``with``. Raises Unavailable when nothing answers."""

    def __init__(self, server: str, key: str | None = None) -> None:
        address = urlsplit(server)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise BadSettings(f"server {server!r} is not an address", hint="write it as http://127.0.0.1:8400")
        import httpx

        self.server = server.rstrip("/")
        self._http = httpx.Client(
            base_url=self.server,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(60, connect=5),
            trust_env=address.hostname not in _LOOPBACK,  # a proxy can't reach our loopback
        )

    def submit(self, body: bytes) -> Job:
        """Queue a job. A lost response is requested again under the same idempotency key."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        sent_again = False
        for attempt in range(_TRIES):
            try:
                return Job.model_validate_json(self._call("POST", "/v1/jobs", content=body, headers=headers))
            except _NoConnection:
                raise
            except Unavailable as error:
                if attempt == _TRIES - 1:
                    raise
                time.sleep(min(error.retry_after or 1.0, 10.0))
            except ServiceError as error:  # the first attempt may still be at work
                if not (sent_again and error.status == 409) or attempt == _TRIES - 1:
                    raise
                time.sleep(1)
            sent_again = True
        raise Unavailable("the service accepted no job")  # not reached

    def job(self, job: str) -> Job:
        """The job as it stands."""
        return Job.model_validate_json(self._call("GET", _path(job)))

    def cancel(self, job: str) -> Job:
        """Stop a job."""
        return Job.model_validate_json(self._call("POST", _path(job, "cancel")))

    def report(self, job: str) -> bytes:
        """The report's JSON."""
        return self._call("GET", _path(job, "report"))

    def results(self, job: str) -> Iterator[Result]:
        """All results that are there, page by page."""
        cursor: str | None = "0"
        while cursor is not None:
            path = f"{_path(job, 'results')}?limit={_PAGE}&cursor={quote(cursor, safe='')}"
            page = ResultPage.model_validate_json(self._call("GET", path))
            yield from page.results
            cursor = page.next

    def _call(
        self, method: str, path: str, *, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        import httpx

        try:
            response = self._http.request(method, path, content=content, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _NoConnection(
                f"no service answers at {self.server} ({error})",
                hint="start one: ragassay up; or name it: --server URL",
            ) from None
        except httpx.TransportError as error:
            raise Unavailable(f"the connection to {self.server} was lost ({error or type(error).__name__})") from None
        if response.is_success:
            return response.content
        raise _error(response)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def remote(server: str | None) -> Remote:
    """The service at ``server``, else the one of the settings."""
    from ragassay.settings import Settings

    settings = Settings()
    return Remote(server or settings.server, settings.server_key)


class _NoConnection(Unavailable):
    """Not even a connection; asking again at once is no use."""


def _path(job: str, *more: str) -> str:
    return "/".join(("/v1/jobs", quote(job, safe=""), *more))


def _error(response: httpx.Response) -> AssayError:
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
