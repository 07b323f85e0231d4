"""The pages: routes that read the library and fill templates. Every page's address restores it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI, Response
from fastapi.responses import RedirectResponse

from ragassay.core.errors import NotFound
from ragassay.dashboard.pages import compare, datasets, labels, over_time, queries, runs
from ragassay.dashboard.site import STATIC, pages

_PAGES = (runs, queries, labels, compare, over_time, datasets)


def install(app: FastAPI, enter: Callable[..., Awaitable[None]]) -> None:
    """Add the pages, their styles and scripts to an application; other pages below /ui are added before.

    ``enter``: a dependency of each page that makes ``request.state.library`` what is shown to whoever asks.
    """
    for page in _PAGES:
        app.include_router(page.router, dependencies=[Depends(enter)])
    app.mount(STATIC.path, STATIC)
    app.include_router(_others)


_others = pages()


@_others.get("/ui")
def _beginning() -> Response:
    return RedirectResponse("/ui/runs", 302)


@_others.get("/ui/{rest:path}")
def _nowhere(rest: str) -> Response:
    raise NotFound(f"there is no page {rest[:200]!r}", hint="begin at the list of runs")
