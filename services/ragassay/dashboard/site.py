"""How a page is made: templates, the content security policy, errors that are pages too."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache, partial, wraps
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlencode

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ragassay.core.errors import AssayError, BadInput, TooLarge
from ragassay.core.formatting import minute, number
from ragassay.reporting.document import Document
from ragassay.reporting.exporters import Exporters
from ragassay.reporting.failing import words
from ragassay.reporting.files import MEDIA_TYPES
from ragassay.reporting.page import environment
from ragassay.reporting.row import outcome
from ragassay.service.connection import unavailable

_log = logging.getLogger("ragassay.dashboard")
HERE = Path(__file__).parent
A_PAGE = 50  # runs, or rows
AT_ONCE = 2  # analyses and submissions at a time: each may take seconds of CPU and 150 MB
MAX_PLACES = 10**9
LONGEST_S = 60.0  # that a form may take to arrive
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
NAVIGATION = {
    "Runs": "/ui/runs",
    "Compare": "/ui/compare",
    "Trends": "/ui/trends",
    "Cost": "/ui/cost",
    "Datasets": "/ui/datasets",
}
OF_SERVICE = {"Live": "/ui/live", "Schedules": "/ui/schedules", "Alerts": "/ui/alerts"}
SearchText = Annotated[str, Query(max_length=200)]
AnyForm = Annotated[str, Query(max_length=30, alias="as")]  # the page, or a file of a format
Start = Annotated[int, Query(ge=0, le=MAX_PLACES, alias="from")]
T = TypeVar("T")


def address_of(values: Mapping[str, Any]) -> str:
    """The values as an address has them; those that are empty left out."""
    return urlencode({key: value for key, value in values.items() if value not in (None, "", ())}, doseq=True)


class CachedFiles(StaticFiles):
    """Static files below ``path``, which browsers keep for a year under an address that has the digest of the content."""

    def __init__(self, path: str, **where: Any) -> None:
        super().__init__(**where)
        self.path = path

    def address(self, name: str) -> str:
        """Of the file as it is now; raises FileNotFoundError."""
        full_path, found = self.lookup_path(name)
        if found is None:
            raise FileNotFoundError(name)
        return f"{self.path}/{name}?v={_digest(full_path, found.st_mtime_ns)}"

    def file_response(
        self, full_path: Any, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """The file; to be kept only if the address has its digest, so that none is kept under that of another version."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        if scope["query_string"].decode("latin-1") == f"v={_digest(str(full_path), stat_result.st_mtime_ns)}":
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


@cache
def _digest(path: str, changed_ns: int) -> str:  # noqa: ARG001 - a file that has changed is read again
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


STATIC = CachedFiles("/ui/static", directory=HERE / "static", packages=[("ragassay.reporting", "static")])


class Pager(NamedTuple):
    """Where the page before and the one after begin, None if there is none; what is shown, in words, if that is known."""

    previous: int | None
    next: int | None
    position: str


def pager_of(start: int, more: bool, total: int | None) -> Pager:
    """Of a page that begins at ``start``; ``more``: one follows, which ``total`` tells if it is known."""
    end = start + A_PAGE
    position = "" if total is None else f"{start + 1:,} to {min(end, total):,} of {total:,}"
    following = more if total is None else end < total
    return Pager(max(start - A_PAGE, 0) if start else None, end if following else None, position)


_TEMPLATES = environment(HERE / "templates")
_TEMPLATES.globals |= {"version": metadata.version("ragassay"), "pager_of": pager_of, "static": STATIC.address}
_TEMPLATES.filters |= {
    "query": address_of,
    "minute": minute,
    "number": number,
    "outcome": outcome,
    "words": words,
}


def file(content: bytes | Iterable[bytes], name: str, form: str) -> Response:
    """A file of that name in a format, which a browser stores and does not show; parts are sent as they come."""
    kind = MEDIA_TYPES.get(form, "application/octet-stream")
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"', "X-Content-Type-Options": "nosniff"}
    if isinstance(content, bytes):
        return Response(content, headers=headers, media_type=kind)
    return StreamingResponse(content, headers=headers, media_type=kind)


def exported(name: str, exporters: Exporters[Any], document: object, form: str) -> Response:
    """A document as a file; raises UnknownName, MissingExtra."""
    return file(exporters.whole(document, form), name, form.lower())


