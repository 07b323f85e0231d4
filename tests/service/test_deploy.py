"""The compose files and deploy/: they fit their schemas, say the same, and name commands and metrics of ours. Nothing is built."""

import json
import re
import shlex
import subprocess
import sys

import click
import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from ragassay.cli.app import app
from ragassay.service.queue import CHUNKS
from service.running import ROOT

DEPLOY = ROOT / "deploy"
FILES = ROOT / "docker-compose.yml", DEPLOY / "compose.production.yml"
PATHS = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml")
MANIFESTS = [manifest for path in PATHS for manifest in yaml.safe_load_all(path.read_text())]
OURS = ("api", "worker", "beat")
OF_THE_API = {"RAGASSAY_BOOTSTRAP_KEY": "a-key-for-the-tests", "RAGASSAY_KEY_PEPPER": "pepper"}
OF_ALL = {
    "RAGASSAY_SYSTEMS": "/data/systems.yaml",
    "RAGASSAY_PLUGINS": "/data/metrics.py",
    "RAGASSAY_KEEP_RESULTS_DAYS": "7",
    "RAGASSAY_KEEP_REPORTS_DAYS": "70",
    "RAGASSAY_OUTGOING_ALLOWED": "hooks.internal",
}
DOTENV = {**OF_THE_API, **OF_ALL, "OPENAI_API_KEY": "sk-1", "RAGASSAY_BROKER_URL": "redis://other/1"}


def merged(under, over):
    """A compose file over another: mappings are merged, all else is replaced."""
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    return {**under, **{key: merged(under.get(key), value) for key, value in over.items()}}


SIMPLE, OVERRIDE = (yaml.safe_load(file.read_text())["services"] for file in FILES)
SERVICES = merged(SIMPLE, OVERRIDE)


def interpolated(text):
    """Compose's ``${NAME:-default}`` and ``${NAME:?message}`` under ``DOTENV``, innermost first."""
    pattern = re.compile(r"\$\{(\w+)(?::([-?])([^${}]*))?\}")
    while found := pattern.search(text):
        name, kind, rest = found.groups()
        assert name in DOTENV or kind != "?", f"{name}: {rest}"
        text = text[: found.start()] + DOTENV.get(name, rest or "") + text[found.end() :]
    return text


def received(service):
    """The environment of a container if ``.env`` is ``DOTENV``: its ``env_file`` under its ``environment``."""
    given = {k: DOTENV.get(k) if v is None else interpolated(v) for k, v in service["environment"].items()}
    given = {key: value for key, value in given.items() if value is not None}
    return {**DOTENV, **given} if service.get("env_file") else given


def manifests(*kinds):
    return {one["metadata"]["name"]: one for one in MANIFESTS if one["kind"] in kinds}


PODS = {name: one["spec"]["template"] for name, one in manifests("Deployment", "StatefulSet").items()}


def container_of(name):
    (container,) = PODS[name]["spec"]["containers"]
    return container


def options(words):
    """A Redis command line as {option: value}."""
    return {word[2:]: words[n + 1] for n, word in enumerate(words) if word.startswith("--")}


def test_the_files_fit_the_schemas_of_compose_and_kubernetes():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *map(str, FILES)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for one in MANIFESTS:
        if one["kind"] != "ScaledObject":
            kubernetes_validate.validate(one, "1.37", strict=True)
    kinds = {one["kind"] for one in MANIFESTS}
    assert {"Deployment", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "ScaledObject", "Ingress"} <= kinds
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == [path.name for path in PATHS]


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_restarted_checked_and_limited_and_has_no_rights(name):
    service = SERVICES[name]
    assert (service["restart"], service["read_only"], service["cap_drop"]) == ("unless-stopped", True, ["ALL"])
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    assert set(limits) == (set() if name == "proxy" else {"cpus", "memory"})
    assert ("ports" in service) == (name in ("api", "proxy"))
    assert service.get("deploy", {}).get("replicas", 1) == (2 if name in ("beat", "worker") else 1)


@pytest.mark.parametrize("name", PODS)
def test_every_pod_runs_without_root_and_can_write_to_its_volumes_only(name):
    spec, container = PODS[name]["spec"], container_of(name)
    assert (
        spec["securityContext"].items() >= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}.items()
    )
    assert spec["automountServiceAccountToken"] is False
    rights = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == rights
    assert "memory" in container["resources"]["limits"]
    assert {"startupProbe", "livenessProbe"} & set(container)


