"""The HTTP application: routes, middleware, and the OpenAPI document."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic.alias_generators import to_camel
from pydantic.json_schema import models_json_schema

from ragassay import observability
from ragassay.api import (
    analyses,
    catalog,
    datasets,
    health,
    jobs,
    keys,
    live,
    problems,
    prometheus,
    schedules,
    ui,
    webhooks,
)
from ragassay.api.middleware import ObservingMiddleware, SecurityMiddleware
from ragassay.api.security import Guard
from ragassay.core.settings import Settings
from ragassay.dashboard.site import AT_ONCE, STATIC, CachedFiles
from ragassay.judges.prompt import read_prompt
from ragassay.service.access import asks_for_key
from ragassay.service.jobs import Jobs
from ragassay.service.schedules import Schedules

SPANS_AT_ONCE = 4  # bodies of spans that are read at a time
_SWAGGER = CachedFiles("/docs/static", packages=[("fastapi_offline", "static")])
_ROUTES = (jobs, analyses, datasets, schedules, live, webhooks, catalog, keys, health)
_NO_SPANS_OF_ITS_OWN: Any = dict.fromkeys(("tracing", "metrics", "logs", "auto_configure"), False)  # FastAPI 0.165
_ABOUT = """Judges RAG systems: retrieval, answer quality, latency and cost, and how far each number can be trusted.

Every error is a problem document (RFC 9457). Lists are read page by page: `next` of a page is the `cursor` of the one
after. If the server has keys, `/v1` requires `Authorization: Bearer KEY`: the scope `read` for GET, `admin` for keys,
`submit` for everything else. What belongs to another project is not there: 404.
"""


class Api(FastAPI):
    """FastAPI, with the schemas of problems and of bodies that are read once it is known who asks."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document; made once."""
        if not self.openapi_schema:
            self.openapi_schema = super().openapi()
            _, ours = models_json_schema(problems.REFERENCED, ref_template="#/components/schemas/{model}")
            schemas = self.openapi_schema["components"]["schemas"]
            schemas.update({name: schema for name, schema in ours["$defs"].items() if name not in schemas})
            if not asks_for_key(self.state.settings):
                for operation in (each for path in self.openapi_schema["paths"].values() for each in path.values()):
                    if "security" in operation:
                        operation["security"].append({})  # a key is taken, and none is needed
        return self.openapi_schema


def _swagger_ui() -> HTMLResponse:
    """Swagger UI from the files below ``/docs/static``; nothing else is loaded, and no other script runs."""
    page = get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="ragassay API",
        swagger_js_url=_SWAGGER.address("swagger-ui-bundle.js"),
        swagger_css_url=_SWAGGER.address("swagger-ui.css"),
        swagger_favicon_url=STATIC.address("icon.svg"),
    )
    inline = bytes(page.body).rpartition(b"<script>")[2].partition(b"</script>")[0]
    digest = b64encode(hashlib.sha256(inline).digest()).decode()
    page.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page


@asynccontextmanager
async def _traced_to_the_end(_: FastAPI) -> AsyncIterator[None]:
    yield
    observability.stop_tracing()


def create_app(service: Jobs, settings: Settings, planned: Schedules | None = None) -> FastAPI:
    """The application over the use cases. Raises BadSettings for a bootstrap key or a judge's prompt that is no good."""
    if settings.judge_prompt is not None:
        read_prompt(settings.judge_prompt, "RAGASSAY_JUDGE_PROMPT")
    app = Api(
        title="ragassay",
        version=metadata.version("ragassay"),
        description=_ABOUT,
        docs_url=None,  # FastAPI's own would load its scripts from a CDN
        redoc_url=None,
        redirect_slashes=False,
        responses=problems.DOCUMENTED,
        lifespan=_traced_to_the_end,
        telemetry=_NO_SPANS_OF_ITS_OWN,
        generate_unique_id_function=lambda route: to_camel(route.name),
    )
    app.state.jobs, app.state.settings, app.state.guard = service, settings, Guard(service, settings)
    app.state.analyses, app.state.dataset_work = CapacityLimiter(AT_ONCE), CapacityLimiter(AT_ONCE)
    app.state.span_work = CapacityLimiter(SPANS_AT_ONCE)
    app.state.uploading = Counter()
    app.state.schedules = planned
    app.state.routers = [*(route.router for route in _ROUTES), prometheus.router(settings)]
    for router in app.state.routers:
        app.include_router(router)
    ui.install(app, service)
    app.add_api_route("/", lambda: RedirectResponse("/ui", 302), include_in_schema=False)
    app.add_api_route("/docs", _swagger_ui, include_in_schema=False)
    app.mount(_SWAGGER.path, _SWAGGER)
    problems.install(app)
    app.add_middleware(SecurityMiddleware, loopback_only=not asks_for_key(settings), tls=settings.tls)
    app.state.requests = requests = prometheus.Requests()
    requests.registry.register(prometheus.StoreCollector(service))
    app.add_middleware(ObservingMiddleware, requests=requests)
    return app
