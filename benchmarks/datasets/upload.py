"""Seconds of an upload of rows to a real API process, and the memory of that process before and while it is sent.

    python benchmarks/datasets/upload.py [ROWS] [WORDS]

Rows are those of ``bench.py``. Starts Redis and ``ragassay serve`` on this machine. Exits 1 when the API's process grows
by more than 50 MB.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "tests")]

from bench import write  # noqa: E402

from redis_server import free_port, redis_server  # noqa: E402

MOST_BYTES = 50_000_000


def resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def measured(rows: int, words: int) -> bool:
    """Is the API's growth within the limit? Prints what was measured."""
    with tempfile.TemporaryDirectory() as folder, redis_server() as redis:
        file, port = Path(folder) / "rows.jsonl", free_port()
        write(file, rows, words)
        environment = {**os.environ, "RAGASSAY_STATE_URL": redis, "RAGASSAY_HOME": str(Path(folder) / "home")}
        command = [sys.executable, "-m", "ragassay.cli", "serve", "--port", str(port)]
        api = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return _upload(api.pid, f"http://127.0.0.1:{port}", file, rows)
        finally:
            api.terminate()
            api.wait()


def _upload(pid: int, url: str, file: Path, rows: int) -> bool:
    most = {"api": 0, "reader": 0}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            try:
                most["api"] = max(most["api"], resident(pid))
                most["reader"] = max([most["reader"], *map(resident, children(pid))])
            except OSError:  # a process that has just ended
                continue

    with httpx.Client(base_url=url, timeout=600, trust_env=False) as http:
        while True:
            try:
                http.get("/v1/datasets").raise_for_status()
                break
            except httpx.TransportError:
                time.sleep(0.1)
        before = resident(pid)
        threading.Thread(target=watch, daemon=True).start()
        began = time.monotonic()
        with file.open("rb") as content:
            answer = http.put("/v1/datasets/rows", content=content, headers={"Content-Type": "application/x-ndjson"})
        seconds = time.monotonic() - began
        assert answer.status_code == 201, answer.text
        assert answer.json()["rows"] == rows
        done.set()
    growth = most["api"] - before
    size = file.stat().st_size
    print(f"{rows:,} rows, {size / 1e6:.0f} MB in {seconds:.1f} s; load {os.getloadavg()[0]:.1f}")
    print(f"API process: {before / 1e6:.0f} MB before, {growth / 1e6:.1f} MB more at the most")
    print(f"process that reads the rows: {most['reader'] / 1e6:.0f} MB")
    return growth <= MOST_BYTES


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    sys.exit(not measured(*(arguments + [100_000, 25][len(arguments) :])))
