"""deploy/: each form fits its own schema, all of them say the same, and the commands do their work as they stand there.

Nothing is built or deployed here: the commands of the production compose file run on this machine as processes.
"""

import re
import subprocess
import sys

import httpx
import pytest
import redis
import yaml

from polling import until
from service.running import ROOT, rows
from service.stack import KEY, Stack, services_of, settings_that_parts_share

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


def test_all_parts_see_the_files_of_systems_and_plugins():
    settings_that_parts_share(SERVICES)
    (container,) = pod("ragassay-worker")["containers"]
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in container["volumeMounts"]


def test_all_forms_start_redis_with_the_same_options():
    for role in ("state", "broker"):
        expected = options(SERVICES["redis" if role == "state" else role]["command"])
        assert options(pod(f"redis-{role}")["containers"][0]["args"]) == expected
        assert (expected["maxmemory-policy"], expected["save"]) == ("noeviction", "")
    assert options(SERVICES["redis"]["command"])["appendfsync"] == "always"


def test_the_file_s_own_commands_survive_a_dead_beat_and_a_wiped_broker():
    with Stack(*FILES, lease_s=2, sweep_s=0.5) as stack, httpx.Client(timeout=20) as client:
        client.headers = {"Authorization": f"Bearer {KEY}"}
        client.base_url = f"http://127.0.0.1:{stack.port}"
        for name in ("redis", "broker", "api", "worker", "worker.2", "beat", "beat.2"):
            stack.start(name)

        def ready():
            try:
                there = client.get("/readyz").json()
            except httpx.HTTPError:
                return False
            return (there.get("workers"), there.get("beats")) == (2, 2) and there

        assert until(ready, 60, "two workers and two beats")["warnings"] == []
        for name in OURS:
            until(lambda name=name: stack.healthy(name), 30, stack.log(name))
        health = stack.run("beat", "ragassay", "admin", "health", check=True).stdout
        assert re.search(r"redis \(state\): .* noeviction, append-only file, fsync always\n", health)
        assert re.search(r"redis \(broker\): .* of 268 MB, noeviction, append-only file, fsync everysec\n", health)
        assert "workers:        2 with 6 processes\nschedulers:     2\n" in health
        stack.kill("beat")
        body = {"samples": rows(1200), "metrics": ["mrr"]}
        job = client.post("/v1/jobs", json=body).raise_for_status().json()["id"]
        broker = redis.Redis(port=stack.redis_ports["broker"])
        scaler = [
            trigger["metadata"]["listName"]
            for trigger in manifest("ScaledObject", "ragassay-worker")["spec"]["triggers"]
        ]
        until(lambda: any(_length(broker, key) for key in scaler), 10, "what the scaler counts")
        broker.flushall()  # no message is left; the other beat sends them again

        def finished():
            return client.get(f"/v1/jobs/{job}").json()["status"] == "finished"

        until(finished, 60, "the job")
        assert client.get(f"/v1/jobs/{job}").json()["progress"] == {"rows": 1200, "done": 1200, "failed": 0}
        broker.close()
        for name in ("state", "broker"):
            assert "Redis (" + name + ") " in stack.log("worker") + stack.log("beat.2")
        assert stack.healthy("beat"), "the other one is on this host too"


def _length(broker, key):
    """As KEDA's scaler asks for it, whatever kind of key it is."""
    return broker.hlen(key) if broker.type(key) == b"hash" else broker.llen(key)


# --- kubernetes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.37"])
def test_the_manifests_fit_the_schemas_of_kubernetes(version):
    import kubernetes_validate

    for one in MANIFESTS:
        if one["kind"] != "ScaledObject":
            kubernetes_validate.validate(one, version, strict=True)
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


def test_probes_test_progress_and_selectors_name_pods_that_are_there():
    for name, part in (("worker", "worker"), ("beat", "scheduler")):
        probe = pod(f"ragassay-{name}")["containers"][0]["livenessProbe"]["exec"]["command"]
        assert probe == ["ragassay", "serve", part, "--check"]
        assert manifest("PodDisruptionBudget", f"ragassay-{name}")["spec"]["maxUnavailable"] == 1
    workloads = [m for m in MANIFESTS if m["kind"] in ("Deployment", "StatefulSet")]
    labels = [m["spec"]["template"]["metadata"]["labels"].items() for m in workloads]
    for workload in workloads:
        assert (
            workload["spec"]["selector"]["matchLabels"].items()
            <= workload["spec"]["template"]["metadata"]["labels"].items()
        )
    for one in MANIFESTS:
        wanted = one["spec"].get("podSelector", {}).get("matchLabels") if one["kind"] == "NetworkPolicy" else None
        wanted = one["spec"]["selector"] if one["kind"] == "Service" else wanted
        assert wanted is None or any(wanted.items() <= each for each in labels), one["metadata"]
    assert manifest("Deployment", "ragassay-beat")["spec"]["replicas"] == 2
