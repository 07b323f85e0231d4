"""The pages: routes that read the library and fill templates. Every page's address restores it."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from ragassay.dashboard.library import Library
from ragassay.dashboard.pages import compare, datasets, errors, labels, over_time, queries, runs
from ragassay.dashboard.site import HERE

_ROOMS = (runs, queries, errors, labels, compare, over_time, datasets)


def install(app: FastAPI, library: Library) -> None:
    """Add the pages, their styles and scripts to an application, which shows what is in ``library``."""
    app.state.library = library
    for room in _ROOMS:
        app.include_router(room.router)
    app.mount("/ui/static", StaticFiles(directory=HERE / "static"))
