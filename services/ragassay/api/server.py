"""The HTTP server around the application: uvicorn, with a limit on how long a request may take to begin."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from http import HTTPStatus

import h11
from fastapi import FastAPI
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragassay.api.middleware import PROTECTIVE
from ragassay.api.problems import Refused, respond

STOPS_WITHIN_S = 3
HEADERS_WITHIN_S = 10.0


class _HttpProtocol(H11Protocol):
    """Closes a connection that does not complete a request's headers in time, however slowly it goes on sending.

    uvicorn has a limit for connections that are idle between requests, but none for those that send a little. The body
    has limits of its own, once the application reads it. What is no HTTP is answered by a problem document too.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what can't be read as a request, and close. uvicorn calls this where it handles h11's error."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        what = str(error or msg).partition(": bytearray")[0]  # what follows is the bytes themselves
        refused = Refused(status, "bad_request", f"the request is not HTTP as we read it: {what}")
        answer = respond(refused)
        headers = [*answer.raw_headers, *((name.encode(), value.encode()) for name, value in PROTECTIVE.items())]
        start = h11.Response(
            status_code=status, headers=[*headers, (b"connection", b"close")], reason=HTTPStatus(status).phrase.encode()
        )
        with suppress(h11.LocalProtocolError):  # an answer has begun already
            for event in (start, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _set_deadline(self) -> None:
        """The time runs from the first byte while no request is being answered, and stops when one is."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._clear_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADERS_WITHIN_S, self.timeout_keep_alive_handler)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def server(app: FastAPI, *, host: str, port: int, **options: object) -> Server:
    """A server that is not running yet. ``options`` are uvicorn's."""
    defaults = {
        "server_header": False,
        "timeout_graceful_shutdown": STOPS_WITHIN_S,
        "http": _HttpProtocol,
        "ws": "none",
    }
    return Server(Config(app, host=host, port=port, **{**defaults, **options}))  # type: ignore[arg-type]
