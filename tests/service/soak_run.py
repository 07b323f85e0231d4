"""Hours of ordinary work, and what grows meanwhile: ``make soak MINUTES=45``.

Every few seconds a job of ROWS rows is submitted, followed, read page by page and, now and then, cancelled. After a warm-up in
which each worker process is replaced once, the memory of the API and of the workers must not grow by MOST_MB_AN_HOUR or more,
and no key may have come to Redis that neither expires nor belongs to a job that runs. A table is printed; the exit code is 1
where that did not hold.
"""

import argparse
import math
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from polling import until
from provider import Provider, good
from service.running import Service, rows

ROWS, LATENCY_S, EVERY_S, LOOK_S = 40, 0.05, 6.0, 2.0
MOST_MB_AN_HOUR = 2.0
OF_API, OF_WORKER = "API", "workers"
OF_BROKER = (b"_kombu", b"unacked", b"celery", b"work", b"finalize", b"schedule", b"deliver")  # the queues


class Soak:
    """The service and what was seen of it over time. ``breaches`` is what did not hold."""

    def __init__(self, minutes, warm_up):
        self._minutes, self._warm_up = minutes, warm_up
        self.breaches, self.jobs, self.sizes = [], 0, {OF_API: [], OF_WORKER: []}

    def run(self):
        """All of it; returns the table's lines."""
        with Provider(then=good, latency_s=LATENCY_S) as provider:
            own = {"OPENAI_API_KEY": "key"}
            with Service(api_base=provider.url, workers=2, traced=False, env=own) as service:
                service.ready()
                self._work(service, provider, 30 * self._warm_up)
                replace_workers(service)
                self._work(service, provider, 30 * self._warm_up)
                before = self._lasting(service)
                began, jobs = time.monotonic(), self.jobs
                self.sizes = {name: [] for name in self.sizes}
                self._work(service, provider, 60 * (self._minutes - self._warm_up))
                took_h = (time.monotonic() - began) / 3600
                until(lambda: not service.redis.scard("ra:active"), 60, "the end of all jobs")
                came = sorted(self._lasting(service) - before)
        if came:
            self.breaches.append(f"{len(came)} keys came that never expire: {', '.join(map(repr, came[:5]))}")
        lines = [f"| jobs after the warm-up of {self._warm_up:g} minutes, of {ROWS} rows | {self.jobs - jobs:,} |"]
        for name, sizes in self.sizes.items():
            points = by_minute(sizes)
            slope, error = slope_of(points)
            lines.append(
                f"| memory of the {name}, MB, minute by minute | {' '.join(f'{mb:.1f}' for _, mb in points)} |"
            )
            lines.append(f"| ... its slope, MB an hour (standard error) | {slope:+.1f} ({error:.1f}) |")
            if slope >= MOST_MB_AN_HOUR:
                self.breaches.append(f"the memory of the {name} grows by {slope:.1f} MB an hour ({error:.1f})")
        return [*lines, f"| keys that came and never expire | {len(came)} |", f"| hours | {took_h:.2f} |"]

    def _work(self, service, provider, seconds):
        end, open_, next_look = time.monotonic() + seconds, [], 0.0
        next_job = time.monotonic()
        while (now := time.monotonic()) < end:
            if now >= next_job:
                next_job += EVERY_S
                open_.append(service.submit(rows(ROWS, f"soak{self.jobs}"), performance={"cache": False}))
                self.jobs += 1
                if self.jobs % 10 == 0:
                    service.answered("POST", f"/v1/jobs/{open_.pop()}/cancel", again=(503,))
            if now >= next_look:
                next_look = now + LOOK_S
                self._look(service, now)
            open_ = [job for job in open_ if not self._read(service, job)]
            provider.log.clear()
            time.sleep(0.25)

    def _read(self, service, job):
        """Look at a job as a user would; has it ended?"""
        if service.job(job)["status"] != "finished":
            return False
        for path in (f"/v1/jobs/{job}/results", f"/v1/jobs/{job}/report", "/v1/jobs"):
            service.answered("GET", path, params={"limit": 20} if path.endswith("s") else {}).raise_for_status()
        return True

    def _look(self, service, now):
        for name, part in ((OF_API, "cli serve api"), (OF_WORKER, "celery")):
            leader = service.part(part)
            with suppress(psutil.NoSuchProcess, OSError):  # one of them ended meanwhile
                family = [leader, *leader.children(recursive=True)]
                self.sizes[name].append((now, sum(own_mb(one.pid) for one in family)))

    def _lasting(self, service):
        """Names of keys that never expire, those of jobs that run and of the queues left out; a job's id is no part of a name."""
        connection = service.redis
        running = connection.smembers("ra:active")
        keys = [key for key in connection.scan_iter(count=1000) if not any(job in key for job in running)]
        pipe = connection.pipeline(transaction=False)
        for key in keys:
            pipe.ttl(key)
        lasting = {key for key, ttl in zip(keys, pipe.execute(), strict=True) if ttl == -1}
        connection.close()
        return {key for key in lasting if not key.startswith(OF_BROKER)}


def replace_workers(service):
    """End each worker's process once, as happens after 500 tasks: as long as some are of before, pages that their parent wrote
    since are there twice.
    """
    leader = service.part("celery")
    for child in leader.children():
        child.kill()
    until(lambda: len(leader.children()) == 2, 30, "new processes")


def own_mb(process):
    """MB that a process has written, in memory or swapped out; of what it shares with its siblings since the fork, its part.

    Files that it maps don't count: which part of them is its own depends on what else runs on the machine.
    """
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(("Pss_Anon:", "SwapPss:")))


def by_minute(sizes):
    """The median look of each minute: for a moment a process that is replaced is not there."""
    minutes = {}
    for at, size in sizes:
        minutes.setdefault(int((at - sizes[0][0]) // 60), []).append(size)
    return [(60 * minute, statistics.median(of)) for minute, of in minutes.items()]


def slope_of(points):
    """MB an hour by least squares, and its standard error."""
    if len(points) < 3:
        return 0.0, math.inf
    fitted = statistics.linear_regression(*zip(*points, strict=True))
    mean = statistics.fmean(at for at, _ in points)
    left = sum((size - fitted.intercept - fitted.slope * at) ** 2 for at, size in points)
    error = math.sqrt(left / (len(points) - 2) / sum((at - mean) ** 2 for at, _ in points))
    return 3600 * fitted.slope, 3600 * error


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--minutes", type=float, default=45.0)
    asked.add_argument("--warm-up", type=float, default=20.0, help="minutes of them before anything counts")
    chosen = asked.parse_args()
    soak = Soak(chosen.minutes, chosen.warm_up)
    print("\n".join(["| | |", "|---|---|", *soak.run(), f"| breaches | {len(soak.breaches)} |"]))
    for breach in soak.breaches:
        print(f"  BREACH: {breach}")
    sys.exit(bool(soak.breaches))


if __name__ == "__main__":
    main()
