"""The commands of compose files, started by hand with the files' environment and this machine's programs and ports."""

import copy
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from redis_server import binary, free_port
from service.running import environment

KEY = "a-key-for-the-tests"


def interpolated(text, given=None):
    """Compose's ``${NAME:-default}`` and ``${NAME:?message}``, innermost first."""
    at_hand = {"RAGASSAY_BOOTSTRAP_KEY": KEY} if given is None else given
    pattern = re.compile(r"\$\{(\w+)(?::([-?])([^${}]*))?\}")
    while found := pattern.search(text):
        name, kind, rest = found.groups()
        if name not in at_hand and kind == "?":
            raise LookupError(f"{name}: {rest}")
        text = text[: found.start()] + at_hand.get(name, rest or "") + text[found.end() :]
    return text


def services_of(*files):
    """The services of compose files, each file over those before: mappings are merged, all else is replaced."""
    merged = {}
    for file in files:
        _merge(merged, yaml.safe_load(file.read_text())["services"])
    return merged


def _merge(under, over):
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(key), dict):
            _merge(under[key], value)
        else:
            under[key] = copy.deepcopy(value)


def settings_that_parts_share(services):
    """Checks what a compose file hands to API, workers and beats alike."""
    given = {name: services[name]["environment"] for name in ("api", "worker", "beat")}
    for shared in ("STATE_URL", "OUTGOING_ALLOWED"):
        assert len({environment[f"RAGASSAY_{shared}"] for environment in given.values()}) == 1, shared
    for name in given:
        assert "${DATA_FOLDER:-./data}:/data:ro" in services[name]["volumes"], name


class Stack:
    """Processes by their service's name, or ``NAME.2`` and so on for further ones; all end with the block."""

    def __init__(self, *files, **more):
        self.services = services_of(*files)
        self.folder = Path(tempfile.mkdtemp(prefix="ra-compose-"))
        redis = [name for name, service in self.services.items() if service.get("command", [""])[0] == "redis-server"]
        self.redis_ports = {name: free_port() for name in redis}
        self.port = free_port()
        self.more = {"preload": "nothing", **more}  # imports would take each test ten seconds
        self.processes = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        subprocess.run(["rm", "-rf", str(self.folder)], check=True)

    def adapted(self, name, words):
        """A command or a check, with this machine's programs and ports for those of the containers."""
        first, *others = words
        programs = {"ragassay": [sys.executable, "-m", "ragassay.cli"], "python": [sys.executable]}
        if first == "redis-server":
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            port = str(self.redis_ports[name])
            return [binary(), "--port", port, "--bind", "127.0.0.1", "--dir", str(folder), *others]
        return [*programs[first], *(word.replace("8400", str(self.port)) for word in others)]

    def environment(self, name):
        named = self.services[name].get("environment", {})
        given = {
            k: interpolated(v) for k, v in named.items() if v is not None
        }  # those are passed on where they are set
        for redis, port in self.redis_ports.items():
            given = {k: v.replace(f"redis://{redis}:6379", f"redis://127.0.0.1:{port}") for k, v in given.items()}
        return {**environment(**self.more), **given}

    def start(self, instance):
        name = instance.partition(".")[0]
        with (self.folder / f"{instance}.log").open("ab") as log:
            self.processes[instance] = subprocess.Popen(
                self.adapted(name, self.services[name]["command"]), env=self.environment(name), cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def log(self, instance):
        return (self.folder / f"{instance}.log").read_text()

    def run(self, name, *command, check=False):
        """A command with the environment of a service."""
        return subprocess.run(
            self.adapted(name, command), env=self.environment(name), cwd=self.folder, capture_output=True, text=True,
            check=check,
        )  # fmt: skip

    def healthy(self, name):
        """Does the service's own check pass?"""
        return self.run(name, *self.services[name]["healthcheck"]["test"][1:]).returncode == 0

    def kill(self, instance):
        """SIGKILL to all of a process's family."""
        os.killpg(self.processes[instance].pid, signal.SIGKILL)
        self.processes[instance].wait()

    def stop(self, instance):
        """SIGTERM, as Docker sends it; the seconds it took."""
        began, process = time.monotonic(), self.processes[instance]
        process.terminate()
        process.wait(60)
        return time.monotonic() - began
