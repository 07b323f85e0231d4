"""Every error as a problem document (RFC 9457), whether raised by us, by validation or by the framework."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.exceptions import HTTPException

from ragassay.errors import AssayError, BadData
from ragassay.models import FrozenModel
from ragassay.render import MOST_LINES, bounded, shortlist
from ragassay.validation import wording

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2.0


class Problem(FrozenModel):
    """What was wrong, where, and what to do next. ``code`` is stable; ``detail`` and ``hint`` are for people."""

    type: str = "about:blank"
    title: str = Field(description="the HTTP status in words")
    status: int
    code: str = Field(description="names the kind of error; does not change between versions")
    detail: str
    where: str | None = Field(None, description="the parameter, header or row that it is about")
    hint: str | None = Field(None, description="what to do next")
    problems: tuple[str, ...] | None = Field(None, description="one line for each finding, where there are several")
    instance: str | None = Field(None, description="names this one occurrence; the server's log has it too")


class Refused(AssayError):
    """An error that HTTP has a status for and the tree of errors has not."""

    def __init__(
        self, status: int, code: str, message: str, *, where: str | None = None, hint: str | None = None, **headers: str
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.status, self.code = status, code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def respond(error: AssayError, *, instance: str | None = None, most: int = MOST_LINES) -> Response:
    """The problem document of an error, with Retry-After where the same call may succeed later.

    ``most``: how many findings are listed; the others are counted.
    """
    headers = dict(getattr(error, "headers", None) or {})
    if error.retryable:
        headers["Retry-After"] = str(math.ceil(getattr(error, "retry_after", None) or RETRY_AFTER_S))
    several = error.problems if isinstance(error, BadData) and len(error.problems) > 1 else ()
    problem = Problem(
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        code=error.code,
        detail=bounded(error.message),
        where=error.where and bounded(error.where),
        hint=error.hint and bounded(error.hint),
        problems=tuple(map(bounded, shortlist(several, most))) or None,
        instance=instance,
    )
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, error.status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer our errors, bad parameters, unknown routes and methods with problem documents."""
    app.exception_handler(AssayError)(_of_ours)
    app.exception_handler(RequestValidationError)(_of_parameters)
    app.exception_handler(HTTPException)(_of_framework)


async def _of_ours(_: Request, error: AssayError) -> Response:
    return respond(error)


async def _of_parameters(_: Request, error: RequestValidationError) -> Response:
    return respond(BadData([_in_words(item) for item in error.errors()]))


def _in_words(item: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, item['loc'][1:]))}: {wording(item)}"


async def _of_framework(request: Request, error: HTTPException) -> Response:
    if error.status_code == HTTPStatus.NOT_FOUND:
        refused = Refused(404, "not_found", f"there is no route {request.url.path}", hint="see /openapi.json")
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        what, allowed = f"{request.method} is not allowed on {request.url.path}", _methods(request)
        refused = Refused(405, "method_not_allowed", what, hint=f"allowed: {allowed}", Allow=allowed)
    else:
        refused = Refused(error.status_code, "http_error", str(error.detail), **dict(error.headers or {}))
    return respond(refused)


def _methods(request: Request) -> str:
    """Those of all routes with this path; the framework would name those of the first."""
    paths: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    routes = [paths[path] for path in paths if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), request.url.path)]
    return ", ".join(sorted(method.upper() for route in routes for method in route)) or "GET, HEAD"


_EXAMPLES = {
    400: ("bad_json", "body: line 1, column 12: is not valid JSON: expecting value", None),
    401: ("unauthorized", "the key is missing or wrong", "send the header: Authorization: Bearer KEY"),
    403: ("forbidden", "this key may not submit", "use one with the scope 'submit'"),
    404: ("not_found", "there is no job 'b1946ac92492d2347c6235b4d2611184'", "list them: GET /v1/jobs"),
    408: ("body_too_slow", "the body did not arrive within 60 s", "send it again"),
    409: ("conflict", "job b1946ac92492d2347c6235b4d2611184 is running and has no report", None),
    413: ("too_large", "the body is larger than 2,000,000 bytes", "evaluate the file itself: ragassay evaluate FILE"),
    415: ("unsupported_media_type", "the body should be application/json, is 'text/plain'", None),
    421: ("misdirected", "this server has no key, so it answers on loopback names only", None),
    422: ("bad_data", "samples: row 2: query: is empty", None),
    429: ("rate_limited", "more than 60 requests in a minute", None),
    500: ("internal", "an unexpected error", None),
    501: ("missing_extra", "reading Parquet needs the extra 'parquet'", "install it: pip install 'ragassay[parquet]'"),
    503: ("unavailable", "Redis does not answer", None),
    507: ("disk_full", "no room is left on the disk (No space left on device)", "make room"),
}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait before asking again", "schema": {"type": "integer"}}}
_CHALLENGE = {"WWW-Authenticate": {"description": "How to authenticate", "schema": {"type": "string"}}}
_HEADERS = {401: _CHALLENGE, 429: _RETRY_AFTER, 503: _RETRY_AFTER}


def takes(model: str) -> dict[str, Any]:
    """What OpenAPI is told of a route whose body is JSON that we read ourselves."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}}
    return {"requestBody": {"required": True, "content": content}}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI responses of these statuses, each a problem document with an example; ``app`` adds those of every route."""
    return {status: _documented(status) for status in statuses}


def _documented(status: int) -> dict[str, Any]:
    code, detail, hint = _EXAMPLES[status]
    phrase = HTTPStatus(status).phrase
    example = Problem(title=phrase, status=status, code=code, detail=detail, hint=hint)
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example.model_dump(exclude_none=True)}
    response: dict[str, Any] = {"description": phrase, "content": {MEDIA_TYPE: content}}
    if status in _HEADERS:
        response["headers"] = _HEADERS[status]
    return response
