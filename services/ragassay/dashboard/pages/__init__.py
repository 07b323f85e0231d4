"""The pages: routes that read the library and fill templates. Every page's address restores it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI
from starlette.staticfiles import StaticFiles

from ragassay.dashboard.pages import compare, datasets, labels, over_time, queries, runs
from ragassay.dashboard.site import HERE

_ROOMS = (runs, queries, labels, compare, over_time, datasets)


def install(app: FastAPI, enter: Callable[..., Awaitable[None]]) -> None:
    """Add the pages, their styles and scripts to an application.

    ``enter``: a dependency of each page that makes ``request.state.library`` what is shown to whoever asks.
    """
    for room in _ROOMS:
        app.include_router(room.router, dependencies=[Depends(enter)])
    app.mount("/ui/static", StaticFiles(directory=HERE / "static"))
