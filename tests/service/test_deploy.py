"""The compose files and deploy/: each form fits its schema, all of them say the same, and the commands work as they stand there.

Nothing is built or deployed here: the commands of the production compose file run on this machine as processes.
"""

import copy
import re
import shlex
import subprocess
import sys

import click
import pytest
import yaml
from typer.main import get_command

from ragassay.cli.app import app
from ragassay.service.queue import CHUNKS
from service.running import ROOT

KEY = "a-key-for-the-tests"


def interpolated(text, given):
    """Compose's ``${NAME:-default}`` and ``${NAME:?message}``, innermost first."""
    pattern = re.compile(r"\$\{(\w+)(?::([-?])([^${}]*))?\}")
    while found := pattern.search(text):
        name, kind, rest = found.groups()
        if name not in given and kind == "?":
            raise LookupError(f"{name}: {rest}")
        text = text[: found.start()] + given.get(name, rest or "") + text[found.end() :]
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


DEPLOY = ROOT / "deploy"
FILE = DEPLOY / "compose.production.yml"
FILES = ROOT / "docker-compose.yml", FILE
SERVICES = services_of(*FILES)
MANIFESTS = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
    if path.name != "kustomization.yaml"
]
OURS = ("api", "worker", "beat")
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
OF_THE_API = ("RAGASSAY_BOOTSTRAP_KEY", "RAGASSAY_KEY_PEPPER")


def manifest(kind, name):
    (one,) = (m for m in MANIFESTS if (m["kind"], m["metadata"]["name"]) == (kind, name))
    return one


def pod(name):
    return manifest("StatefulSet" if name.startswith("redis") else "Deployment", name)["spec"]["template"]["spec"]


def options(words):
    """A Redis command line as {option: value}."""
    names = [n for n, word in enumerate(words) if word.startswith("--")]
    return {words[n][2:]: words[n + 1] for n in names}


# --- compose ----------------------------------------------------------------------------------------------------


def test_the_compose_files_fit_the_schema_of_the_compose_specification():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *map(str, FILES)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_restarted_checked_and_limited_and_has_no_rights(name):
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert set(service.get("deploy", {}).get("resources", {}).get("limits", {})) == (
        set() if name == "proxy" else {"cpus", "memory"}
    )
    assert ("ports" in service) == (name in ("api", "proxy"))
    assert (SERVICES["beat"]["deploy"]["replicas"], SERVICES["worker"]["deploy"]["replicas"]) == (2, 2)


def received(services, name):
    """The environment of a container if ``.env`` is ``DOTENV``: its ``env_file`` under its ``environment``."""
    service = services[name]
    files = [each["path"] for each in service.get("env_file", ())]
    assert files in ([], [".env"])
    given = {
        key: DOTENV.get(key) if value is None else interpolated(value, DOTENV)
        for key, value in service["environment"].items()
    }
    return {**(DOTENV if files else {}), **{key: value for key, value in given.items() if value is not None}}


@pytest.mark.parametrize("files", [FILES[:1], FILES], ids=["simple", "production"])
def test_services_secrets_reach_the_part_that_needs_them_and_other_settings_all(files):
    services = services_of(*files)
    parts = {name: received(services, name) for name in OURS}
    for name in OF_THE_API:
        assert [part for part in OURS if parts[part].get(name)] == ["api"]
    assert [part for part in OURS if "OPENAI_API_KEY" in parts[part]] == ["worker"]
    for name in ("RAGASSAY_STATE_URL", *(DOTENV.keys() - {*OF_THE_API, "OPENAI_API_KEY", "RAGASSAY_BROKER_URL"})):
        values = {parts[part].get(name) for part in OURS}
        assert len(values) == 1, name
        assert values <= {DOTENV.get(name, *values)}, name
    for name in OURS:
        assert "${DATA_FOLDER:-./data}:/data:ro" in services[name]["volumes"], name
    (container,) = pod("ragassay-worker")["containers"]
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in container["volumeMounts"]


