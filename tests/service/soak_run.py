"""Hours of ordinary work, and what grows meanwhile: ``make soak MINUTES=45``.

Every few seconds a job of ROWS rows is submitted, followed, read page by page and, now and then, cancelled. After a warm-up in
which each worker process is replaced once, the memory of the API and of the workers must not grow by MAX_MB_AN_HOUR or more,
and no key may have come to Redis that neither expires nor belongs to a job that runs. A table is printed; the exit code is 1
where that did not hold.
"""

import argparse
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
MAX_MB_AN_HOUR = 2.0
WARM_UP = 20.0  # minutes before anything counts
PARTS = {"API": "cli serve api", "workers": "celery"}
OF_BROKER = (b"_kombu", b"unacked", b"celery", b"work", b"finalize", b"schedule", b"deliver")  # the queues


class Soak:
    """The service and what was seen of it over time: the sizes of its parts, by the time in seconds."""

    def __init__(self, service, provider):
        self.service, self.provider, self.jobs = service, provider, 0
        self.sizes = {part: [] for part in PARTS}

    def work(self, seconds):
        open_, next_look, next_job = [], 0.0, time.monotonic()
        end = next_job + seconds
        while (now := time.monotonic()) < end:
            if now >= next_job:
                next_job += EVERY_S
                open_.append(self.service.submit(rows(ROWS, f"soak{self.jobs}"), performance={"cache": False}))
                self.jobs += 1
                if self.jobs % 10 == 0:
                    self.service.answered("POST", f"/v1/jobs/{open_.pop()}/cancel")
            if now >= next_look:
                next_look = now + LOOK_S
                self._look(now)
            for job in [job for job in open_ if self.service.job(job)["status"] == "finished"]:
                open_.remove(job)
                for path in (f"/v1/jobs/{job}/results?limit=20", f"/v1/jobs/{job}/report", "/v1/jobs?limit=20"):
                    self.service.get(path)
            self.provider.log.clear()
            time.sleep(0.25)

    def _look(self, now):
        for part, word in PARTS.items():
            leader = self.service.part(word)
            with suppress(psutil.NoSuchProcess, OSError):  # one of them ended meanwhile
                family = [leader, *leader.children(recursive=True)]
                self.sizes[part].append((now, sum(own_mb(one.pid) for one in family)))

    def lasting(self):
        """Names of keys that never expire, those of jobs that run and of the queues left out."""
        connection = self.service.redis
        running = connection.smembers("ra:active")
        keys = [key for key in connection.scan_iter(count=1000) if not any(job in key for job in running)]
        return {key for key in keys if connection.ttl(key) == -1 and not key.startswith(OF_BROKER)}

    def replace_workers(self):
        """End each worker's process once, as happens after 500 tasks: else pages that its parent wrote since are there twice."""
        leader = self.service.part("celery")
        for child in leader.children():
            child.kill()
        until(lambda: len(leader.children()) == 2, 30, "new processes")


def own_mb(process):
    """MB that a process has written, in memory or swapped out; of what it shares with its siblings since the fork, its part."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(("Pss_Anon:", "SwapPss:")))


def mb_an_hour(sizes):
    """The slope of the median looks of each minute: for a moment a process that is replaced is not there."""
    minutes = {}
    for at, size in sizes:
        minutes.setdefault(int((at - sizes[0][0]) // 60), []).append(size)
    if len(minutes) < 3:
        return 0.0
    return 60 * statistics.linear_regression(list(minutes), [statistics.median(of) for of in minutes.values()]).slope


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--minutes", type=float, default=45.0)
    chosen = asked.parse_args()
    with (
        Provider(then=good, latency_s=LATENCY_S) as provider,
        Service(api_base=provider.url, workers=2, traced=False) as service,
    ):
        soak = Soak(service, provider)
        service.ready()
        soak.work(30 * WARM_UP)
        soak.replace_workers()
        soak.work(30 * WARM_UP)
        before, jobs = soak.lasting(), soak.jobs
        soak.sizes = {part: [] for part in PARTS}
        soak.work(60 * (chosen.minutes - WARM_UP))
        until(lambda: not service.redis.scard("ra:active"), 60, "the end of all jobs")
        came = sorted(soak.lasting() - before)
    slopes = {part: mb_an_hour(sizes) for part, sizes in soak.sizes.items()}
    print(f"| | |\n|---|---|\n| jobs after the warm-up, of {ROWS} rows | {soak.jobs - jobs:,} |")
    for part, slope in slopes.items():
        print(f"| memory of the {part}, MB an hour | {slope:+.1f} |")
    print(f"| keys that came and never expire | {len(came)} {came[:5] or ''} |")
    sys.exit(bool(came) or max(slopes.values()) >= MAX_MB_AN_HOUR)


if __name__ == "__main__":
    main()
