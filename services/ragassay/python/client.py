"""A client of a ragassay service, for programs that wait and for programs with an event loop."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ragassay.documents import Job
from ragassay.errors import AssayError, BadSettings
from ragassay.models import Result
from ragassay.options import is_address
from ragassay.python import exchanges
from ragassay.python.comparing import ComparisonReport
from ragassay.python.exchanges import Exchange, Pause
from ragassay.python.report import EvaluationReport
from ragassay.settings import Settings

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _ignore(job: Job) -> None:
    """Nobody wants to see the job."""


class _Connection:
    """Where a service is, and how it is connected to."""

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        """The address and the key; by default ``RAGASSAY_SERVER`` and ``RAGASSAY_SERVER_KEY``."""
        settings = Settings()
        url, key = url or settings.server, key or settings.server_key
        try:
            is_address(url)
        except ValueError as error:
            raise BadSettings(str(error), where="server") from None
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise BadSettings(f"server {url!r} is not an address", hint="write it as http://127.0.0.1:8400")
        import httpx

        self.server = url.rstrip("/")
        self._options: dict[str, Any] = {
            "base_url": self.server,
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "timeout": httpx.Timeout(60, connect=5),
            "trust_env": address.hostname not in _LOOPBACK,  # a proxy can't reach our loopback
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"


class Client(_Connection):
    """A service at ``url``; ``key`` is sent as a bearer token. To be closed, or used in a ``with``.

    A job is named by its id or by the Job that ``submit`` gave. Raises Unavailable where nothing answers, and
    ServiceError with the code, text and hint of a problem document: a wrong key, an unknown job, rows that don't fit.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        super().__init__(url, key)
        import httpx

        self._http = httpx.Client(**self._options)

    def submit(self, data: Any = None, **options: Any) -> Job:
        """Queue an evaluation of rows with responses; ``data`` and options as ``ragassay.evaluate`` takes them."""
        return self.send(_body(data, options))

    def send(self, body: bytes) -> Job:
        """Queue the job of a body that is written already."""
        return self._run(exchanges.submit(body))

    def job(self, job: str | Job) -> Job:
        """The job as it stands."""
        return self._run(exchanges.job(_id(job)))

    def wait(self, job: str | Job, progress: Callable[[Job], object] = _ignore) -> Job:
        """The job when it has ended; ``progress`` gets it each time it is looked at.

        Raises BudgetReached where it is paused, Unscored where it has ended without a report.
        """
        return self._run(exchanges.wait(self.job(job), progress, self.server))

    def report(self, job: str | Job) -> EvaluationReport:
        """The report of a finished job."""
        return EvaluationReport.model_validate_json(self._run(exchanges.report(_id(job))))

    def results(self, job: str | Job) -> Iterator[Result]:
        """The results that are there, in the dataset's order, page by page."""
        cursor: str | None = "0"
        while cursor is not None:
            page = self._run(exchanges.page(_id(job), cursor))
            yield from page.results
            cursor = page.next

    def compare(self, *jobs: str | Job, **options: Any) -> ComparisonReport:
        """Finished jobs side by side; options are ``baseline``, ``metrics``, ``alpha``, ``correction`` and ``limit``."""
        return ComparisonReport.model_validate_json(self._run(exchanges.compare(tuple(map(_id, jobs)), options)))

    def cancel(self, job: str | Job) -> Job:
        """Stop a job; what is done stays."""
        return self._run(exchanges.cancel(_id(job)))

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self, exchange: Exchange[T]) -> T:
        try:
            step = next(exchange)
            while True:
                try:
                    content = self._do(step)
                except AssayError as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(content)
        except StopIteration as end:
            result: T = end.value
            return result

    def _do(self, step: exchanges.HttpRequest | Pause) -> bytes:
        import httpx

        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return b""
        try:
            response = self._http.request(step.method, step.path, content=step.content, headers=dict(step.headers))
        except httpx.TransportError as error:
            raise exchanges.connection_error(error, self.server) from None
        return _content(response)


class AsyncClient(_Connection):
    """``Client`` for programs with an event loop: the same methods to ``await``; ``results`` is an async iterator."""

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        super().__init__(url, key)
        import httpx

        self._http = httpx.AsyncClient(**self._options)

    async def submit(self, data: Any = None, **options: Any) -> Job:
        """See ``Client.submit``."""
        return await self._run(exchanges.submit(await asyncio.to_thread(_body, data, options)))

    async def job(self, job: str | Job) -> Job:
        """See ``Client.job``."""
        return await self._run(exchanges.job(_id(job)))

    async def wait(self, job: str | Job, progress: Callable[[Job], object] = _ignore) -> Job:
        """See ``Client.wait``."""
        return await self._run(exchanges.wait(await self.job(job), progress, self.server))

    async def report(self, job: str | Job) -> EvaluationReport:
        """See ``Client.report``."""
        return EvaluationReport.model_validate_json(await self._run(exchanges.report(_id(job))))

    async def results(self, job: str | Job) -> AsyncIterator[Result]:
        """See ``Client.results``."""
        cursor: str | None = "0"
        while cursor is not None:
            page = await self._run(exchanges.page(_id(job), cursor))
            for result in page.results:
                yield result
            cursor = page.next

    async def compare(self, *jobs: str | Job, **options: Any) -> ComparisonReport:
        """See ``Client.compare``."""
        content = await self._run(exchanges.compare(tuple(map(_id, jobs)), options))
        return ComparisonReport.model_validate_json(content)

    async def cancel(self, job: str | Job) -> Job:
        """See ``Client.cancel``."""
        return await self._run(exchanges.cancel(_id(job)))

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, exchange: Exchange[T]) -> T:
        try:
            step = next(exchange)
            while True:
                try:
                    content = await self._do(step)
                except AssayError as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(content)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _do(self, step: exchanges.HttpRequest | Pause) -> bytes:
        import httpx

        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return b""
        try:
            response = await self._http.request(
                step.method, step.path, content=step.content, headers=dict(step.headers)
            )
        except httpx.TransportError as error:
            raise exchanges.connection_error(error, self.server) from None
        return _content(response)


def _content(response: httpx.Response) -> bytes:
    if response.is_success:
        return response.content
    raise exchanges.response_error(response)


def _id(job: str | Job) -> str:
    return job.id if isinstance(job, Job) else job


def _body(data: Any, options: dict[str, Any]) -> bytes:
    from ragassay.python.evaluation import configured, dataset

    configuration, given = configured(data, options, remote=True)
    read = dataset(configuration, given)
    for warning in read.warnings:
        warnings.warn(warning, UserWarning, stacklevel=4)
    return exchanges.body(configuration, read)
