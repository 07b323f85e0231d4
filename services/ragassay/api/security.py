"""Authentication, the check of the Host header, and unexpected exceptions without their details."""

from __future__ import annotations

import ipaddress
import logging
import re
import secrets
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from fastapi import Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragassay import telemetry
from ragassay.api.problems import Refused, respond
from ragassay.errors import BadSettings
from ragassay.settings import Settings
from ragassay.store.redis_errors import unavailable

SHORTEST_KEY = 16
Permission = Literal["submit", "read", "operate"]
_log = logging.getLogger("ragassay.api")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(:[0-9]*)?")
_bearer = HTTPBearer(auto_error=False, description="The value of RAGASSAY_BOOTSTRAP_KEY, where the server has one.")


def bootstrap_key(settings: Settings) -> str | None:
    """The key that every caller must send, or None; raises BadSettings for one that is no good."""
    key = (settings.bootstrap_key or "").strip()
    if not key:
        return None
    if len(key) < SHORTEST_KEY or not (key.isascii() and key.isprintable()) or " " in key:
        raise BadSettings(
            f"RAGASSAY_BOOTSTRAP_KEY must be {SHORTEST_KEY} or more printable ASCII characters without blanks",
            hint="make one: openssl rand -hex 24",
        )
    return key


def check_bind(host: str, settings: Settings) -> None:
    """Raise BadSettings where others could reach a server that asks for no key."""
    if bootstrap_key(settings) is None and not is_loopback(host):
        raise BadSettings(
            f"without a key the server listens on loopback only, not on {host!r}",
            hint="set RAGASSAY_BOOTSTRAP_KEY, or leave --host out",
        )


def is_loopback(host: str) -> bool:
    """Is this the name or address of this machine as only itself can reach it?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Requester:
    """Who asks: a key's project and what it may do. Without keys everybody is the default project's operator."""

    project: str = "default"
    scopes: frozenset[Permission] = frozenset(get_args(Permission))


async def authorized(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Requester:
    """Who asks; refuses a request without the key where the server has one."""
    key: str | None = request.app.state.key
    asking = Requester()
    telemetry.note(project=asking.project)
    if key is None:
        return asking
    if given is None or not secrets.compare_digest(given.credentials.encode(), key.encode()):
        raise Refused(
            401,
            "unauthorized",
            "the key is missing or wrong",
            where="Authorization",
            hint="send the header: Authorization: Bearer KEY",
            WWW_Authenticate='Bearer realm="ragassay"',
        )
    return asking


def requires(scope: Permission) -> Callable[[Requester], Awaitable[Requester]]:
    """A dependency: the caller, who must have a key with that scope."""

    async def caller(asking: Annotated[Requester, Depends(authorized)]) -> Requester:
        if scope not in asking.scopes:
            raise Refused(403, "forbidden", f"this key may not {scope}", hint=f"use one with the scope {scope!r}")
        return asking

    return caller


class SecurityMiddleware:
    """The outermost middleware.

    A web page can't reach a server without a key by a DNS name that resolves to loopback, browsers neither guess the
    type of an answer nor keep it, and an unexpected exception becomes a 503 or a 500 without its stack trace.
    """

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app, self._loopback_only = app, loopback_only

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
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        if self._loopback_only and not _names_loopback(Headers(scope=scope).get("host", "")):
            refused = Refused(
                421,
                "misdirected",
                "this server has no key, so it answers on loopback names only",
                where="Host",
                hint="call it as 127.0.0.1 or localhost, or set RAGASSAY_BOOTSTRAP_KEY",
            )
            await respond(refused)(scope, receive, out)
            return
        try:
            await self._app(scope, receive, out)
        except Exception as error:
            if started:
                raise
            answer = _unexpected(error, f"{scope['method']} {scope['path']}")
            await answer(scope, receive, out)


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
