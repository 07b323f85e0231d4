"""``kill -9`` in the middle of a run, then ``--resume``: nothing is lost, nothing is paid twice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag import lines, steady
from ragassay.store.folder import FolderStore

ROWS = 120
PROVIDER = Path(__file__).parents[1] / "provider.py"


@pytest.fixture
def provider(tmp_path):
    """A provider in a process of its own, 60 ms a call; yields its address and a reader of its log."""
    port, log = tmp_path / "port", tmp_path / "provider.log"
    command = [sys.executable, PROVIDER, "--port-file", str(port), "--latency-ms", "60", "--log", str(log)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 20
    while not (port.exists() and port.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield (
        f"http://127.0.0.1:{port.read_text().strip()}/v1",
        lambda: log.read_text().splitlines() if log.exists() else [],
    )
    process.kill()
    process.wait()


def _hears_interrupts():
    """Where the tests run in the background, a shell has told them to ignore the signal, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ragassay(home, *arguments):
    environment = {**os.environ, "RAGASSAY_HOME": str(home)}
    command = [sys.executable, "-m", "ragassay.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, preexec_fn=_hears_interrupts, **pipes)


def test_a_killed_run_is_resumed_without_repeating_a_settled_call(provider, tmp_path):
    url, log = provider
    data = lines(
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
    deadline = time.monotonic() + 60
    while len(log()) < 60:
        assert time.monotonic() < deadline, killed.stderr.read()
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()

    run = FolderStore(tmp_path / "killed").open("last")
    settled = len((run.folder / "calls.jsonl").read_bytes().splitlines())
    before = len(log())
    assert 0 < len(run.pending()) <= 3
    assert 0 < settled < ROWS

    out, err = ragassay(tmp_path / "killed", "evaluate", "--resume", "last", "--json").communicate(timeout=120)
    assert err == b""
    resumed = json.loads(out)
    torn = settled - (before + ROWS - len(log()))  # at most the line that the kill cut in two
    assert torn in (0, 1)
    assert [row["query_id"] for row in resumed["systems"]["default"]["results"]] == [f"q{n}" for n in range(ROWS)]

    out, _ = ragassay(tmp_path / "calm", "evaluate", *options).communicate(timeout=120)
    assert steady(resumed) == steady(json.loads(out))
    assert resumed["systems"]["default"]["evaluation"]["usage"]["calls"] == ROWS


def test_an_interrupted_run_says_how_to_go_on(provider, tmp_path):
    url, log = provider
    rows = [{"query": f"What is {n}?", "answer": "A number.", "contexts": ["A number."]} for n in range(60)]
    data = lines(tmp_path / "data.jsonl", rows)
    run = ragassay(tmp_path / "home", "evaluate", data, "--judge", "gpt-4o-mini", "--api-base", url, "-j", 2)
    while len(log()) < 5:
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert run.returncode == 130
    assert b"go on with: ragassay evaluate --resume" in err
    assert b"Traceback" not in err
    assert out == b""
