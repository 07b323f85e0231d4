"""A client of a ragassay service, for programs that wait and for programs with an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from ragassay.addresses import is_address
from ragassay.costs import asked
from ragassay.errors import AssayError, BadSettings, Unavailable
from ragassay.job_documents import Job, JobEvent
from ragassay.models import Result
from ragassay.python import exchanges
from ragassay.python.comparing import ComparisonReport
from ragassay.python.costs import Costs
from ragassay.python.exchanges import Exchange, Pause, awaited_pages, pages
from ragassay.python.report import EvaluationReport
from ragassay.python.service_alerts import AsyncServiceAlerts, AsyncServiceWebhooks, ServiceAlerts, ServiceWebhooks
from ragassay.python.service_datasets import AsyncServiceDatasets, ServiceDatasets
from ragassay.python.service_schedules import AsyncServiceSchedules, ServiceSchedules
from ragassay.python.warn import warn
from ragassay.settings import Settings

if TYPE_CHECKING:
    import httpx

    from ragassay.config import Configuration
    from ragassay.python.evaluation import Given

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
        self.server = url.rstrip("/")
        self._options: dict[str, Any] = {
            "base_url": self.server,
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "trust_env": address.hostname not in _LOOPBACK,  # a proxy can't reach our loopback
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    def _timeout(self, step: exchanges.HttpRequest) -> httpx.Timeout:
        import httpx

        return httpx.Timeout(step.timeout_s or 60, connect=5)


class Client(_Connection):
    """A service at ``url``; ``key`` is sent as a bearer token. To be closed, or used in a ``with``.

    A job is named by its id or by the Job that ``submit`` gave. Raises Unavailable where nothing answers, and
    ServiceError with the code, text and hint of a problem document: a wrong key, an unknown job, rows that don't fit.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        super().__init__(url, key)
        import httpx

        self._http = httpx.Client(**self._options)
        self.datasets = ServiceDatasets(self._run)
        self.schedules = ServiceSchedules(self._run)
        self.alerts, self.webhooks = ServiceAlerts(self._run), ServiceWebhooks(self._run)

    def submit(self, data: Any = None, **options: Any) -> Job:
        """Queue an evaluation of rows with responses; ``data`` and options as ``ragassay.evaluate`` takes them.

        ``systems`` are responses by name; None for a name, or a list of names, has the service ask registered systems. A
        stored dataset, ``NAME`` or ``NAME@VERSION``, is uploaded where the service lacks it, and named.
        """
        return self._run(_submission(*_configured(data, options), warn))

    def submit_configured(
        self, configuration: Configuration, registered: Sequence[str], warn: Callable[[str], object]
    ) -> Job:
        """Queue what a configuration says, data included, and ask ``registered`` systems; ``warn`` is told what may be wrong."""
        return self._run(_submission(configuration, None, registered, warn))

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

    def events(self, job: str | Job) -> Iterator[JobEvent]:
        """What becomes of a job, until it has ended: first as it is, then what changes. A connection that is lost is made
        again; raises Unavailable where the service is away for two minutes.
        """
        import httpx

        read, lost = exchanges.EventReader(), exchanges.Lost(self.server)
        while not read.ended:
            request = exchanges.events(_id(job), read.known)
            try:
                with self._http.stream("GET", request.path, headers=dict(request.headers)) as response:
                    if not response.is_success:
                        response.read()
                        raise exchanges.response_error(response)
                    for line in response.iter_lines():
                        lost.over()
                        if event := read.line(line):
                            yield event
                    if response.status_code == exchanges.NOTHING_MORE:
                        return
            except (httpx.TransportError, Unavailable) as error:
                time.sleep(lost.pause_s(error))

    def report(self, job: str | Job) -> EvaluationReport:
        """The report of a finished job."""
        return EvaluationReport.model_validate_json(self._run(exchanges.report(_id(job))))

    def results(self, job: str | Job, **selection: Any) -> Iterator[Result]:
        """The results that are there, page by page: system by system in the dataset's order.

        ``sort`` is a figure, such as "faithfulness", or "-faithfulness" from the largest down; ``system``, ``category``,
        ``difficulty``, ``failed``, ``failure``, ``text`` and ``where`` (["latency_ms>=2000"]) choose rows. The service does both.
        """
        for page in pages(self._run, partial(exchanges.results, _id(job), selection)):
            yield from page.results

    def compare(self, *jobs: str | Job, **options: Any) -> ComparisonReport:
        """Finished jobs side by side; options are ``baseline``, ``metrics``, ``alpha``, ``correction`` and ``limit``."""
        return ComparisonReport.model_validate_json(self._run(exchanges.compare(tuple(map(_id, jobs)), options)))

    def costs(self, **options: Any) -> Costs:
        """What accurate answers cost over the service's jobs; ``options`` as ``Costs.of_runs`` takes them."""
        return Costs.model_validate_json(self._run(exchanges.costs(_cost_parameters(options))))

    def retry(self, job: str | Job) -> Job:
        """Have the failed rows of a job that has ended evaluated again; the others stay, and nothing is paid twice."""
        return self._run(exchanges.retry(_id(job)))

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
            with _opened(step.content) as content:
                response = self._http.request(
                    step.method, step.path, content=content, headers=dict(step.headers), timeout=self._timeout(step)
                )
        except httpx.TransportError as error:
            raise exchanges.connection_error(error, self.server) from None
        return _content(response)


