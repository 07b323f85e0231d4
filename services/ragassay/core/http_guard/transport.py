"""An HTTP client whose connections go to addresses that were checked, and whose requests end in time."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpcore
import httpx

from ragassay.core.errors import BadInput
from ragassay.core.http_guard.targets import Allowed, IpAddress, check_addresses, check_port, check_url, resolved


class _Bounded(httpcore.NetworkStream):
    """Another stream, until ``deadline`` (monotonic, seconds) and for so many bytes that are read."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float, most: int) -> None:
        self._stream, self._deadline, self._left = stream, deadline, most

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        piece = self._stream.read(max_bytes, _left(self._deadline, timeout, httpcore.ReadTimeout))
        self._left -= len(piece)
        if self._left < 0:
            raise httpcore.ReadError("the answer is too long")
        return piece

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline, timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(self._deadline, timeout, httpcore.ConnectTimeout)
        return _Bounded(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline, self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float, timeout: float | None, too_late: type[httpcore.TimeoutException]) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise too_late("the request was not over in time")
    return left if timeout is None else min(timeout, left)


def _in_time(look_up: Callable[[], list[IpAddress]], deadline: float) -> list[IpAddress]:
    """What a look-up finds until the deadline: the system's has no time limit, so it is left behind in its thread."""
    found: Future[list[IpAddress]] = Future()

    def run() -> None:
        try:
            found.set_result(look_up())
        except Exception as error:  # it is raised where the answer is awaited
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return found.result(_left(deadline, None, httpcore.ConnectTimeout))
    except FutureTimeout:
        raise httpcore.ConnectTimeout("the host was not looked up in time") from None


class _CheckedBackend(httpcore.SyncBackend):
    """Looks a host up once, checks what it resolves to, and connects to that."""

    def __init__(self, allowed: Allowed, timeout_s: float, most: int) -> None:
        self._allowed, self._timeout_s, self._most = allowed, timeout_s, most

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        deadline = time.monotonic() + self._timeout_s
        try:
            check_port(host, port, self._allowed)
            addresses = _in_time(lambda: resolved(host, port), deadline)
            if not self._allowed.names(host, port):
                check_addresses(addresses, port, self._allowed)
        except BadInput as error:
            raise httpcore.ConnectError(str(error)) from None
        failure: Exception = httpcore.ConnectError("the host has no address")
        for address in addresses:
            left = _left(deadline, timeout, httpcore.ConnectTimeout)
            try:
                stream = super().connect_tcp(str(address), port, left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _Bounded(stream, deadline, self._most)
        raise failure


class _CheckedTransport(httpx.HTTPTransport):
    def __init__(self, allowed: Allowed, timeout_s: float, most: int) -> None:
        context = httpx.create_ssl_context()  # of the environment it reads SSL_CERT_FILE and SSL_CERT_DIR
        super().__init__(verify=context)
        self._allowed = allowed
        # httpx has no option for it; a connection is used once, so that its bounds are those of the request
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_keepalive_connections=0,
            network_backend=_CheckedBackend(allowed, timeout_s, most),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            check_url(request.url, allowed=self._allowed)
        except BadInput as error:
            raise httpx.UnsupportedProtocol(str(error), request=request) from None
        response = super().handle_request(request)
        response.headers.pop("content-encoding", None)  # a megabyte may unpack to a thousand
        return response


def client(allowed: Allowed, timeout_s: float, most: int) -> httpx.Client:
    """A client for what is public or allowed. Answers come as they were sent, packed or not; no cookie is kept."""
    return httpx.Client(
        transport=_CheckedTransport(allowed, timeout_s, most),
        timeout=timeout_s,
        headers={"Accept-Encoding": "identity", "User-Agent": "ragassay"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        follow_redirects=False,
        trust_env=False,
    )
