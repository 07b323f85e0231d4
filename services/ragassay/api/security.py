"""Authentication: who calls, and what they may do."""

from __future__ import annotations

import ipaddress
import math
import secrets
import time
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from anyio import to_thread
from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes

from ragassay import observability
from ragassay.api.problems import Refused
from ragassay.core.errors import RateLimited
from ragassay.core.jobs import DEFAULT_PROJECT, PROJECT
from ragassay.core.settings import Settings
from ragassay.service.access import Access, ApiKey, Requester, asks_for_key, bootstrap_key

if TYPE_CHECKING:
    from ragassay.service.jobs import Jobs

PROJECT_HEADER = "X-Ragassay-Project"
LOOK_EVERY_S = 1.0
MAX_ADDRESSES = 10_000
WRONG_KEYS_A_MINUTE = 30  # of one address
bearer = HTTPBearer(auto_error=False, description="A key of a project, or the operator's bootstrap key.")


class Guard:
    """Recognizes the caller: by the bootstrap key or a project's key; if neither is in use, any caller on loopback.

    Whether keys are in use is looked up at most once a second until they are; while Redis is away only the bootstrap key
    is accepted.
    """

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self.bootstrap, self._locked = bootstrap_key(settings), asks_for_key(settings)
        self._jobs, self._settings = jobs, settings
        self._open_until = -math.inf
        self._wrong = WrongKeys(WRONG_KEYS_A_MINUTE)

    async def requester(self, text: str | None, project: str | None, address: str) -> Requester:
        """Who asks with a key's text; raises Refused, RateLimited, Unavailable."""
        operator = Requester(project or DEFAULT_PROJECT)
        barred_s = self._wrong.barred_s(address)
        if self.bootstrap is not None and not barred_s and is_secret(text, self.bootstrap):
            return operator
        if not self._locked and (time.monotonic() < self._open_until or await to_thread.run_sync(self._is_open)):
            return operator
        if text is None:
            raise unauthorized()
        key = await to_thread.run_sync(self._authenticated, text)
        if key is None:
            self._wrong.count(address)
            if barred_s:
                hint = "wait for as long as Retry-After says"
                raise RateLimited("too many wrong keys came from your address", hint=hint, retry_after=barred_s)
            raise unauthorized()
        if project not in (None, key.project):
            raise Refused(403, "forbidden", "this key belongs to another project", where=PROJECT_HEADER)
        return Requester(key.project, frozenset(key.scopes), everywhere=False)

    def _is_open(self) -> bool:
        if self.access.any_made():
            self._locked = True  # for good, whatever a look-up that began earlier finds
        self._open_until = time.monotonic() + LOOK_EVERY_S
        return not self._locked

    def _authenticated(self, text: str) -> ApiKey | None:
        key = self.access.authenticate(text)
        if key is not None:
            self.access.limit_rate(key)
        return key

    @cached_property
    def access(self) -> Access:
        """The keys of all projects."""
        return Access(self._jobs.store, self._settings)


class WrongKeys:
    """How many wrong keys addresses have sent lately. Remembers a bounded number of addresses, those that sent last."""

    def __init__(self, a_minute: int) -> None:
        self._every_s = 60.0 / a_minute
        self._due: OrderedDict[str, float] = OrderedDict()  # when the address has sent as many as it may

    def barred_s(self, address: str) -> float:
        """For how many seconds the address may not try; 0 where it may: a minute's number at once, then one by one."""
        left = self._due.get(_network(address), -math.inf) - time.monotonic()
        return max(0.0, left + self._every_s - 60.0)

    def count(self, address: str) -> None:
        """A wrong key came. Those that come while it is barred don't bar it for longer."""
        network, now = _network(address), time.monotonic()
        self._due[network] = min(max(now, self._due.pop(network, now)) + self._every_s, now + 60.0)
        if len(self._due) > MAX_ADDRESSES:
            self._due.popitem(last=False)


def is_secret(text: str | None, secret: str) -> bool:
    """Is the text this secret? In constant time."""
    return text is not None and secrets.compare_digest(text.encode(), secret.encode())


def _network(address: str) -> str:
    """An IPv6 network of 64 bits is one customer's; else the address itself."""
    return str(ipaddress.ip_network((address, 64), strict=False)) if ":" in address else address


def unauthorized(of: str = "; commands send RAGASSAY_SERVER_KEY") -> Refused:
    """The error for a key that is missing or no good; ``of``: which key is meant."""
    return Refused(
        401,
        "unauthorized",
        "the key is missing or wrong",
        where="Authorization",
        hint=f"send the header: Authorization: Bearer KEY{of}",
        WWW_Authenticate='Bearer realm="ragassay"',
    )


def address_of(request: Request) -> str:
    """Where a request comes from; empty where the server does not know."""
    return request.client.host if request.client else ""


async def authorized(
    request: Request,
    needed: SecurityScopes,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    project: Annotated[
        str | None,
        Header(
            alias=PROJECT_HEADER,
            pattern=f"^{PROJECT}$",
            description="With the bootstrap key, or without keys: the project to act in. A project's key needs none.",
        ),
    ] = None,
) -> Requester:
    """The caller. Raise Refused without a good key where the server asks for one, or with one that lacks a scope."""
    guard: Guard = request.app.state.guard
    caller = await guard.requester(given.credentials if given else None, project, address_of(request))
    observability.note(project=caller.project)
    for scope in needed.scopes:
        require(scope, caller)
    return caller


def require(scope: str, caller: Requester) -> None:
    """Raise Refused if the caller's key lacks the scope."""
    if scope not in caller.scopes:
        raise Refused(403, "forbidden", f"this key lacks the scope {scope!r}", hint="use a key that has it")


Reader = Annotated[Requester, Security(authorized, scopes=["read"])]
Submitter = Annotated[Requester, Security(authorized, scopes=["submit"])]
Operator = Annotated[Requester, Security(authorized, scopes=["admin"])]
