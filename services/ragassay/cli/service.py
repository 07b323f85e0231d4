"""Commands that run the service: ``up`` all of it, ``serve``, ``worker`` and ``beat`` its parts, ``admin alive`` checks them."""

from __future__ import annotations

import logging
import os
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ragassay.core.errors import BadSettings, Unavailable

SWEEP_IS_LATE_S = 60

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one.")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, max=256, help="Worker processes. [one more than CPUs, at most 5]"),
]
Processes = Annotated[
    int | None,
    typer.Option("--concurrency", metavar="N", min=1, max=256, help="Processes. [one more than CPUs, at most 5]"),
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="NAME", help="Take only chunks, reports or schedules. Repeatable. [all]"),
]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder of Redis's data. [.ragassay/service]")]
Fd = Annotated[int | None, typer.Option("--fd", hidden=True, help="A socket that listens already.")]
PartKind = Annotated[str, typer.Argument(metavar="worker|beat", help="What to look for.")]


def up(host: Host = "127.0.0.1", port: Port = 8400, workers: Workers = None, data: Data = None) -> None:
    """Run the whole service on this machine: Redis, API, workers and the sweeper. Ctrl-C ends it."""
    from ragassay import observability
    from ragassay.core.settings import Settings
    from ragassay.service.local_up import Up

    settings = Settings()
    secret = settings.bootstrap_key or settings.key_pepper
    if host not in ("127.0.0.1", "localhost") or secret is not None:  # its import takes half a second
        from ragassay.api.security import check_bind

        check_bind(host, settings)

    def write(level: int, line: str) -> None:
        with suppress(OSError):  # the terminal was closed
            print(
                observability.log_line(settings, level, line),
                file=sys.stderr if level == logging.WARNING else None,
                flush=True,
            )

    Up(
        settings,
        data or settings.home / "service",
        host=host,
        port=port,
        workers=workers or _processes(),
        info=partial(write, logging.INFO),
        warn=partial(write, logging.WARNING),
    ).run()


def serve(host: Host = "127.0.0.1", port: Port = 8400, fd: Fd = None) -> None:
    """Run the API alone. Jobs are kept in the Redis of RAGASSAY_STATE_URL."""
    from ragassay import observability
    from ragassay.api.app import create_app
    from ragassay.api.security import check_bind
    from ragassay.api.server import server
    from ragassay.core.settings import Settings
    from ragassay.service import wiring
    from ragassay.service.health import log_redis

    settings = Settings()
    listeners = None if fd is None else [socket.socket(fileno=fd)]
    check_bind(listeners[0].getsockname()[0] if listeners else host, settings)
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # processes that the API starts import nothing from this folder
    observability.start_logging(settings)
    observability.start_tracing(settings, "api")
    log_redis(settings.redis_servers)
    jobs = wiring.jobs_for(settings, patient=False)
    app = create_app(jobs, settings, wiring.schedules_for(settings, jobs))
    server(app, host=host, port=port, log_config=None, access_log=False).run(sockets=listeners)


def worker(concurrency: Processes = None, queues: Queues = None) -> None:
    """Run workers alone. Stopped, they go on with their chunks for up to RAGASSAY_SHUTDOWN_S seconds."""
    from ragassay.core.errors import UnknownName
    from ragassay.service.queue import CHUNKS, REPORTS, SCHEDULES

    known = {"chunks": CHUNKS, "reports": REPORTS, "schedules": SCHEDULES}
    if unknown := next((name for name in queues or () if name not in known), None):
        raise UnknownName("queue", unknown, known, where="--queue")
    taken = ",".join(known[name] for name in dict.fromkeys(queues or known))

    # Without the signal's new meaning, Celery would wait for a chunk as long as it takes.
    _exec(
        f"-m celery --quiet -A ragassay_workers.app:app worker --pool prefork --loglevel INFO --queues {taken} "
        f"--concurrency {concurrency or _processes()} --hostname ragassay@%h "
        "--without-gossip --without-mingle --without-heartbeat",
        REMAP_SIGTERM="SIGQUIT",
    )


def beat() -> None:
    """Run the sweeper and the clock of schedules alone. Several may run: each time is claimed once."""
    _exec("-m ragassay_workers.beat")


def alive(kind: PartKind) -> None:
    """Tell whether a worker or beat runs on this host and does its work; for health checks.

    Workers take the chunks that wait; beat completes rounds of the sweeper, and begins the schedules that are due.
    """
    from ragassay.core.settings import Settings
    from ragassay.service.health import OVERDUE_S, STALLED_AFTER_S, health
    from ragassay.service.redis import RedisStore
    from ragassay.service.redis_errors import outages

    if kind not in ("worker", "beat"):
        raise BadSettings(f"{kind!r} is neither worker nor beat")
    store = RedisStore(Settings().state, patient=False)
    with outages():
        running = store.alive(kind, socket.gethostname())
        sweeping = kind == "worker" or store.alive("sweeper", socket.gethostname())
        known = health(store)
    if not running:
        raise Unavailable(f"no {kind} on this host has sent a heartbeat for half a minute")
    if not sweeping:
        what = f"no beat on this host has completed a round of its sweeper for {SWEEP_IS_LATE_S} s and more"
        raise Unavailable(what, hint="restart it, and see its log")
    if kind == "worker" and known.stalled:
        raise Unavailable(
            f"chunks wait, and no worker has claimed one for {STALLED_AFTER_S:g} s (job {known.stalled[0]})",
            hint="restart the workers, and see their logs",
        )
    if kind == "beat" and known.schedule_overdue_s > OVERDUE_S:
        raise Unavailable(
            f"a schedule is due, and no beat has noticed for {OVERDUE_S} s",
            hint="restart beat, and see its log",
        )
    typer.echo(f"{running} {kind} on this host")


def _exec(arguments: str, **environment: str) -> NoReturn:
    """Replace this process by another Python program, so that signals reach it. ``-P``: no import from this folder."""
    from ragassay.core.settings import Settings

    Settings()  # what is wrong with them is one line here
    command = [sys.executable, "-P", *arguments.split()]
    os.execve(sys.executable, command, {**os.environ, **environment})  # noqa: S606 - our own program


def _processes() -> int:
    """One more than cores: a job whose provider hangs leaves one process to the other jobs."""
    return min(4, os.cpu_count() or 1) + 1