class AsyncClient(_Connection):
    """``Client`` for programs with an event loop: the same methods to ``await``; ``results`` is an async iterator."""

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        super().__init__(url, key)
        import httpx

        self._http = httpx.AsyncClient(**self._options)
        self.datasets = AsyncServiceDatasets(self._run)
        self.schedules = AsyncServiceSchedules(self._run)
        self.alerts, self.webhooks = AsyncServiceAlerts(self._run), AsyncServiceWebhooks(self._run)

    async def submit(self, data: Any = None, **options: Any) -> Job:
        """See ``Client.submit``."""
        configured = await asyncio.to_thread(_configured, data, options)
        return await self._run(await asyncio.to_thread(_submission, *configured, warn))

    async def job(self, job: str | Job) -> Job:
        """See ``Client.job``."""
        return await self._run(exchanges.job(_id(job)))

    async def wait(self, job: str | Job, progress: Callable[[Job], object] = _ignore) -> Job:
        """See ``Client.wait``."""
        return await self._run(exchanges.wait(await self.job(job), progress, self.server))

    async def events(self, job: str | Job) -> AsyncIterator[JobEvent]:
        """See ``Client.events``."""
        import httpx

        read, lost = exchanges.EventReader(), exchanges.Lost(self.server)
        while not read.ended:
            request = exchanges.events(_id(job), read.known)
            try:
                async with self._http.stream("GET", request.path, headers=dict(request.headers)) as response:
                    if not response.is_success:
                        await response.aread()
                        raise exchanges.response_error(response)
                    async for line in response.aiter_lines():
                        lost.over()
                        if event := read.line(line):
                            yield event
                    if response.status_code == exchanges.NOTHING_MORE:
                        return
            except (httpx.TransportError, Unavailable) as error:
                await asyncio.sleep(lost.pause_s(error))

    async def report(self, job: str | Job) -> EvaluationReport:
        """See ``Client.report``."""
        return EvaluationReport.model_validate_json(await self._run(exchanges.report(_id(job))))

    async def results(self, job: str | Job, **selection: Any) -> AsyncIterator[Result]:
        """See ``Client.results``."""
        async for page in awaited_pages(self._run, partial(exchanges.results, _id(job), selection)):
            for result in page.results:
                yield result

    async def compare(self, *jobs: str | Job, **options: Any) -> ComparisonReport:
        """See ``Client.compare``."""
        content = await self._run(exchanges.compare(tuple(map(_id, jobs)), options))
        return ComparisonReport.model_validate_json(content)

    async def costs(self, **options: Any) -> Costs:
        """See ``Client.costs``."""
        return Costs.model_validate_json(await self._run(exchanges.costs(_cost_parameters(options))))

    async def retry(self, job: str | Job) -> Job:
        """See ``Client.retry``."""
        return await self._run(exchanges.retry(_id(job)))

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
            content = _pieces(step.content) if isinstance(step.content, Path) else step.content
            response = await self._http.request(
                step.method, step.path, content=content, headers=dict(step.headers), timeout=self._timeout(step)
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


def _cost_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """A query's parameters, checked here; raises BadSettings."""
    query = asked(**options)
    prices = [f"{model}={price.input_per_1m},{price.output_per_1m}" for model, price in query.prices.items()]
    span = {"since": query.since, "until": query.until, "zone": query.zone, "by": ",".join(query.by)}
    return {**span, "system": query.systems, "dataset": query.datasets, "price": prices}


def _submission(
    configuration: Configuration, given: Given | None, registered: Sequence[str], warn: Callable[[str], object]
) -> Exchange[Job]:
    """What queues a job. Rows are read here; a stored dataset is named, and uploaded where the service lacks it."""
    from ragassay.data.versions import file_or_version
    from ragassay.python.evaluation import inputs
    from ragassay.store.datasets import FolderDatasets

    in_memory = given is not None and (given.data is not None or given.systems is not None)
    of_rows = configuration.limit is not None or configuration.labels is not None
    if configuration.data is not None and not (of_rows or in_memory or configuration.systems):
        store = FolderDatasets(Settings().home)
        version = file_or_version(store, configuration.data)
        if version is not None:
            return exchanges.submit_stored(configuration, version, store.rows_file(version), registered)
    read = inputs(configuration, given) if given else inputs(configuration)
    for warning in read.warnings:
        warn(warning)
    return exchanges.submit(exchanges.body(configuration, read, registered))


def _configured(data: Any, options: Mapping[str, Any]) -> tuple[Configuration, Given, list[str]]:
    """The configuration, what is in memory, and the names of the service's systems that are to be asked."""
    from ragassay.python.evaluation import Given, configured

    systems, registered = options.get("systems"), list[str]()
    if isinstance(systems, list | tuple):
        registered, systems = list(systems), None
    elif isinstance(systems, Mapping):
        registered = [name for name, given in systems.items() if given is None]
        systems = {name: given for name, given in systems.items() if given is not None} or None
    rest = {key: value for key, value in options.items() if key != "systems"}
    configuration, given = configured(data, rest if systems is None else {**rest, "systems": systems}, remote=True)
    return configuration, Given(given.data, systems), registered


@contextmanager
def _opened(content: bytes | Path | None) -> Iterator[bytes | BinaryIO | None]:
    """A file is sent piece by piece."""
    if not isinstance(content, Path):
        yield content
        return
    with content.open("rb") as file:
        yield file


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 2**20):
            yield piece
