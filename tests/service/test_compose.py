"""docker-compose.yml fits the Compose Specification, keeps its promises, and its commands work as they stand there.

The image is not built here: the commands run on this machine, with the file's environment and our hosts and ports.
"""

import re
import shlex

import yaml

from service.running import ROOT
from service.stack import KEY, interpolated, settings_that_parts_share

FILE = ROOT / "docker-compose.yml"
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES = COMPOSE["services"]


def test_there_is_one_image_for_our_processes_and_redis_forgets_nothing():
    assert set(SERVICES) == {"redis", "api", "worker", "beat"}
    assert {SERVICES[name]["image"] for name in ("api", "worker", "beat")} == {"ragassay:local"}
    command = shlex.join(SERVICES["redis"]["command"])
    assert "--appendonly yes" in command
    assert "--appendfsync always" in command
    assert "--maxmemory-policy noeviction" in command
    assert SERVICES["redis"]["volumes"] == ["redis-data:/data"]


def test_there_is_no_start_without_a_key():
    value = SERVICES["api"]["environment"]["RAGASSAY_BOOTSTRAP_KEY"]
    assert interpolated(value) == KEY
    assert value.startswith("${RAGASSAY_BOOTSTRAP_KEY:?")


DOTENV = {
    "RAGASSAY_BOOTSTRAP_KEY": KEY,
    "RAGASSAY_KEY_PEPPER": "pepper",
    "OPENAI_API_KEY": "sk-1",
    "RAGASSAY_BROKER_URL": "redis://other/1",
    "RAGASSAY_SYSTEMS": "/data/systems.yaml",
    "RAGASSAY_PLUGINS": "/data/metrics.py",
    "RAGASSAY_KEEP_RESULTS_DAYS": "7",
    "RAGASSAY_KEEP_REPORTS_DAYS": "70",
    "RAGASSAY_OUTGOING_ALLOWED": "hooks.internal",
}


def received(name):
    """The environment of a container if ``.env`` is ``DOTENV``: its ``env_file`` under its ``environment``."""
    service = SERVICES[name]
    files = [each["path"] for each in service.get("env_file", ())]
    assert files in ([], [".env"])
    given = {
        key: DOTENV.get(key) if value is None else interpolated(value, DOTENV)
        for key, value in service["environment"].items()
    }
    return {**(DOTENV if files else {}), **{key: value for key, value in given.items() if value is not None}}


def test_services_bootstrap_key_and_pepper_reach_the_api_alone():
    for name in ("RAGASSAY_BOOTSTRAP_KEY", "RAGASSAY_KEY_PEPPER"):
        assert [part for part in ("api", "worker", "beat") if received(part).get(name)] == ["api"]
    assert [part for part in ("api", "worker", "beat") if "OPENAI_API_KEY" in received(part)] == ["worker"]


def test_services_settings_of_all_parts_reach_all():
    settings_that_parts_share(SERVICES)
    shared = [
        name for name in DOTENV if name.startswith("RAGASSAY_") and "KEY_PEPPER" not in name and "BOOTSTRAP" not in name
    ]
    for part in ("api", "worker", "beat"):
        assert {name: received(part).get(name) for name in shared} == {name: DOTENV[name] for name in shared}


def test_docker_copies_what_the_build_needs():
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    assert {name for line in copied for name in line.split()} == kept
    assert all((ROOT / name).exists() for name in kept)
