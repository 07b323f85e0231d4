"""An upload to the real API process: rows in thousands, and its memory stays where it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from polling import until
from redis_server import free_port, redis_server

ROWS = 20_000
TEXT = "the quick brown fox jumps over the lazy dog " * 10


@pytest.fixture
def api(tmp_path):
    """``ragassay serve api`` as its users start it; its address and its process."""
    port = free_port()
    command = [sys.executable, "-m", "ragassay.cli", "serve", "api", "--port", str(port)]
    with redis_server() as redis, (tmp_path / "log").open("wb") as log:
        environment = {**os.environ, "RAGASSAY_STATE_URL": redis, "RAGASSAY_HOME": str(tmp_path / "home")}
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=log)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False) as http:
                until(lambda: answers(http), 30, what="the API does not answer")
                yield http, process.pid
        finally:
            process.terminate()
            process.wait(20)


def answers(http):
    try:
        return http.get("/v1/datasets").status_code == 200
    except httpx.TransportError:
        return False


def most_resident(pid):
    """The most bytes of a process that were in memory at any time."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def lines():
    for n in range(ROWS):
        row = {"query_id": f"q{n}", "query": f"Question {n}?", "answer": TEXT, "ground_truth": TEXT, "contexts": [TEXT]}
        yield json.dumps(row).encode() + b"\n"


@pytest.mark.timeout(180)
def test_upload_of_rows_leaves_the_memory_of_the_api_as_it_was(api, tmp_path):
    http, pid = api
    (tmp_path / "pickle.py").write_text("raise SystemExit('imported from the folder it was started in')")
    first = http.put(
        "/v1/datasets/small", content=b'{"query": "?"}\n', headers={"Content-Type": "application/x-ndjson"}
    )
    assert first.status_code == 201, (tmp_path / "log").read_text()
    before = most_resident(pid)
    sent = http.put("/v1/datasets/large", content=lines(), headers={"Content-Type": "application/x-ndjson"})
    assert (sent.status_code, sent.json()["rows"]) == (201, ROWS)
    assert most_resident(pid) - before < 20_000_000  # 27 MB are sent
    assert list((tmp_path / "home" / "uploads").iterdir()) == []
