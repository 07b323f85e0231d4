"""Every command of docs/service.md and docs/nightly.md works as it stands there, and prints what the pages show."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from polling import until
from redis_server import free_port
from service.running import ROOT, Service

SERVICE, NIGHTLY = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("service", "nightly"))
WITH, _, WITHOUT = NIGHTLY.partition("## Without the service")
RAG_SERVER = [sys.executable, ROOT / "examples" / "rag_server.py", "--port"]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def run(commands, folder, **variables):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=folder, capture_output=True, text=True, timeout=240,
        env={**os.environ, "PATH": path, "COLUMNS": "140", **variables},
    )  # fmt: skip


@pytest.fixture(scope="module")
def system():
    """The port of the example server."""
    port = free_port()
    server = subprocess.Popen([*RAG_SERVER, str(port)])

    def answers():
        try:
            return httpx.post(f"http://127.0.0.1:{port}/ask", json={"query": "?"}).is_success
        except httpx.TransportError:
            return False

    try:
        until(answers, 60, "the system under test")
        yield port
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def service(system, tmp_path_factory):
    """The service with the system that the page on nightly runs registers."""
    (start,) = blocks(WITH, "sh")
    assert start.endswith("RAGASSAY_SYSTEMS=systems.yaml ragassay serve\n")
    (registered,) = re.findall(r"<<'YAML'\n(.*?)^YAML", start, re.S | re.M)
    systems = tmp_path_factory.mktemp("operator") / "systems.yaml"
    systems.write_text(registered.replace(":8000/", f":{system}/"))
    with Service(preload="nothing", systems=systems) as running:
        yield running.ready()


def test_the_commands_of_the_page_on_the_service_work_and_show_what_it_shows(service):
    first, *others = blocks(SERVICE, "bash")
    assert first == "ragassay serve\n"
    done = run("\n".join(others).replace("http://127.0.0.1:8400", service.url), service.folder, COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    started, mean, alerts = blocks(SERVICE, "text")
    assert [line.split()[:3] for line in started.splitlines()] == [line.split()[:3] for line in service.info]
    assert '"status":"finished"' in (service.folder / "events.txt").read_text().splitlines()[-2]
    assert json.loads((service.folder / "comparison.json").read_text())["kind"] == "comparison"
    assert len(json.loads((service.folder / "trend.json").read_text())["systems"]["default"]["points"]) == 2
    # the job that was cancelled had ended
    for text in (mean, alerts, '"next":"1"', '"status":409', '"status":"ready"'):
        assert text in done.stdout


def test_the_commands_with_the_service_work_and_show_what_the_page_shows(service):
    done = run("\n".join(blocks(WITH, "bash")).replace("http://127.0.0.1:8400", service.url), service.folder)
    assert done.returncode == 0, done.stderr + done.stdout
    (shown,) = blocks(WITH, "text")
    begin = done.stdout.index("nightly: 30 2 * * *")
    printed = [line.split() for line in done.stdout[begin:].splitlines()[: len(shown.splitlines())]]
    wanted = [line.split() for line in shown.splitlines()]
    assert printed[:3] == wanted[:3]
    assert [line[2:] for line in printed[3:8]] == [["planned"]] * 5
    assert [line[2:-1] for line in printed[8:]] == [line[2:-1] for line in wanted[8:]]
    assert "nightly is removed" in done.stdout


def test_the_commands_without_the_service_work(system, tmp_path):
    made = "\n".join(blocks(WITHOUT, "bash")).replace(":8000/", f":{system}/")
    home = {"RAGASSAY_HOME": str(tmp_path / "home")}
    done = run(made, tmp_path, **home)
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "gates.md").read_text()
    line = next(text for text in blocks(WITHOUT, "text") if "30 2" in text)
    assert run(line.partition("* * * ")[2].replace("/srv/assistant", str(tmp_path)), tmp_path, **home).stdout == ""


def test_three_runs_with_a_regression_end_in_one_verified_alert_and_a_cost_report(tmp_path):
    example = ROOT / "examples" / "regression"
    asked, received = free_port(), free_port()
    systems = tmp_path / "systems.yaml"
    systems.write_text((example / "systems.yaml").read_text().replace(":8001/", f":{asked}/"))
    broken = [str(asked), "--wrong-from", "5"]
    server = subprocess.Popen([*RAG_SERVER, *broken])
    try:
        with Service(preload="nothing", systems=systems, outgoing_allowed="127.0.0.1") as service:
            service.ready()
            script = (example / "run.sh").read_text().replace("http://127.0.0.1:8400", service.url)
            script = script.replace("9000", str(received)).replace("examples/", f"{ROOT}/examples/")
            done = run(script, service.folder)
            jobs = service.client.get("/v1/jobs").json()["jobs"]
    finally:
        server.kill()
        server.wait()
    assert done.returncode == 0, done.stderr + done.stdout
    (notice,) = [json.loads(line)["data"] for line in done.stdout.splitlines() if line.startswith('{"type"')]
    wanted = {"schedule": "walk", "system": "online", "gate": "online: mrr drop <= 0.050", "cause": "undecided"}
    assert notice.items() >= {**wanted, "value": 0.5, "baseline": 1.0, "threshold": 0.05}.items()
    assert notice["job"] == next(job["id"] for job in jobs if job["alerts"])
    printed = [line.split() for line in done.stdout.splitlines()]
    gates = [words[4:-1] for words in printed if words[2:5] == ["finished,", "by", "hand"]]
    assert next(words for words in printed if "online" in words and "%" in words)[-8:] == "67 % 4 of 6 6 0 3".split()
    assert gates == [["hand", "0", "of", "1"], ["hand", "1", "of", "1"], ["hand"]]
