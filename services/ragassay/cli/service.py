"""Commands that run the service: ``up`` all of it, ``serve``, ``worker`` and ``beat`` its parts, ``alive`` to ask them."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ragassay.errors import BadSettings, Unavailable

API_STOPS_WITHIN_S = 3

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one.")]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, max=256, help="Worker processes. [CPUs, at most 4]")
]
Processes = Annotated[
    int | None, typer.Option("--concurrency", metavar="N", min=1, max=256, help="Processes. [CPUs, at most 4]")
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of Redis's data and the logs. [.ragassay/service]")
]
Fd = Annotated[int | None, typer.Option("--fd", hidden=True, help="A socket that listens already.")]
Kind = Annotated[str, typer.Argument(metavar="worker|beat", help="What to look for.")]


def up(host: Host = "127.0.0.1", port: Port = 8400, workers: Workers = None, data: Data = None) -> None:
    """Run the whole service on this machine: Redis, API, workers and the sweeper. Ctrl-C ends it."""
    from ragassay.cli.up import Up
    from ragassay.settings import Settings

    settings = Settings()
    if host not in ("127.0.0.1", "localhost") or settings.bootstrap_key is not None:  # its import takes half a second
        from ragassay.api.door import check_bind

        check_bind(host, settings)
    Up(
        settings,
        data or settings.home / "service",
        host=host,
        port=port,
        workers=workers or _processes(),
        say=typer.echo,
        tell=lambda line: typer.echo(line, err=True),
    ).run()


def serve(host: Host = "127.0.0.1", port: Port = 8400, fd: Fd = None) -> None:
    """Run the API alone. Jobs are kept in the Redis of RAGASSAY_STATE_URL."""
    import uvicorn

    from ragassay import wiring
    from ragassay.api.app import create_app
    from ragassay.api.door import check_bind
    from ragassay.settings import Settings

    settings = Settings()
    listeners = None if fd is None else [socket.socket(fileno=fd)]
    check_bind(listeners[0].getsockname()[0] if listeners else host, settings)
    app = create_app(wiring.jobs_for(settings, patient=False), settings)
    uvicorn.Server(
        uvicorn.Config(app, host=host, port=port, server_header=False, timeout_graceful_shutdown=API_STOPS_WITHIN_S)
    ).run(sockets=listeners)


def worker(concurrency: Processes = None) -> None:
    """Run workers alone. Stopped, they go on with their chunks for up to RAGASSAY_SHUTDOWN_S seconds."""
    from ragassay.doorbell import CHUNKS, REPORTS

    options = [
        "--queues",
        f"{CHUNKS},{REPORTS}",
        "--concurrency",
        str(concurrency or _processes()),
        "--hostname",
        "ragassay@%h",
    ]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    # Without the signal's new meaning, Celery would wait for a chunk as long as it takes.
    _become(
        [
            "-m",
            "celery",
            "-A",
            "ragassay_workers.app:app",
            "worker",
            "--pool",
            "prefork",
            "--loglevel",
            "INFO",
            *options,
            *quiet,
        ],
        {"REMAP_SIGTERM": "SIGQUIT"},
    )


def beat() -> None:
    """Run the sweeper and the clock of schedules alone. Several may run; one of them does the schedules."""
    _become(["-m", "ragassay_workers.beat"], {})


def alive(kind: Kind) -> None:
    """Say whether a worker or beat lives on this host; for health checks of containers."""
    from redis.exceptions import RedisError

    from ragassay.settings import Settings
    from ragassay.store.redis import RedisStore

    if kind not in ("worker", "beat"):
        raise BadSettings(f"{kind!r} is neither worker nor beat")
    try:
        found = RedisStore(Settings().state).alive(kind, socket.gethostname())
    except RedisError as error:
        raise Unavailable(f"Redis does not answer ({error})", hint="check RAGASSAY_STATE_URL") from None
    if not found:
        raise Unavailable(f"no {kind} of this host has given a sign of life for half a minute")
    typer.echo(f"{found} {kind} on this host")


def _become(arguments: list[str], environment: dict[str, str]) -> NoReturn:
    """Turn into another Python program, so that signals reach it and not a go-between. ``-P``: not from this folder."""
    os.execve(sys.executable, [sys.executable, "-P", *arguments], {**os.environ, **environment})  # noqa: S606


def _processes() -> int:
    return min(4, os.cpu_count() or 1)
