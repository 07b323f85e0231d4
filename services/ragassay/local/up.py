"""``ragassay up``: starts Redis, API, workers and beat, waits until they are ready, and stops them on a signal."""

from __future__ import annotations

import fcntl
import http.client
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ragassay.errors import BadSettings, Conflict, Unavailable
from ragassay.local.redis import EmbeddedRedis, RedisProbe, prepare
from ragassay.local.supervisor import Part, Supervisor
from ragassay.settings import Settings

WORKERS_GRACE_S = 4.0  # Celery sleeps this long when a worker is busy, and everything has to be over in ten seconds
STOP_WITHIN_S = 7.0
REDIS_WITHIN_S = 20.0
API_WITHIN_S = 60.0
PREDECESSOR_ENDS_WITHIN_S = 15.0
LARGEST_LOG = 20_000_000
ROUND_S = 0.1


class Up:
    """The service on this machine. ``info`` gets lines for the user, ``warn`` what goes wrong; neither may block."""

    def __init__(
        self,
        settings: Settings,
        data: Path,
        *,
        host: str,
        port: int,
        workers: int,
        info: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._settings, self._data, self._host, self._port, self._workers = settings, data, host, port, workers
        self._info, self._warn = info, warn
        self._signals = 0

    def run(self) -> None:
        """Serve until a signal comes. Raises what prevents the start."""
        try:
            with (
                self._signals_counted(),
                _locked(self._data) as lock,
                _listening(self._host, self._port) as listener,
            ):
                self._port = listener.getsockname()[1]
                (self._data / "logs").mkdir(parents=True, exist_ok=True)
                redis = None if self._settings.state_url else prepare(self._data / "redis")
                supervisor = Supervisor(self._warn)
                try:
                    self._serve(supervisor, redis, listener.fileno(), lock)
                finally:
                    self._info("stopping ...")
                    supervisor.stop(within_s=STOP_WITHIN_S, hurry=lambda: self._signals > 1)
        except OSError as error:
            raise Unavailable(
                f"cannot work in {self._data}: {error.strerror or error}", hint="choose another folder: --data DIR"
            ) from error

    def _serve(self, supervisor: Supervisor, redis: EmbeddedRedis | None, listener: int, lock: int) -> None:
        state_url = redis.url if redis else self._settings.state
        probe, logs = RedisProbe(state_url), self._data / "logs"
        environment = {
            **os.environ,
            "RAGASSAY_STATE_URL": state_url,
            "RAGASSAY_SHUTDOWN_S": str(min(WORKERS_GRACE_S, self._settings.shutdown_s)),
            "PYTHONUNBUFFERED": "1",
        }

        def part(name: str, command: Sequence[str], ready: Callable[[int], bool], **options: Any) -> Part:
            return Part(name, command, environment, _log(logs, name), ready, **options)

        def api_error() -> str | None:
            return None if supervisor.is_ready("api") else "GET /healthz fails"

        ragassay = (sys.executable, "-P", "-m", "ragassay.cli")
        if redis:
            supervisor.add(part("redis", redis.command, lambda _: probe.answers(), last=True))
        serve = (*ragassay, "serve", "--fd", str(listener))
        supervisor.add(part("api", serve, lambda _: self._api_answers(), fds=(listener, lock)))
        hint = f"see {logs}" if redis else "check RAGASSAY_STATE_URL"
        if not (
            self._answers("Redis", probe.error, REDIS_WITHIN_S, supervisor, hint)
            and self._answers("the API", api_error, API_WITHIN_S, supervisor, f"see {logs}")
        ):
            return
        url = f"http://{_named(self._host)}:{self._port}"
        self._info(f"ragassay is up: {url}   (logs: {logs}; stop it with Ctrl-C)")
        self._info(f"try it: ragassay submit FILE --server {url} --wait")
        for kind, arguments in {"worker": ("--concurrency", str(self._workers)), "beat": ()}.items():
            command = (*ragassay, kind, *arguments)
            supervisor.add(
                part(kind, command, partial(probe.has_heartbeat, kind), may_start=probe.answers, fds=(lock,))
            )
        announced = False
        while not self._signals:
            supervisor.check()
            probe.report(self._warn)
            if not announced and (announced := supervisor.is_ready("worker")):
                self._info("workers are ready")
            time.sleep(ROUND_S)

    def _answers(
        self, what: str, error: Callable[[], str | None], within_s: float, supervisor: Supervisor, hint: str
    ) -> bool:
        """Wait until there is no error; False when a signal came first. Raises Unavailable when it takes too long."""
        limit = time.monotonic() + within_s
        while (why := error()) is not None:
            if self._signals:
                return False
            if "loading" in why.lower():  # Redis reads a large file
                limit = time.monotonic() + within_s
            if time.monotonic() > limit:
                raise Unavailable(f"{what} has not answered for {within_s:g} s ({why})", hint=hint)
            supervisor.check()
            time.sleep(0.02)
        return True

    def _api_answers(self) -> bool:
        connection = http.client.HTTPConnection(_named(self._host).strip("[]"), self._port, timeout=0.5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    @contextmanager
    def _signals_counted(self) -> Iterator[None]:
        """Count signals instead of ending by them: the first stops everything in order, the second at once."""

        def count(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's signature
            self._signals += 1

        wanted = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup sets it
            wanted.append(signal.SIGHUP)
        before = {number: signal.signal(number, count) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _log(folder: Path, name: str) -> Path:
    """The path of a part's log; a large one of an earlier start is moved out of the way."""
    log = folder / f"{name}.log"
    with suppress(FileNotFoundError):
        if log.stat().st_size > LARGEST_LOG:
            log.replace(log.with_suffix(".log.1"))
    return log


@contextmanager
def _locked(data: Path) -> Iterator[int]:
    """Hold the lock of a data folder; yields its descriptor, which the parts inherit: it is free when all have ended.

    Raises Conflict while another ``up`` runs there. What one that was killed has left running is waited for.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    limit = time.monotonic() + PREDECESSOR_ENDS_WITHIN_S
    with (data / "up.lock").open("a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                other = file.read().strip()
                hint = "stop it, or choose another folder: --data DIR"
                if _runs(other):
                    raise Conflict(f"another 'ragassay up' (process {other}) works in {data}", hint=hint) from None
                if time.monotonic() > limit:
                    what = f"what 'ragassay up' (process {other or 'unknown'}, killed) started still runs in {data}"
                    raise Conflict(what, hint=hint) from None
            time.sleep(0.05)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()


def _runs(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """The API's socket, held here, so that connections wait while the API is restarted."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BadSettings(f"{host!r} is not an address of this machine ({error.strerror})", where="--host") from None
    family, kind, _, _, address = addresses[0]
    with socket.socket(family, kind) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(1024)
        except OSError as error:
            raise Conflict(
                f"can't listen on {host}:{port}: {(error.strerror or str(error)).lower()}",
                hint="choose another: --port N",
            ) from None
        yield listener


def _named(host: str) -> str:
    """The host of URLs to a listener; one that listens on all addresses is reached on loopback."""
    named = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - not bound here
    return f"[{named}]" if ":" in named else named
