"""The HTTP application: routes, the door around them, and the OpenAPI document."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from ragassay.api import health, jobs, metrics, problems
from ragassay.api.door import Door, bootstrap_key
from ragassay.api.submission import NewJob
from ragassay.documents import Report
from ragassay.jobs import Jobs
from ragassay.settings import Settings

_ABOUT = """Judges RAG systems: retrieval, answer quality, latency and cost, and how far each number can be trusted.

Every error is a problem document (RFC 9457). Lists are read page by page: `next` of a page is the `cursor` of the one
after. Where the server has a key, `/v1` wants `Authorization: Bearer KEY`.
"""


def create_app(service: Jobs, settings: Settings) -> FastAPI:
    """The application over the use cases. Raises BadSettings for a bootstrap key that is no good."""
    app = FastAPI(
        title="ragassay",
        version=metadata.version("ragassay"),
        description=_ABOUT,
        docs_url=None,  # these pages would load their scripts from a CDN
        redoc_url=None,
        redirect_slashes=False,
    )
    key = bootstrap_key(settings)
    app.state.jobs, app.state.settings, app.state.key = service, settings, key
    for room in (jobs, metrics, health):
        app.include_router(room.router)
    problems.install(app)
    app.add_middleware(Door, loopback_only=key is None)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign] - FastAPI's documented way to extend it
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document, with the schemas that it can't know: bodies are read, and problems made, by us."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _, ours = models_json_schema(
        [(problems.Problem, "serialization"), (Report, "serialization"), (NewJob, "validation")],
        ref_template="#/components/schemas/{model}",
    )
    for name, schema in ours["$defs"].items():
        schemas.setdefault(name, schema)
    app.openapi_schema = document
    return document
