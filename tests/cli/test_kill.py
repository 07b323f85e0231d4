"""``kill -9`` in the middle of a run, then ``--resume``: nothing is lost, nothing is paid twice."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from offline_runs import GOOD, without_times, write_jsonl
from polling import until
from ragassay.storage.folder import FolderStore

ROWS = 120
BUDGET, KILLS = 40_000, 4
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


def test_a_killed_run_is_resumed_without_repeating_a_settled_call(provider, tmp_path):
    url, log = provider
    data = write_jsonl(
        tmp_path / "data.jsonl",
        [
            {
                "query_id": f"q{n}",
                "query": f"What is {n} and one?",
                "answer": f"It is {n + 1}. That follows {n}.",
                "contexts": [f"One more than {n} is {n + 1}."],
                "ground_truth_answer": str(n + 1),
                "retrieved_doc_ids": ["d1"],
                "relevant_doc_ids": ["d1"],
                "cost_usd": 0.001,
            }
            for n in range(ROWS)
        ],
    )
    metrics = "faithfulness,completeness,correctness,mrr,accurate"
    judge = ("--judge", "gpt-4o-mini", "--api-base", url, "-j", 8)
    options = (data, *judge, "--metrics", metrics, "--accurate", "correctness >= 0.5", "--json")

    killed = ragassay(tmp_path / "killed", "evaluate", *options)
    until(lambda: len(log()) >= 60)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()

    run = FolderStore(tmp_path / "killed").open("last")
    *whole, _ = (run.folder / "calls.jsonl").read_bytes().split(b"\n")  # the kill may have cut the last line in two
    calls = [json.loads(line) for line in whole]
    settled = {call["id"] for call in calls if "reply" in call}
    in_flight = {call["id"] for call in calls if "most" in call} - settled
    before = len(log())
    assert 0 < len(run.pending()) <= 3
    assert 0 < len(settled) < ROWS
    assert 0 < len(in_flight) <= 8

    out, err = ragassay(tmp_path / "killed", "evaluate", "--resume", "last", "--json").communicate(timeout=120)
    assert err == b""
    resumed = json.loads(out)
    assert len(log()) - before == ROWS - len(settled)
    assert [row["query_id"] for row in resumed["results"]["default"]] == [f"q{n}" for n in range(ROWS)]

    out, _ = ragassay(tmp_path / "calm", "evaluate", *options).communicate(timeout=120)
    calm = json.loads(out)
    interrupted = [report.pop("interrupted")["uncertain_calls"] for report in (resumed, calm)]
    assert interrupted == [len(in_flight), 0]
    assert without_times(resumed) == without_times(calm)
    assert resumed["systems"]["default"]["evaluation"]["usage"]["calls"] == ROWS


def test_a_budget_holds_whatever_is_killed_and_however_often(provider, tmp_path):
    url, log = provider
    rows = [{**GOOD, "query_id": f"q{n}", "query": f"Which one is it, number {n}?"} for n in range(150)]
    data = write_jsonl(tmp_path / "data.jsonl", rows)
    chance = random.Random(8)
    address = ("--api-base", url)
    command = ("evaluate", data, "--judge", "gpt-4o-mini", *address, "--metrics", "faithfulness", "-j", 4)
    command += ("--budget-tokens", BUDGET)
    for _ in range(KILLS):
        before = len(log())
        run = ragassay(tmp_path / "home", *command)
        while len(log()) < before + chance.randint(1, 8) and run.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.random() * 0.1)
        run.kill()
        run.communicate()
        command = ("evaluate", "--resume", "last")
    out, err = ragassay(tmp_path / "home", *command).communicate(timeout=120)
    billed = sum(json.loads(line)["billed"] for line in log())
    assert billed <= BUDGET
    assert b"Traceback" not in err
    assert (out, b"the budget of" in err) == (b"", True)
    found = re.search(rb"are spent, ([\d,]+) of it an estimate of (\d+) calls with an unknown outcome", err)
    assert found, err
    assert b"--budget-tokens MORE" in err

    files = ("-o", tmp_path / "r.json", "-o", tmp_path / "r.md")
    out, _ = ragassay(tmp_path / "home", *command, "--budget-tokens", 10**9, *files).communicate(timeout=240)
    report = json.loads((tmp_path / "r.json").read_bytes())
    assert report["interrupted"]["uncertain_calls"] == int(found[2])
    assert report["systems"]["default"]["evaluation"]["usage"]["calls"] == 150
    assert len(log()) - 150 <= int(found[2])  # every call that no row has was counted as interrupted
    sentence = (
        f"nterrupted: {found[2].decode()} calls have an unknown outcome and belong to no row; they may have been billed"
    )
    assert sentence in out.decode()
    assert sentence in (tmp_path / "r.md").read_text()
