"""A service that tests start, watch, hurt and stop: ``ragassay serve`` as a user would run it, on a free port."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
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
SERVE = [sys.executable, "-m", "ragassay.cli", "serve"]


def environment(**settings):
    """What a command of the service gets: no settings of a developer, and ``settings``; with a provider a key to it."""
    kept = {k: v for k, v in os.environ.items() if not (k.startswith("RAGASSAY_") or k.endswith("_API_KEY"))}
    given = {f"RAGASSAY_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, **given, **({"OPENAI_API_KEY": "key"} if "api_base" in settings else {})}


def run_up(*options, env=None, **settings):
    """``ragassay serve`` run to its end, for starts that fail."""
    with tempfile.TemporaryDirectory(prefix="ra-up-") as folder:
        given = {**environment(home=folder, **settings), **(env or {})}
        return subprocess.run([*SERVE, *options], env=given, cwd=folder, capture_output=True, text=True, timeout=30)


def blocks(text, language):
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def bash(commands, folder, path=(), **variables):
    """Run commands of a page in a folder, with our commands, and those of ``path``, before others."""
    found = os.pathsep.join([*map(str, path), str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {**os.environ, "PATH": found, "COLUMNS": "140", **variables}
    command = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, env=given)
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done


def gone(processes):
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes)


class Service:
    """``ragassay serve`` in a folder of its own. ``took`` is the time from its start until ``/healthz`` answered."""

    def __init__(self, *options, workers=2, data=None, env=None, traced=True, **settings):
        self.folder = Path(tempfile.mkdtemp(prefix="ra-up-"))
        self.data = data or self.folder / "data"
        settings = {"home": self.folder / "home", "lease_s": 2, **settings}
        self.environment = {**environment(**settings), **(env or {})}
        if not traced:  # tracing makes every process several times slower, which a test of times must not measure
            self.environment = {k: v for k, v in self.environment.items() if not k.startswith("COVERAGE")}
        self._command = [*SERVE, "--port", "0", "--data", str(self.data), "--workers", str(workers), *options]
        self._out, self._err = self.folder / "out.log", self.folder / "err.log"
        self.refusals: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.url, self.client = "", None

    def start(self):
        """Start it and wait until the API answers."""
        began = time.monotonic()
        self._close()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                self._command, env=self.environment, cwd=self.folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

        def address():
            assert self.process.poll() is None, f"up did not come up: {self.info}\n{self.logs()}"
            return re.search(r"ragassay is up: (http://\S+)", self._out.read_text())

        self.url = until(address, 120, "an address")[1]
        self.client = httpx.Client(base_url=self.url, timeout=30)
        assert self.client.get("/healthz").status_code == 200
        self.took = time.monotonic() - began
        return self

    @property
    def info(self):
        """The lines of its standard output."""
        return self._out.read_text(errors="replace").splitlines()

    @property
    def lines(self):
        """The lines of its standard error, and of that of all its processes."""
        return self._err.read_text(errors="replace").splitlines()

    def logs(self):
        return "\n".join(self.lines[-300:])

    def restarts(self):
        """What it said of processes that ended by themselves."""
        return [line for line in self.lines if "stopped unexpectedly" in line]

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
        self._close()
        return time.monotonic() - began

    def _close(self):
        if self.client:
            self.client.close()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

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

    def answered(self, method, path, **more):
        """An answer; after a 503, with which the service refuses what Redis does not answer in time, we ask again."""

        def ask():
            answer = self.client.request(method, path, **more)
            if answer.status_code != 503:
                return answer
            self.refusals.append(answer.json()["detail"])
            return None

        return until(ask, 120, f"{method} {path}")

    def submit(self, rows, judge="gpt-4o-mini", **more):
        """The id of a new job; a key without a value is left out."""
        body = {"samples": rows, "judge": judge, "metrics": JUDGED, "accurate": "correctness >= 0.5", **more}
        body = {name: value for name, value in body.items() if value is not None}
        answer = self.answered("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": uuid.uuid4().hex})
        assert answer.status_code in (200, 202), answer.text
        return answer.json()["id"]

    def get(self, path):
        return self.answered("GET", path).raise_for_status().json()

    def job(self, job):
        return self.get(f"/v1/jobs/{job}")

    def report(self, job):
        return self.get(f"/v1/jobs/{job}/report")

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

    def settled(self, job):
        """The texts of the job's replies that are settled, as Redis has them at this moment."""
        with self.redis as connection:
            found = [connection.hvals(key) for key in connection.scan_iter(f"ra:{{{job}}}:calls:*")]
        blobs = [blob for each in found for blob in each if not blob.startswith(b"?")]
        return [orjson.loads(zstandard.decompress(blob))["text"] for blob in blobs]


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
