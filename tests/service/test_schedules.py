"""A schedule through real beats and workers: no run is doubled, none is lost, whatever is killed."""

import os
import signal
import subprocess
import sys

import pytest

from polling import until
from service.running import Service, environment, rows, write_rows

CONFIGURATION = """
metrics: [mrr]
gates:
  - mrr: ">= 0.7"
baseline: last-passed
schedule:
  name: often
  cron: "* * * * *"
  zone: Asia/Kolkata
  dataset: things
"""


@pytest.fixture(scope="module")
def service():
    with Service(preload="nothing") as running:
        yield running.ready()


@pytest.fixture
def command(service, cli, monkeypatch):
    """Runs a command of the client against the service; its stdout."""
    monkeypatch.chdir(service.folder)
    monkeypatch.setenv("RAGASSAY_SERVER", service.url)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments):
        code, out, err = cli(*arguments)
        assert code == 0, err
        return out

    return run


def history(service, name):
    runs, cursor = [], ""
    while cursor is not None:
        page = service.answered("GET", f"/v1/schedules/{name}/runs?limit=200{cursor}").raise_for_status().json()
        runs += page["runs"]
        cursor = page["next"] and f"&cursor={page['next']}"
    return runs


def upload(service):
    """The dataset and the configuration of the schedule."""
    write_rows(service.folder / "things.jsonl", rows(3))
    things, kind = (service.folder / "things.jsonl").read_bytes(), {"Content-Type": "application/x-ndjson"}
    assert service.client.put("/v1/datasets/things", content=things, headers=kind).is_success
    (service.folder / "ragassay.yaml").write_text(CONFIGURATION)


def test_every_run_has_one_job_while_a_beat_a_worker_and_redis_are_killed(service, command):
    upload(service)
    settings = environment(state_url=service.redis_url, lease_s=2, sweep_s=0.5)
    beat = [sys.executable, "-m", "ragassay.cli", "serve", "scheduler"]
    second = subprocess.Popen(beat, env=settings, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        until(lambda: service.redis.zcard("ra:alive:beat") == 2, 60, "two beats")
        assert command("schedule", "add", "ragassay.yaml") == "often\n"
        for part in ("beat", "celery", "redis-server"):
            for _ in range(2):
                service.answered("POST", "/v1/schedules/often/run").raise_for_status()
            os.kill(service.part(part).pid, signal.SIGKILL)
        until(lambda: any(run["trigger"] != "manual" for run in history(service, "often")), 90, "a planned time")
        assert command("schedule", "set", "often", "--pause") == "often\n"

        def all_ended():  # a planned time is skipped while a run is under way
            return {run["status"] for run in history(service, "often")} <= {"finished", "skipped"}

        until(all_ended, 120, "the end of all jobs")
    finally:
        os.killpg(second.pid, signal.SIGKILL)
        second.wait()
    runs = [run for run in history(service, "often") if run["status"] == "finished"]
    assert sum(run["trigger"] == "manual" for run in runs) >= 6
    jobs = service.answered("GET", "/v1/jobs?limit=200").json()["jobs"]
    assert sorted(job["id"] for job in jobs) == sorted(run["job"] for run in runs)
    assert {(run["gates_passed"], run["gates_missed"]) for run in runs} == {(1, 0)}
