"""The HTTP application: routes, middleware, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from ragassay import telemetry
from ragassay.api import comparisons, datasets, examples, health, jobs, metrics, page, problems, prometheus, systems
from ragassay.api.comparisons import NewComparison
from ragassay.api.events import Watch
from ragassay.api.observing import ObservingMiddleware
from ragassay.api.security import SecurityMiddleware, bootstrap_key
from ragassay.api.submission import NewJob
from ragassay.compare.models import Comparison
from ragassay.datasets import SplitOptions
from ragassay.documents import Report
from ragassay.gates import GateReport
from ragassay.job_documents import JobEvent
from ragassay.jobs import Jobs
from ragassay.judges.instructions import read_prompt
from ragassay.models import Sample
from ragassay.settings import Settings

AT_ONCE = 2  # submissions at a time, and comparisons: each may take seconds of CPU and 150 MB, and others want answers
_NO_SPANS_OF_ITS_OWN: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}  # FastAPI 0.165
_ABOUT = """Judges RAG systems: retrieval, answer quality, latency and cost, and how far each number can be trusted.

Every error is a problem document (RFC 9457). Lists are read page by page: `next` of a page is the `cursor` of the one
after. Where the server has a key, `/v1` requires `Authorization: Bearer KEY`.
"""


class Api(FastAPI):
    """FastAPI, with the schemas in its document that it can't know: bodies are read, and problems made, by us."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document; made once."""
        if not self.openapi_schema:
            self.openapi_schema = document = super().openapi()
            schemas = document["components"]["schemas"]
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            schemas.update({name: schema for name, schema in _schemas().items() if name not in schemas})
            for operation in (each for path in document["paths"].values() for each in path.values()):
                _correct(operation, key_needed=self.state.key is not None)
        return self.openapi_schema


def _correct(operation: dict[str, Any], *, key_needed: bool) -> None:
    """Remove the framework's own errors, which we never send; add an example, and whether a key is needed."""
    answers = operation["responses"]
    if "application/json" in answers.get("422", {}).get("content", {}):
        del answers["422"]
    if example := examples.responses().get(operation["operationId"]):
        success = next(answer for status, answer in answers.items() if status.startswith("2"))
        next(iter(success["content"].values()))["example"] = example
    if "security" in operation and not key_needed:
        operation["security"].append({})


def _schemas() -> dict[str, Any]:
    _, ours = models_json_schema(
        [
            (problems.Problem, "serialization"),
            *((kind, "serialization") for kind in (Report, Comparison, GateReport, JobEvent)),
            *((kind, "validation") for kind in (NewJob, NewComparison, SplitOptions)),
            (Sample, "validation"),
        ],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = ours["$defs"]
    row = {"anyOf": [{"$ref": "#/components/schemas/Sample"}, {"type": "object", "description": "other tools' names"}]}
    schemas["NewJob"]["properties"]["samples"]["items"] = row
    return schemas


@asynccontextmanager
async def _traced_to_the_end(_: FastAPI) -> AsyncIterator[None]:
    yield
    telemetry.close()


def create_app(service: Jobs, settings: Settings) -> FastAPI:
    """The application over the use cases. Raises BadSettings for a bootstrap key or a judge's prompt that is no good."""
    if settings.judge_prompt is not None:
        read_prompt(settings.judge_prompt, "RAGASSAY_JUDGE_PROMPT")
    app = Api(
        title="ragassay",
        version=metadata.version("ragassay"),
        description=_ABOUT,
        docs_url=None,  # these pages would load their scripts from a CDN; ``page`` is ours
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_traced_to_the_end,
        telemetry=_NO_SPANS_OF_ITS_OWN,
    )
    key = bootstrap_key(settings)
    app.state.jobs, app.state.settings, app.state.key = service, settings, key
    app.state.submissions, app.state.analyses = CapacityLimiter(AT_ONCE), CapacityLimiter(AT_ONCE)
    app.state.dataset_work, app.state.arriving = CapacityLimiter(AT_ONCE), 0
    app.state.watch = Watch(service)
    for room in (jobs, comparisons, datasets, metrics, systems, health):
        app.include_router(room.router)
    app.include_router(prometheus.router, dependencies=[prometheus.access(settings)])
    app.add_api_route("/docs", page.show, include_in_schema=False)
    problems.install(app)
    app.add_middleware(SecurityMiddleware, loopback_only=key is None)
    app.state.requests = requests = prometheus.Requests()
    requests.registry.register(prometheus.StoreCollector(service))
    app.add_middleware(ObservingMiddleware, requests=requests)
    return app
