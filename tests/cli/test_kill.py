"""``kill -9`` in the middle of a run, then ``--resume``: nothing is lost, nothing is paid twice."""

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from offline_runs import GOOD, without_times, write_jsonl
from polling import until
from ragassay.storage.folder import FolderStore

KILLS = int(os.environ.get("KILLS", "2"))  # make kills: 30
ROWS = 60 + 40 * KILLS
BUDGET = 10_000 * KILLS
PROVIDER = Path(__file__).parents[1] / "provider.py"


@pytest.fixture
def provider(tmp_path):
    """A provider in a process of its own, 60 ms a call; yields its address and a reader of its log."""
    port, log = tmp_path / "port", tmp_path / "provider.log"
    command = [sys.executable, PROVIDER, "--port-file", str(port), "--latency-ms", "60", "--log", str(log)]
    process = subprocess.Popen(command)
    until(lambda: port.exists() and port.read_text())
    yield (
        f"http://127.0.0.1:{port.read_text().strip()}/v1",
        lambda: log.read_text().splitlines() if log.exists() else [],
    )
    process.kill()
    process.wait()


def ragassay(home, *arguments):
    environment = {**os.environ, "RAGASSAY_HOME": str(home)}
    command = [sys.executable, "-m", "ragassay.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, **pipes)


def kill_at_random(run, log, chance, most):
    """Kill a process after some of the requests that it makes, or while it starts; True if it was still running."""
    if chance.random() < 0.2:
        time.sleep(2 * chance.random())
    else:
        wanted = len(log()) + chance.randint(1, most)
        while len(log()) < wanted and run.poll() is None:
            time.sleep(0.01)
    time.sleep(0.1 * chance.random())
    was_running = run.poll() is None
    run.kill()
    run.communicate()
    return was_running


def attempts(run):
    """Requests begun of the calls in a journal, and those that were begun although their call had a reply."""
    begun, repeated, settled = 0, 0, set()
    *whole, _ = (run.folder / "calls.jsonl").read_bytes().split(b"\n")  # a kill may have cut the last line in two
    for call in map(json.loads, whole):
        begun += "most" in call
        repeated += "most" in call and call["id"] in settled
        settled |= {call["id"]} if "reply" in call else set()
    return begun, repeated, settled


def test_a_run_that_is_killed_again_and_again_loses_nothing_and_repeats_no_finished_call(provider, tmp_path):
    url, log = provider
    rows = [{**GOOD, "query_id": f"q{n}", "query": f"What is {n} and one?", "cost_usd": 0.001} for n in range(ROWS)]
    data = write_jsonl(tmp_path / "data.jsonl", rows)
    chance, kills = random.Random(5), 0
    metrics = "faithfulness,completeness,correctness,mrr,accurate"
    judge = ("--judge", "gpt-4o-mini", "--set", f"api_base={url}", "-j", 8)
    options = (data, *judge, "--metrics", metrics, "--set", "accurate=correctness >= 0.5", "--json")

    killed = ragassay(tmp_path / "killed", "evaluate", *options)
    until(lambda: len(log()) >= 10)
    while kills < KILLS:
        kills += kill_at_random(killed, log, chance, most=30)
        killed = ragassay(tmp_path / "killed", "evaluate", "--resume", "last", "--json")
    out, err = killed.communicate(timeout=300)
    assert err == b""
    resumed, requests = json.loads(out), len(log())
    begun, repeated, settled = attempts(FolderStore(tmp_path / "killed").open("last"))

    out, _ = ragassay(tmp_path / "calm", "evaluate", *options).communicate(timeout=300)
    calm = json.loads(out)
    unknown, none = (report.pop("interrupted")["uncertain_calls"] for report in (resumed, calm))
    print(f"{kills} kills, {ROWS} rows: {requests} requests, {begun} attempts, {unknown} with an unknown outcome, "
          f"{ROWS - len(settled)} lost, {repeated} finished calls repeated")  # fmt: skip
    assert (len(settled), repeated, none) == (ROWS, 0, 0)
    assert begun == ROWS + unknown
    assert ROWS <= requests <= begun
    assert without_times(resumed) == without_times(calm)
    assert resumed["systems"]["default"]["evaluation"]["usage"]["calls"] == ROWS


def test_a_budget_holds_whatever_is_killed_and_however_often(provider, tmp_path):
    url, log = provider
    rows = [{**GOOD, "query_id": f"q{n}", "query": f"Which one is it, number {n}?"} for n in range(ROWS)]
    data = write_jsonl(tmp_path / "data.jsonl", rows)
    chance = random.Random(8)
    address = ("--set", f"api_base={url}")
    command = ("evaluate", data, "--judge", "gpt-4o-mini", *address, "--metrics", "faithfulness", "-j", 4)
    command += ("--set", f"budget.tokens={BUDGET}")
    for n in range(KILLS):
        run = ragassay(tmp_path / "home", *command)
        if n == 0:
            until(log)
        kill_at_random(run, log, chance, most=8)
        command = ("evaluate", "--resume", "last")
    out, err = ragassay(tmp_path / "home", *command).communicate(timeout=120)
    billed = sum(json.loads(line)["billed"] for line in log())
    print(f"{KILLS} kills: {billed:,} tokens billed under a budget of {BUDGET:,}")
    assert billed <= BUDGET
    assert b"Traceback" not in err
    assert (out, b"the budget of" in err) == (b"", True)
    found = re.search(rb"are spent, [\d,]+ of it an estimate of \D*(\d+)", err)
    assert found, err
    assert b"--set budget.tokens=MORE" in err

    files = ("-o", tmp_path / "r.json", "-o", tmp_path / "r.md")
    out, _ = ragassay(tmp_path / "home", *command, "--set", f"budget.tokens={10**9}", *files).communicate(timeout=300)
    report = json.loads((tmp_path / "r.json").read_bytes())
    assert report["interrupted"]["uncertain_calls"] == int(found[1])
    assert report["systems"]["default"]["evaluation"]["usage"]["calls"] == ROWS
    assert len(log()) - ROWS <= int(found[1])  # every call that no row has was counted as interrupted
    sentence = f"nterrupted: {found[1].decode()} calls have an unknown outcome and belong to no row"
    assert sentence in out.decode()
    assert sentence in (tmp_path / "r.md").read_text()
