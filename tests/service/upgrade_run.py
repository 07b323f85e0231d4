"""A service that is upgraded while a job runs: ``make upgrade FROM=REVISION``.

API and worker of the revision finish a job and begin another, on a Redis of their own. Then come the API and the worker of
this checkout, the older API is stopped, and both workers finish the job side by side. Every row must be there and paid once,
and what the older build had finished must be read as it was. The exit code is 1 where that did not hold.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from polling import until
from provider import Provider, good
from redis_server import RedisServer, free_port
from service.running import ROOT, environment, job_body, rows

SMALL, LARGE, LATENCY_S = 60, 1200, 0.1


@contextmanager
def build_of(revision):
    """The folder of another revision's code."""
    with tempfile.TemporaryDirectory(prefix="ra-build-") as folder:
        packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        yield Path(folder)


class Build:
    """One build's API and worker on a Redis."""

    def __init__(self, folder, redis_url, provider_url, log):
        given = environment(state_url=redis_url, broker_url=redis_url, api_base=provider_url, lease_s=4, preload="llm")
        path = f"{folder / 'services'}:{folder / 'workers'}"
        self._environment = {
            **given,
            "PYTHONPATH": path,
            "OPENAI_API_KEY": log.stem,
            "RAGASSAY_HOME": str(log.parent / log.stem),
        }
        self._log, self.client = log, None

    @contextmanager
    def run(self, *command):
        """A command of the build, until it is left."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "ragassay.cli", *command],
                env=self._environment, cwd=self._log.parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    @contextmanager
    def api(self):
        """Its API's client."""
        port = free_port()
        with (
            self.run("serve", "--port", str(port)),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        ):
            until(lambda: answers(client), 60, f"the API ({self._log.read_text()[-2000:]})")
            yield client

    def worker(self):
        """Its worker, with two processes: a job that asks a provider leaves one of all to others."""
        return self.run("worker", "--concurrency", "2")


def answers(client):
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def submitted(client, of, size):
    body = job_body(rows(size, of), performance={"cache": False})
    return client.post("/v1/jobs", json=body).raise_for_status().json()["id"]


def finished(client, job, within_s=300):
    until(lambda: client.get(f"/v1/jobs/{job}").json()["status"] == "finished", within_s, f"job {job}")
    return client.get(f"/v1/jobs/{job}/report").json()


def scores(page):
    return [
        (row["query_id"], {name: score["value"] for name, score in row["scores"].items()}) for row in page["results"]
    ]


def upgraded(revision, folder):
    """What did not hold, a line each."""
    with ExitStack() as opened:
        provider = opened.enter_context(Provider(then=good, latency_s=LATENCY_S))
        redis = opened.enter_context(RedisServer())
        other = opened.enter_context(build_of(revision))
        old = Build(other, redis.url, provider.url, folder / "old.log")
        new = Build(ROOT, redis.url, provider.url, folder / "new.log")
        opened.enter_context(old.worker())
        with old.api() as client:
            small = submitted(client, "before", SMALL)
            report = finished(client, small)
            page = client.get(f"/v1/jobs/{small}/results").json()
            large = submitted(client, "during", LARGE)
            until(lambda: client.get(f"/v1/jobs/{large}").json()["progress"]["done"] >= LARGE // 6, 120, "some rows")
        client = opened.enter_context(new.api())
        begun = client.get(f"/v1/jobs/{large}").json()["progress"]["done"]
        opened.enter_context(new.worker())
        result = finished(client, large)
        if client.get(f"/v1/jobs/{small}/report").json() != report:
            yield "the report of the job before is another"
        if scores(client.get(f"/v1/jobs/{small}/results").json()) != scores(page):
            yield "the rows of the job before are others"
        found = result["systems"]["default"]["results"]
        if [row["query_id"] for row in found] != [f"during-{n}" for n in range(LARGE)]:
            yield f"the report has {len(found)} rows, or others"
        if missing := sum(row["scores"]["faithfulness"]["value"] is None for row in found):
            yield f"{missing} rows have no faithfulness"
        billed = sum("How heavy is during" in seen.user for seen in provider.log)
        usage = result["systems"]["default"]["evaluation"]["usage"]
        if not billed == usage["calls"] == LARGE:
            yield f"{billed} calls were billed, {usage['calls']} are counted"
        if len(by := Counter(seen.auth for seen in provider.log if "during" in seen.user)) != 2:
            yield "one build's worker had all of the calls"
        print(f"{begun} of {LARGE} rows were done when the newer API answered; calls of the job by key: {dict(by)}")


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("revision", help="of git: what is upgraded from")
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="ra-upgrade-") as folder:
        breaches = list(upgraded(chosen.revision, Path(folder)))
        for breach in breaches:
            print(f"BREACH: {breach}")
        if breaches:
            print(*(f"{log.name}: {log.read_text()[-3000:]}" for log in Path(folder).glob("*.log")), sep="\n")
    sys.exit(bool(breaches))


if __name__ == "__main__":
    main()
