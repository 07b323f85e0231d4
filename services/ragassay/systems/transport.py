"""An HTTP client that notes when bytes arrive, before it makes anything of them: many replies may come at once."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpcore
import httpx

from ragassay.systems.base import RequestTimer
from ragassay.systems.streaming import PACKED

CLOCK: ContextVar[RequestTimer | None] = ContextVar("of the query that is asked in this task", default=None)


class _Stamped(httpcore.AsyncNetworkStream):
    """Another stream; what is read of it is noted on the clock of the query that waits for it."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        piece = await self._stream.read(max_bytes, timeout)
        if clock := CLOCK.get():
            clock.arrived()
            await asyncio.sleep(0)  # what arrived for other queries is noted before any of it is read
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stamped(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.AnyIOBackend):
    """Connections whose reads are noted."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stamped(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class _Transport(httpx.AsyncHTTPTransport):
    def __init__(self, connections: int) -> None:
        super().__init__()
        # httpx has no option for it
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=5.0,
            network_backend=_Backend(),
        )


def client(connections: int, timeout_s: float) -> httpx.AsyncClient:
    """A client of so many connections, that follows no redirect and keeps no cookie: each query stands alone."""
    return httpx.AsyncClient(
        transport=_Transport(connections),
        timeout=timeout_s,
        headers={"Accept-Encoding": PACKED},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        follow_redirects=False,
    )
