"""The HTTP server around the application."""

from __future__ import annotations

from fastapi import FastAPI
from uvicorn import Config, Server

STOPS_WITHIN_S = 3


def server(app: FastAPI, *, host: str, port: int, **options: object) -> Server:
    """A server that is not running yet. ``options`` are uvicorn's."""
    defaults = {"server_header": False, "timeout_graceful_shutdown": STOPS_WITHIN_S, "http": "h11", "ws": "none"}
    return Server(Config(app, host=host, port=port, **{**defaults, **options}))  # type: ignore[arg-type]