@pytest.mark.parametrize("services", [SIMPLE, SERVICES], ids=["simple", "production"])
def test_services_secrets_reach_the_part_that_needs_them_and_other_settings_all(services):
    parts = {name: received(services[name]) for name in OURS}
    for name in OF_THE_API:
        assert [part for part in OURS if parts[part].get(name)] == ["api"]
    assert [part for part in OURS if "OPENAI_API_KEY" in parts[part]] == ["worker"]
    for name, value in OF_ALL.items():
        assert {parts[part].get(name) for part in OURS} == {value}, name
    assert len({parts[part]["RAGASSAY_STATE_URL"] for part in OURS}) == 1
    for name in OURS:
        assert "${DATA_FOLDER:-./data}:/data:ro" in services[name]["volumes"], name
    mounts = container_of("ragassay-worker")["volumeMounts"]
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in mounts


def test_compose_does_not_start_without_a_key_and_no_redis_forgets_anything():
    assert SIMPLE["api"]["environment"]["RAGASSAY_BOOTSTRAP_KEY"].startswith("${RAGASSAY_BOOTSTRAP_KEY:?")
    command = shlex.join(SIMPLE["redis"]["command"])
    for option in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert option in command
    assert SIMPLE["redis"]["volumes"] == ["redis-data:/data"]
    for role, name in (("state", "redis"), ("broker", "broker")):
        expected = options(SERVICES[name]["command"])
        assert options(container_of(f"redis-{role}")["args"]) == expected
        assert (expected["maxmemory-policy"], expected["save"]) == ("noeviction", "")
    assert options(SERVICES["redis"]["command"])["appendfsync"] == "always"


def test_docker_copies_what_the_build_needs():
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M)
    assert {name for line in copied for name in line.split()} == kept
    assert all((ROOT / name).exists() for name in kept)


def test_commands_of_all_forms_are_those_of_the_command_line():
    words = [service.get("command", []) for service in SERVICES.values()]
    words += [service["healthcheck"]["test"][1:] for service in SERVICES.values()]
    for container in (container_of(f"ragassay-{name}") for name in OURS):
        probes = (container[name] for name in ("startupProbe", "livenessProbe") if name in container)
        words += [container["args"], *(probe["exec"]["command"] for probe in probes if "exec" in probe)]
    ours = [line[1:] for line in words if line and line[0] == "ragassay"]
    assert ours.count(["serve", "worker", "--check"]) == ours.count(["serve", "scheduler", "--check"]) > 1
    for line in ours:
        command = get_command(app)
        while isinstance(command, click.Group):
            command, *line = command.commands[line[0]], *line[1:]
        command.make_context(command.name, line)


def test_selectors_name_pods_that_are_there_and_the_scaler_counts_what_waits_and_what_is_taken():
    labels = [pod["metadata"]["labels"].items() for pod in PODS.values()]
    selectors = [one["spec"]["selector"]["matchLabels"] for one in manifests("Deployment", "StatefulSet").values()]
    selectors += [one["spec"]["selector"] for one in manifests("Service").values()]
    policies = (one["spec"]["podSelector"] for one in manifests("NetworkPolicy").values())
    selectors += [policy["matchLabels"] for policy in policies if policy]
    for selector in selectors:
        assert any(selector.items() <= each for each in labels), selector
    triggers = manifests("ScaledObject")["ragassay-worker"]["spec"]["triggers"]
    assert {trigger["metadata"]["listName"] for trigger in triggers} == {CHUNKS, "unacked"}


PAGE = (ROOT / "docs" / "monitoring.md").read_text()
DASHBOARD = json.loads((DEPLOY / "grafana" / "ragassay.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [
    *((panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]),
    *((rule["alert"], rule["expr"]) for rule in RULES),
]


def exported():
    """Each name that an expression may have, with its labels: the page's table, which a test compares with ``/metrics``."""
    names = {}
    for name, kind, labels in re.findall(r"^\| `(ragassay_\w+)` \| (\w+) \|([^|]*)\|", PAGE, re.M):
        known = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            names |= {f"{name}_bucket": known | {"le"}, f"{name}_sum": known, f"{name}_count": known}
        else:
            names[name] = known
    return names


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_every_expression_is_of_metrics_and_labels_that_there_are(where, expression):
    names, known = re.findall(r"ragassay_\w+", expression), exported()
    assert names
    assert set(names) <= set(known), where
    scraped = {"job", "instance"}
    for name, selector in re.findall(r"(ragassay_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*[=!]", selector)) <= known[name] | scraped, where
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert set(re.split(r"\s*,\s*", grouped)) <= set.intersection(*(known[name] for name in names)) | scraped, where
    text = re.sub(r'"[^"]*"', "", expression)
    assert [text.count(mark) for mark in "([{"] == [text.count(mark) for mark in ")]}"], where
    for counter in re.findall(r"(?<!rate\()(?<!increase\()\bragassay_\w+_(?:total|bucket)\b", expression):
        pytest.fail(f"{where}: {counter} is a counter, and its value says nothing without rate() or increase()")
