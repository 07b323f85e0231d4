"""Every error as a problem document (RFC 9457), whether raised by us, by validation or by the framework."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from ragassay.core.errors import AssayError, BadData
from ragassay.core.formatting import MAX_LINES, bounded, shortlist
from ragassay.core.models import FrozenModel
from ragassay.core.validation import problems_of

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


def respond(error: AssayError, *, instance: str | None = None, max_lines: int = MAX_LINES) -> Response:
    """The problem document of an error, with Retry-After where the same call may succeed later.

    ``max_lines``: how many findings are listed; the others are counted.
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
        problems=tuple(map(bounded, shortlist(several, max_lines))) or None,
        instance=instance,
    )
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, error.status, headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer our errors, bad parameters, unknown routes and methods with problem documents."""
    app.exception_handler(AssayError)(_on_assay_error)
    app.exception_handler(RequestValidationError)(_on_bad_parameters)
    app.exception_handler(HTTPException)(_on_http_exception)


async def _on_assay_error(_: Request, error: AssayError) -> Response:
    return respond(error)


async def _on_bad_parameters(_: Request, error: RequestValidationError) -> Response:
    found = problems_of({**item, "loc": item["loc"][1:]} for item in error.errors())  # without query, path or header
    return respond(BadData([f"{one.place}: {one.what}" for one in found]))


async def _on_http_exception(request: Request, error: HTTPException) -> Response:
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
    routes = [route for router in request.app.state.routers for route in router.routes if isinstance(route, APIRoute)]
    allowed = {method for route in routes if route.path_regex.match(request.url.path) for method in route.methods or ()}
    return ", ".join(sorted(allowed)) or "GET, HEAD"


DOCUMENTED: dict[int | str, dict[str, Any]] = {
    status: {"description": about, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for status, about in (("4XX", "The request was refused"), ("5XX", "The server could not answer"))
}  # the errors of every route, for OpenAPI


REFERENCED: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = [(Problem, "serialization")]
"""The models of this document that no signature of a route names."""


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """The body of a route for OpenAPI: JSON that a dependency reads once it is known who asks; FastAPI would read it first."""
    REFERENCED.append((model, "validation"))
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {"requestBody": {"required": True, "content": content}}
