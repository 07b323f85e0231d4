"""The outermost middleware: each request has an id, a span, a line in the log, and is counted."""

from __future__ import annotations

import logging
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragassay.api.prometheus import Requests
from ragassay.core import telemetry

_log = logging.getLogger("ragassay.api")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
_ASKED_OFTEN = frozenset(("/healthz", "/readyz", "/metrics"))


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
        given, parent = headers.get("x-request-id", ""), headers.get("traceparent", "")
        request = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        method = scope["method"] if scope["method"] in _METHODS else "other"
        began, status, took = time.perf_counter(), 0, 0.0
        with (
            telemetry.about(request=request),
            telemetry.span(
                method,
                "server",
                {"http.request.method": method},
                parent=parent if _TRACEPARENT.fullmatch(parent) else None,
            ) as span,
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
                    telemetry.fail(span, str(status))
                if status:
                    self._requests.answered(route, method, status, took)
                    _log.log(
                        logging.DEBUG if route in _ASKED_OFTEN else logging.INFO,
                        "%s %s: %d in %.1f ms",
                        method,
                        route,
                        status,
                        took * 1000,
                        extra={
                            "event": "request",
                            "method": method,
                            "route": route,
                            "status": status,
                            "duration_ms": round(took * 1000, 3),
                        },
                    )
