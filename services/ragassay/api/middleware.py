"""Middleware: an id, a span and a log line for each request; protective headers; and no request of another site."""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import TYPE_CHECKING

from fastapi import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragassay import observability
from ragassay.api.problems import Refused, respond
from ragassay.core.addresses import is_loopback
from ragassay.service.connection import unavailable

if TYPE_CHECKING:
    from ragassay.api.prometheus import Requests

# Of every answer: a browser that shows one runs nothing of it, frames it nowhere and keeps no copy.
PROTECTIVE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_log = logging.getLogger("ragassay.api")
_BY_TLS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}  # a year
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
_SAFE = ("GET", "HEAD", "OPTIONS")
_ASKED_OFTEN = frozenset(("/healthz", "/readyz", "/metrics"))
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(:[0-9]*)?")


class ObservingMiddleware:
    """``X-Request-ID`` of the request is kept where it has the form of an id, else made; the answer has it too."""

    def __init__(self, app: ASGIApp, *, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sent_id, parent = headers.get("x-request-id", ""), headers.get("traceparent")
        request = sent_id if _REQUEST_ID.fullmatch(sent_id) else uuid.uuid4().hex
        method = scope["method"] if scope["method"] in _METHODS else "other"
        began, status, took = time.perf_counter(), 0, 0.0
        with (
            observability.about(request=request),
            observability.span(method, "server", {"http.request.method": method}, parent=parent) as span,
        ):

            async def out(message: Message) -> None:
                nonlocal status, took
                if message["type"] == "http.response.start":
                    status, took = message["status"], time.perf_counter() - began
                    MutableHeaders(scope=message)["X-Request-ID"] = request
                await send(message)

            try:
                await self._app(scope, receive, out)
            finally:
                route = getattr(scope.get("route"), "path", "none")
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "http.response.status_code": status})
                if status >= 500:
                    observability.fail(span, str(status))
                if status:
                    self._requests.answered(route, method, status, took)
                    level = logging.DEBUG if route in _ASKED_OFTEN else logging.INFO
                    fields = {"method": method, "route": route, "status": status, "duration_ms": round(took * 1000, 3)}
                    line = "%(method)s %(route)s: %(status)d in %(duration_ms).1f ms"
                    _log.log(level, line, fields, extra={"event": "request", **fields})


class SecurityMiddleware:
    """Adds the protective headers where a route has not chosen its own, for a year of TLS too with ``tls``.

    Refuses DNS rebinding (a foreign Host, if the server has no key) and cross-site requests that change something; an
    unexpected exception becomes a 503 or a 500 without its stack trace.
    """

    def __init__(self, app: ASGIApp, *, loopback_only: bool, tls: bool = False) -> None:
        self._app, self._loopback_only = app, loopback_only
        self._headers = {**PROTECTIVE, **(_BY_TLS_ONLY if tls else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def out(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        if refused := self._refused(scope["method"], Headers(scope=scope)):
            await respond(refused)(scope, receive, out)
            return
        try:
            await self._app(scope, receive, out)
        except Exception as error:
            if started:
                raise
            answer = _unexpected(error, f"{scope['method']} {scope['path']}")
            await answer(scope, receive, out)

    def _refused(self, method: str, headers: Headers) -> Refused | None:
        if self._loopback_only and not _names_loopback(headers.get("host", "")):
            return Refused(
                421,
                "misdirected",
                "this server has no key, so it answers on loopback names only",
                where="Host",
                hint="call it as 127.0.0.1 or localhost, or set RAGASSAY_BOOTSTRAP_KEY",
            )
        if method not in _SAFE and not _is_same_site(headers):
            what = "this request came from a page of another site"
            return Refused(403, "cross_site", what, hint="open the page here and send it again")
        return None


def _is_same_site(headers: Headers) -> bool:
    """Browsers say where a request comes from in Sec-Fetch-Site, older ones in Origin; other programs send neither."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2] == headers.get("host")


def _unexpected(error: Exception, request: str) -> Response:
    """A 503 while Redis is away; else a 500 that only names the entry in the log."""
    instance = f"urn:uuid:{uuid.uuid4()}"
    if away := unavailable(error):
        _log.warning("%s: %s (%s)", request, away, instance)
        return respond(away, instance=instance)
    _log.error("%s failed: %s", request, instance, exc_info=error)
    hint = f"the server's log names it {instance}"
    return respond(Refused(500, "internal", "an unexpected error", hint=hint), instance=instance)


def _names_loopback(host: str) -> bool:
    """Host is ``name``, ``name:port``, ``[::1]`` or ``[::1]:port``; HTTP/1.0 may leave it out."""
    parts = _HOST.fullmatch(host)
    return not host or (parts is not None and is_loopback(parts["name"]))
