"""``ragassay serve``: the whole service on this machine, or one of its parts, or a health check of a part."""

from __future__ import annotations

import logging
import os
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer
from typer import Argument, Option

from ragassay.core.errors import BadSettings, Unavailable, UnknownName

Part = Annotated[Literal["all", "api", "worker", "scheduler"], Argument(help="What to run.")]
Check = Annotated[
    bool, Option("--check", help="Run nothing: exit code 0 if this host's worker or scheduler is at work.")
]
Host = Annotated[str, Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int, Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one.")]
Workers = Annotated[
    int | None,
    Option("--workers", metavar="N", min=1, max=256, help="Worker processes. [one more than CPUs, at most 5]"),
]
Queues = Annotated[
    list[str] | None,
    Option("--queue", metavar="NAME", help="Take only chunks, reports or schedules. Repeatable. [all]"),
]
Data = Annotated[Path | None, Option("--data", metavar="DIR", help="Folder of Redis's data. [.ragassay/service]")]
Fd = Annotated[int | None, Option("--fd", hidden=True, help="A socket that listens already.")]


def serve(
    part: Part = "all",
    check: Check = False,
    host: Host = "127.0.0.1",
    port: Port = 8400,
    workers: Workers = None,
    queue: Queues = None,
    data: Data = None,
    fd: Fd = None,
) -> None:
    """Run the service on this machine, or one of its parts.

    The service is Redis, API, workers and scheduler; Ctrl-C ends it.
    The parts use the Redis of RAGASSAY_STATE_URL. A stopped worker goes on with its chunks for up to RAGASSAY_SHUTDOWN_S
    seconds. Several schedulers may run: each planned time is claimed once.
    """
    if check:
        _check(part)
    elif part == "api":
        _serve_api(host, port, fd)
    elif part == "worker":
        _exec_worker(workers or _processes(), queue)
    elif part == "scheduler":
        _exec("-m ragassay_workers.beat")
    else:
        _serve_all(host, port, workers or _processes(), data)


def _serve_all(host: str, port: int, workers: int, data: Path | None) -> None:
    from ragassay.core.settings import Settings
    from ragassay.observability import log_line
    from ragassay.service.access import check_bind
    from ragassay.service.local_up import Up

    settings = Settings()
    check_bind(host, settings)

    def write(level: int, line: str) -> None:
        stream = sys.stderr if level == logging.WARNING else sys.stdout
        with suppress(OSError):  # the terminal was closed
            print(log_line(settings, level, line), file=stream, flush=True)

    folder, info, warn = (
        data or settings.home / "service",
        partial(write, logging.INFO),
        partial(write, logging.WARNING),
    )
    Up(settings, folder, host=host, port=port, workers=workers, info=info, warn=warn).run()


def _serve_api(host: str, port: int, fd: int | None) -> None:
    from ragassay import observability
    from ragassay.api.app import create_app
    from ragassay.api.server import server
    from ragassay.core.settings import Settings
    from ragassay.service import wiring
    from ragassay.service.access import check_bind
    from ragassay.service.health import log_redis

    settings = Settings()
    listeners = None if fd is None else [socket.socket(fileno=fd)]
    check_bind(listeners[0].getsockname()[0] if listeners else host, settings)
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # processes that the API starts import nothing from this folder
    observability.start_logging(settings)
    observability.start_tracing("api")
    log_redis(settings.redis_servers)
    jobs = wiring.jobs_for(settings, patient=False)
    app = create_app(jobs, settings, wiring.schedules_for(settings, jobs))
    server(app, host=host, port=port, log_config=None, access_log=False).run(sockets=listeners)


def _exec_worker(processes: int, queues: list[str] | None) -> None:
    from ragassay.service.queue import CHUNKS, REPORTS, SCHEDULES

    known = {"chunks": CHUNKS, "reports": REPORTS, "schedules": SCHEDULES}
    if unknown := next((name for name in queues or () if name not in known), None):
        raise UnknownName("queue", unknown, known, where="--queue")
    taken = ",".join(known[name] for name in dict.fromkeys(queues or known))
    # Without the signal's new meaning, Celery would wait for a chunk as long as it takes.
    _exec(
        f"-m celery --quiet -A ragassay_workers.app:app worker --pool prefork --loglevel INFO --queues {taken} "
        f"--concurrency {processes} --hostname ragassay@%h --without-gossip --without-mingle --without-heartbeat",
        REMAP_SIGTERM="SIGQUIT",
    )


def _check(part: str) -> None:
    """Raise Unavailable unless this host's worker takes the chunks that wait, or its scheduler starts what is due."""
    from ragassay.core.settings import Settings
    from ragassay.service.connection import outages
    from ragassay.service.health import OVERDUE_S, STALLED_AFTER_S, health
    from ragassay.service.local_up import state_url
    from ragassay.service.redis import RedisStore

    kind = {"worker": "worker", "scheduler": "beat"}.get(part)
    if kind is None:
        hint = "ragassay serve worker --check, or: serve scheduler --check"
        raise BadSettings("--check is about one part", hint=hint)
    store = RedisStore(state_url(Settings()), patient=False)
    with outages():
        running, known = store.alive(kind, socket.gethostname()), health(store)
    problem = None
    if not running:
        problem = f"no {part} on this host has sent a heartbeat for {30 if part == 'worker' else 60} s"
    elif part == "worker" and known.stalled:
        problem = f"chunks wait, and no worker has claimed one for {STALLED_AFTER_S:g} s (job {known.stalled[0]})"
    elif part == "scheduler" and known.schedule_overdue_s > OVERDUE_S:
        problem = f"a schedule is due, and no scheduler has started it for {OVERDUE_S} s"
    if problem:
        raise Unavailable(problem, hint=f"restart the {part}, and see its log")
    typer.echo(f"{part}s on this host: {running}")


def _exec(arguments: str, **environment: str) -> NoReturn:
    """Replace this process by another Python program, so that signals reach it. ``-P``: no import from this folder."""
    from ragassay.core.settings import Settings

    Settings()  # what is wrong with them is one line here
    command = [sys.executable, "-P", *arguments.split()]
    os.execve(sys.executable, command, {**os.environ, **environment})  # noqa: S606 - our own program


def _processes() -> int:
    """One more than cores: a job whose provider hangs leaves one process to the other jobs."""
    return min(4, os.cpu_count() or 1) + 1
