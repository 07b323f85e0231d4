"""``ragassay up``: Redis, API, workers and beat in one command, for one machine."""

from __future__ import annotations

import fcntl
import http.client
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from ragassay.cli.embedded_redis import EmbeddedRedis, prepare
from ragassay.cli.supervisor import Part, Supervisor
from ragassay.errors import BadSettings, Conflict, Unavailable
from ragassay.settings import Settings

WORKERS_GRACE_S = 4.0  # Celery sleeps this long when a worker is busy, and everything has to be over in ten seconds
STOP_WITHIN_S = 7.0
REDIS_WITHIN_S = 20.0
API_WITHIN_S = 30.0
REMAINS_END_WITHIN_S = 15.0
LARGEST_LOG = 20_000_000
ROUND_S = 0.1

Say = Callable[[str], None]


class Up:
    """The service on this machine. ``say`` gets what the user wants to read, ``tell`` what went wrong."""

    def __init__(
        self, settings: Settings, data: Path, *, host: str, port: int, workers: int, say: Say, tell: Say
    ) -> None:
        self._settings, self._data, self._host, self._workers = settings, data, host, workers
        self._say, self._tell = say, tell
        self._port = port
        self._signals = 0
        self._redis_url = settings.state

    def run(self) -> None:
        """Serve until a signal comes. Raises what keeps it from starting, or from going on."""
        with _locked(self._data, self._say) as lock, _listening(self._host, self._port) as listener, self._heeding():
            self._port = listener.getsockname()[1]
            logs = self._data / "logs"
            logs.mkdir(parents=True, exist_ok=True)
            own = None if self._settings.state_url else prepare(self._data / "redis")
            self._redis_url = own.url if own else self._settings.state
            supervisor = Supervisor(self._tell, redis_answers=self._redis_answers, held=[lock])
            try:
                self._serve(supervisor, own, listener, logs)
            finally:
                with suppress(OSError):  # the terminal may be gone
                    self._say("stopping ...")
                supervisor.stop(within_s=STOP_WITHIN_S, hurry=lambda: self._signals > 1)

    def _serve(self, supervisor: Supervisor, own: EmbeddedRedis | None, listener: socket.socket, logs: Path) -> None:
        environment = {
            **os.environ,
            "RAGASSAY_STATE_URL": self._redis_url,
            "RAGASSAY_SHUTDOWN_S": str(min(WORKERS_GRACE_S, self._settings.shutdown_s)),
            "PYTHONUNBUFFERED": "1",
        }

        def part(name: str, *command: str, last: bool = False, fds: tuple[int, ...] = ()) -> Part:
            log = logs / f"{name}.log"
            with suppress(FileNotFoundError):
                if log.stat().st_size > LARGEST_LOG:
                    log.replace(log.with_suffix(".log.1"))
            return Part(name, command, environment, log, last=last, needs_redis=name in ("worker", "beat"), fds=fds)

        itself = (sys.executable, "-P", "-m", "ragassay.cli")
        api = part("api", *itself, "serve", "--fd", str(listener.fileno()), fds=(listener.fileno(),))
        if own:
            supervisor.add(part("redis", *own.command, last=True))
        supervisor.add(api)
        hint = f"see {logs}" if own else "check RAGASSAY_STATE_URL"
        if not (
            self._until("Redis", self._redis_answers, REDIS_WITHIN_S, supervisor, hint)
            and self._until("the API", self._api_is_up, API_WITHIN_S, supervisor, f"see {logs}")
        ):
            return
        url = f"http://{_named(self._host)}:{self._port}"
        self._say(f"ragassay is up: {url}   (logs: {logs}; stop it with Ctrl-C)")
        self._say(f"try it: ragassay submit FILE --server {url} --wait")
        supervisor.add(part("worker", *itself, "worker", "--concurrency", str(self._workers)))
        supervisor.add(part("beat", *itself, "beat"))
        ready = False
        while not self._signals:
            supervisor.tend()
            if not ready and (ready := self._redis_answers("worker")):
                self._say("workers are ready")
            time.sleep(ROUND_S)

    def _until(self, what: str, there: Callable[[], bool], within_s: float, supervisor: Supervisor, hint: str) -> bool:
        """Wait until something answers; False when a signal came first. Raises Unavailable when it takes too long."""
        limit = time.monotonic() + within_s
        while not there():
            if self._signals:
                return False
            if time.monotonic() > limit:
                raise Unavailable(f"{what} does not answer after {within_s:g} s", hint=hint)
            supervisor.tend()
            time.sleep(0.02)
        return True

    def _redis_answers(self, sign_of: str | None = None) -> bool:
        """Does Redis answer? With ``sign_of``: does it know that one of this kind lives?"""
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
        from redis.retry import Retry

        try:
            client = Redis.from_url(
                self._redis_url, socket_timeout=0.5, socket_connect_timeout=0.5, retry=Retry(NoBackoff(), 0)
            )
            with client:
                return bool(client.ping() if sign_of is None else next(client.scan_iter(f"ra:alive:{sign_of}:*"), None))
        except (RedisError, OSError):
            return False

    def _api_is_up(self) -> bool:
        connection = http.client.HTTPConnection(_named(self._host).strip("[]"), self._port, timeout=0.5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        """Count signals instead of dying of them: the first ends everything well, the second at once."""

        def count(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's signature
            self._signals += 1

        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, count) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _locked(data: Path, say: Say) -> Iterator[int]:
    """Only one at a time works in a data folder. Gives the lock, to be held by whoever ends what a killed one started.

    Raises Conflict while another one works there. One that was killed is waited for.
    """
    data.mkdir(parents=True, exist_ok=True)
    limit, waits = time.monotonic() + REMAINS_END_WITHIN_S, False
    with (data / "up.lock").open("a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                other = file.read().strip()
                if _runs(other) or time.monotonic() > limit:
                    raise Conflict(
                        f"another 'ragassay up' (process {other or 'unknown'}) works in {data}",
                        hint="stop it, or choose another folder: --data DIR",
                    ) from None
            if not waits:
                say(f"waiting for what is left of process {other}, which was killed ...")
                waits = True
            time.sleep(0.1)
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
    """The API's socket, held here, so that connections wait while the API is started again."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except OSError as error:
        raise BadSettings(f"{host!r} is not an address of this machine ({error.strerror})", where="--host") from None
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
    """How this machine calls the address: one that stands for all addresses is called by loopback's."""
    named = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - not bound here
    return f"[{named}]" if ":" in named else named