def test_compose_does_not_start_without_a_key_and_its_redis_forgets_nothing():
    simple = services_of(FILES[0])
    value = simple["api"]["environment"]["RAGASSAY_BOOTSTRAP_KEY"]
    assert (interpolated(value, DOTENV), value.startswith("${RAGASSAY_BOOTSTRAP_KEY:?")) == (KEY, True)
    command = shlex.join(simple["redis"]["command"])
    for option in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert option in command
    assert simple["redis"]["volumes"] == ["redis-data:/data"]


def test_docker_copies_what_the_build_needs():
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    assert {name for line in copied for name in line.split()} == kept
    assert all((ROOT / name).exists() for name in kept)


def test_all_forms_start_redis_with_the_same_options():
    for role in ("state", "broker"):
        expected = options(SERVICES["redis" if role == "state" else role]["command"])
        assert options(pod(f"redis-{role}")["containers"][0]["args"]) == expected
        assert (expected["maxmemory-policy"], expected["save"]) == ("noeviction", "")
    assert options(SERVICES["redis"]["command"])["appendfsync"] == "always"


def test_commands_of_all_forms_are_those_of_the_command_line():
    words = [service.get("command", []) for service in SERVICES.values()]
    words += [service["healthcheck"]["test"][1:] for service in SERVICES.values()]
    for container in (container for name in OURS for container in pod(f"ragassay-{name}")["containers"]):
        probes = (container[name] for name in ("startupProbe", "livenessProbe") if name in container)
        words += [container["args"], *(probe["exec"]["command"] for probe in probes if "exec" in probe)]
    ours = [line[1:] for line in words if line and line[0] == "ragassay"]
    assert len(ours) > 10
    assert ours.count(["serve", "worker", "--check"]) == ours.count(["serve", "scheduler", "--check"]) > 1
    for line in ours:
        command = get_command(app)
        while isinstance(command, click.Group):
            command, *line = command.commands[line[0]], *line[1:]
        command.make_context(command.name, line)


def test_the_scaler_counts_what_waits_and_what_is_taken():
    triggers = manifest("ScaledObject", "ragassay-worker")["spec"]["triggers"]
    assert {trigger["metadata"]["listName"] for trigger in triggers} == {CHUNKS, "unacked"}


# --- kubernetes -------------------------------------------------------------------------------------------------


def test_the_manifests_fit_the_schemas_of_kubernetes():
    import kubernetes_validate

    for one in MANIFESTS:
        if one["kind"] != "ScaledObject":
            kubernetes_validate.validate(one, "1.37", strict=True)
    kinds = {one["kind"] for one in MANIFESTS}
    assert {"Deployment", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "ScaledObject", "Ingress"} <= kinds
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(
        p.name for p in (DEPLOY / "kubernetes").glob("*.yaml") if p.name != "kustomization.yaml"
    )


@pytest.mark.parametrize("name", ["ragassay-api", "ragassay-worker", "ragassay-beat", "redis-state", "redis-broker"])
def test_every_pod_runs_without_root_and_can_write_to_its_volumes_only(name):
    spec = pod(name)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]
    assert {"startupProbe", "livenessProbe"} & set(container)


def test_selectors_name_pods_that_are_there():
    workloads = [m for m in MANIFESTS if m["kind"] in ("Deployment", "StatefulSet")]
    labels = [m["spec"]["template"]["metadata"]["labels"].items() for m in workloads]
    selectors = [m["spec"]["selector"]["matchLabels"] for m in workloads]
    selectors += [m["spec"]["selector"] for m in MANIFESTS if m["kind"] == "Service"]
    policies = (m["spec"]["podSelector"] for m in MANIFESTS if m["kind"] == "NetworkPolicy")
    selectors += [policy["matchLabels"] for policy in policies if policy]
    for selector in selectors:
        assert any(selector.items() <= each for each in labels), selector
