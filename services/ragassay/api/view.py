"""The pages alone, for a person at this machine: no service, no key, loopback only."""

from __future__ import annotations

from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse

from ragassay.api.middleware import SecurityMiddleware
from ragassay.dashboard import pages
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import AT_ONCE


def create_view(library: Library) -> FastAPI:
    """An application that shows what is in ``library``."""
    app = FastAPI(title="ragassay", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.analyses = CapacityLimiter(AT_ONCE)

    async def enter(request: Request) -> None:
        request.state.library = library

    pages.install(app, enter)
    app.add_api_route("/", lambda: RedirectResponse("/ui/runs", 302))
    app.add_middleware(SecurityMiddleware, loopback_only=True)
    return app