def shown(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page that a template makes of the values."""
    library = getattr(request.state, "library", None)  # not where nobody is signed in
    navigation = NAVIGATION | (OF_SERVICE if library is not None and library.of_service else {})
    shared = {"here": request.url.path, "signed_in": getattr(request.state, "signed_in", ""), "navigation": navigation}
    text = _TEMPLATES.get_template(template).render(**shared, **values)
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}  # without one, forms have no origin
    return HTMLResponse(text, status_code=status, headers=headers)


class Field(NamedTuple):
    """A field of a page's form: an input of a ``kind``, or a choice of ``options`` and, by another text, of none of them."""

    label: str
    name: str
    value: object = ""
    kind: str = "text"
    options: Sequence[str] = ()
    none: str = ""


def shown_document(request: Request, document: Document, **given: Any) -> HTMLResponse:
    """A page that is a document, with ``crumbs`` and ``links`` (addresses by text), and ``fields`` of its form.

    ``commands``: a sentence, and what to run. ``start`` or ``after``: where it begins, beside what is ``asked``; ``more``:
    whether, or after what, it goes on.
    """
    absent = dict.fromkeys(("commands", "start", "after", "more", "fields"))
    return shown(request, "page.html", document=document, **{"crumbs": {}, "links": {}, "asked": {}, **absent, **given})


class Elsewhere(AssayError):
    """What answers this is another page."""

    def __init__(self, address: str) -> None:
        super().__init__(f"see {address}")
        self.address = address


class _PageRoute(APIRoute):
    """A route whose errors are pages too."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        answer = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except Elsewhere as other:
                return RedirectResponse(other.address, 303)
            except AssayError as error:
                return shown(request, "problem.html", error.status, what=error.message, hint=error.hint)
            except RequestValidationError as error:
                first = error.errors()[0]
                what = f"{first['loc'][-1]}: {first['msg']}"
                hint = "mend the address, or begin at the list of runs"
                return shown(request, "problem.html", 422, what=what, hint=hint)
            except Exception as error:
                if isinstance(error, HTTPException):
                    raise
                if away := unavailable(error):
                    return shown(request, "problem.html", away.status, what=away.message, hint=away.hint)
                name = uuid.uuid4().urn
                _log.exception("unexpected error on a page, %s", name)
                hint = f"try again; whoever runs this finds what happened in the log, under {name}"
                return shown(request, "problem.html", 500, what="something broke that should not have", hint=hint)

        return answered


def body(max_bytes: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency: what was sent, so many bytes at the most; raises TooLarge, and BadInput for what comes too slowly."""

    async def sent(request: Request) -> bytes:
        try:
            pieces = limited(request, max_bytes, LONGEST_S, "send less at a time")
            return b"".join([piece async for piece in pieces])
        except (TimeoutError, ClientDisconnect):
            raise BadInput(f"the form did not arrive whole within {LONGEST_S:.0f} s", hint="send it again") from None

    return sent


async def limited(request: Request, limit: int, within_s: float, hint: str) -> AsyncGenerator[bytes, None]:
    """The pieces of the body. The limit holds while it arrives, whatever Content-Length says.

    Raises TooLarge with the hint, TimeoutError for a body that is too slow, ClientDisconnect for one that breaks off.
    """
    size, announced = 0, request.headers.get("content-length", "")
    too_large = TooLarge(f"the body is larger than {limit:,} bytes", hint=hint)
    if announced.isdecimal() and int(announced[:30]) > limit:
        raise too_large
    pieces, until = request.stream(), time.monotonic() + within_s
    while True:
        async with asyncio.timeout(until - time.monotonic()):
            piece = await anext(pieces, None)
        if piece is None:
            return
        size += len(piece)
        if size > limit:
            raise too_large
        yield piece


def form_of(sent: bytes) -> dict[str, str]:
    """The fields of a form, the last value of each; raises BadInput."""
    try:
        return {name: values[-1] for name, values in parse_qs(sent.decode(), max_num_fields=20).items()}
    except ValueError as error:
        raise BadInput(f"the form can't be read ({error})") from None


async def analyse(request: Request, work: Callable[[], T]) -> T:
    """What ``work`` returns, from a thread. Few run at a time, so that threads are left for all other requests."""
    return await to_thread.run_sync(work, limiter=request.app.state.analyses)


def analysis(page: Callable[..., Response]) -> Callable[..., Awaitable[Response]]:
    """A page that takes seconds, as ``analyse`` makes it."""

    @wraps(page)
    async def analysed(request: Request, **asked: Any) -> Response:
        return await analyse(request, partial(page, request, **asked))

    return analysed


def pages() -> APIRouter:
    """A router for some of the pages."""
    return APIRouter(route_class=_PageRoute, include_in_schema=False)
