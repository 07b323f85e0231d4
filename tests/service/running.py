"""A service that tests start, watch, hurt and stop: ``ragassay serve`` as a user would run it, on a free port."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

import httpx
import orjson
import psutil
import redis
import zstandard

from polling import until

ROOT = Path(__file__).parents[2]
JUDGED = ["faithfulness", "completeness", "relevance", "correctness", "context_precision", "accurate", "ndcg@10", "mrr"]


def environment(**settings):
    """What a command of the service gets: no settings of a developer, and ``settings``; with a provider a key to it."""
    kept = {k: v for k, v in os.environ.items() if not (k.startswith("RAGASSAY_") or k.endswith("_API_KEY"))}
    given = {f"RAGASSAY_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, **given, **({"OPENAI_API_KEY": "key"} if "api_base" in settings else {})}


def run_up(*options, within_s=30, env=None, **settings):
    """``ragassay serve`` run to its end, for starts that fail."""
    with tempfile.TemporaryDirectory(prefix="ra-up-") as folder:
        return subprocess.run(
            [sys.executable, "-m", "ragassay.cli", "serve", *options],
            env={**environment(home=folder, **settings), **(env or {})}, cwd=folder, capture_output=True, text=True,
            timeout=within_s,
        )  # fmt: skip


class Service:
    """``ragassay serve`` in a folder of its own. ``took`` is the time from its start until ``/healthz`` answered."""

    def __init__(self, *options, workers=2, data=None, env=None, traced=True, **settings):
        self.folder = Path(tempfile.mkdtemp(prefix="ra-up-"))
        self.data = data or self.folder / "data"
        settings = {"home": self.folder / "home", "lease_s": 2, "sweep_s": 0.5, "preload": "llm", **settings}
        self.environment = {**environment(**settings), **(env or {})}
        if not traced:  # tracing makes every process several times slower, which a test of times must not measure
            self.environment = {k: v for k, v in self.environment.items() if not k.startswith("COVERAGE")}
        self._command = [sys.executable, "-m", "ragassay.cli", "serve", "--port", "0", "--data", str(self.data),
                         "--workers", str(workers), *options]  # fmt: skip
        self.info: list[str] = []
        self.lines: list[str] = []
        self.refusals: list[str] = []
        self.process: subprocess.Popen[str] | None = None
        self.url, self.client = "", None

    def start(self):
        """Start it and wait until the API answers."""
        began = time.monotonic()
        self.info.clear()
        self.lines.clear()
        self._close()
        self.process = subprocess.Popen(
            self._command, env=self.environment, cwd=self.folder, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        lines: queue.Queue[str] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.info, lines), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.lines, None), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        limit = time.monotonic() + 120
        while time.monotonic() < limit and self.process.poll() is None:
            try:
                line = lines.get(timeout=0.1)
            except queue.Empty:
                continue
            if match := re.search(r"ragassay is up: (http://\S+)", line):
                self.url = match.group(1)
                break
        else:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"up did not come up: {self.info}\n{self.logs()}")
        self.client = httpx.Client(base_url=self.url, timeout=30)
        assert self.client.get("/healthz").status_code == 200
        self.took = time.monotonic() - began
        return self

    @staticmethod
    def _read(stream, printed, lines):
        for line in stream:
            printed.append(line.rstrip())
            if lines is not None:
                lines.put(line)

    def ready(self, within_s=120):
        """Wait until a worker is there."""
        until(lambda: "workers are ready" in "".join(self.info), within_s, "workers")
        return self

    def stop(self, number=signal.SIGTERM):
        """Stop it as a user would; returns the seconds it took."""
        began = time.monotonic()
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(30)
        took = time.monotonic() - began
        self._close()
        return took

    def _close(self):
        if self.process:
            for reader in self._readers:
                reader.join(5)
            self.process.stdout.close()
            self.process.stderr.close()
        if self.client:
            self.client.close()

    def remove(self):
        """Stop it, and take its folder away."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_):
        self.remove()

    def logs(self):
        """The last lines of all its processes."""
        return "\n".join(self.lines[-300:])

    def restarts(self):
        """What it said of processes that ended by themselves."""
        return [line for line in self.lines if "stopped unexpectedly" in line]

    # --- its processes ---

    def tree(self):
        """All processes that it started, and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def part(self, word):
        """The leading process of a part: ``redis-server``, ``serve``, ``celery``, ``beat``."""

        def leader():
            for process in psutil.Process(self.process.pid).children():
                with suppress(psutil.NoSuchProcess):
                    if word in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                        return process
            return None

        try:
            return until(leader, 60, f"a process {word}")
        except (AssertionError, psutil.NoSuchProcess) as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    @property
    def redis_url(self):
        return f"unix://{self.data}/redis/redis.sock"

    @property
    def redis(self):
        """A connection to its Redis."""
        return redis.Redis.from_url(self.redis_url)

    def kill_children(self):
        """SIGKILL to the processes that work on jobs; their parent starts others."""
        for child in self.part("celery").children():
            os.kill(child.pid, signal.SIGKILL)

    # --- jobs ---

    def answered(self, method, path, *, again=(503,), **more):
        """An answer; after a 503, with which the service refuses what Redis does not answer in time, we ask again."""

        def ask():
            answer = self.client.request(method, path, **more)
            if answer.status_code not in again:
                return answer
            self.refusals.append(answer.json()["detail"])
            return None

        return until(ask, 120, f"{method} {path}")

    def submit(self, rows, judge="gpt-4o-mini", **more):
        """The id of a new job."""
        body = job_body(rows, judge, **more)
        key = {"Idempotency-Key": uuid.uuid4().hex}
        answer = self.answered("POST", "/v1/jobs", json=body, headers=key)
        assert answer.status_code in (200, 202), answer.text
        return answer.json()["id"]

    def job(self, job):
        return self.answered("GET", f"/v1/jobs/{job}").raise_for_status().json()

    def finished(self, job, within_s=60):
        """Wait for a job's end; its report."""

        def ended():
            status = self.job(job)
            assert status["status"] not in ("failed", "cancelled"), status
            return status["status"] == "finished"

        try:
            until(ended, within_s, f"job {job}")
        except AssertionError as error:
            raise AssertionError(f"{error} {self.job(job)}\n{self.logs()}") from None
        return self.report(job)

    def report(self, job):
        return self.answered("GET", f"/v1/jobs/{job}/report").raise_for_status().json()

    def settled(self, job):
        """The texts of the job's replies that are settled, as Redis has them at this moment."""
        connection, texts = self.redis, []
        for key in connection.scan_iter(f"ra:{{{job}}}:calls:*"):
            blobs = [blob for blob in connection.hvals(key) if not blob.startswith(b"?")]
            texts += [orjson.loads(zstandard.decompress(blob))["text"] for blob in blobs]
        connection.close()
        return texts


def job_body(rows, judge="gpt-4o-mini", **more):
    """What is posted for a job; a key without a value is left out."""
    body = {"samples": rows, "judge": judge, "metrics": JUDGED, "accurate": "correctness >= 0.5", **more}
    return {k: v for k, v in body.items() if v is not None}


def rows(count, of="thing"):
    """Recorded responses to ``count`` different questions."""
    return [
        {
            "query_id": f"{of}-{n}",
            "query": f"How heavy is {of} number {n}?",
            "ground_truth_answer": f"The {of} number {n} weighs {n} grams. It is blue.",
            "relevant_doc_ids": [f"{of}-{n}", "scales"],
            "category": ("factual", "conceptual")[n % 2],
            "answer": f"It weighs {n} grams. It is round.",
            "contexts": [f"The {of} number {n} weighs {n} grams. It is blue.", "Scales weigh things."],
            "retrieved_doc_ids": [f"{of}-{n}", "other"][:: 1 if n % 3 else -1],
            "model": "gpt-4o-mini",
            "input_tokens": 800 + n,
            "output_tokens": 40,
            "latency_ms": 200 + n,
        }
        for n in range(count)
    ]


def write_rows(path, made):
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    return path
