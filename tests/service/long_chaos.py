"""Kills at random, for as long as you like: ``make chaos``, or ``pytest tests/service/long_chaos.py`` (not collected else).

CHAOS_S is the time in seconds (default 120), CHAOS_SEED the seed. Jobs of odd sizes run all the while; at the end every
report must be the one that a calm run makes, and no call may have been made again after its answer was written down.
"""

import os
import random
import signal
import time
from contextlib import suppress

import psutil
import pytest

from offline_runs import without_times
from polling import until
from service.chaos import OUTAGE, StopMonitor, stamping_provider
from service.running import Service, rows

SECONDS, SEED = float(os.environ.get("CHAOS_S", "120")), int(os.environ.get("CHAOS_SEED", "1"))
SIZES = (1, 49, 50, 51, 200, 333)


def victims(service):
    """What can be killed: the parts, Redis's messages, and one of the workers' children."""
    worker = service.part("celery")
    return [
        ("redis", service.part("redis-server")),
        ("beat", service.part("workers.beat")),
        ("api", service.part("cli serve")),
        ("worker", worker),
        *(("worker's child", child) for child in worker.children()),
    ]


def wipe_the_broker(service):
    """Forget every message of Celery's; the jobs' own keys stay."""
    with service.redis as connection, suppress(*OUTAGE):
        for key in connection.scan_iter("*"):
            if not key.startswith(b"ra:"):
                connection.delete(key)


@pytest.mark.timeout(SECONDS + 1200)
def test_a_chaos_run_gives_the_reports_of_a_calm_one(capsys):
    chance = random.Random(SEED)
    with (
        stamping_provider(latency_s=0.1) as provider,
        Service(api_base=provider.url, env={"OPENAI_API_KEY": "key"}) as service,
    ):
        service.ready()
        calm = {
            size: without_times(service.finished(service.submit(rows(size), performance={"cache": False})))
            for size in SIZES
        }
        end, kills, jobs = time.monotonic() + SECONDS, [], 0
        while time.monotonic() < end:
            assert service.process.poll() is None, f"up ended after {kills}: {service.warnings}"
            size = chance.choice(SIZES)
            before = len(provider.log)
            job = service.submit(rows(size), performance={"cache": False})
            watch = StopMonitor(service, provider, job)
            with watch.looking():
                for _ in range(chance.randrange(4)):
                    time.sleep(chance.uniform(0, 3))
                    if chance.random() < 0.2:
                        wipe_the_broker(service)
                        kills.append("messages")
                        continue
                    with suppress(psutil.NoSuchProcess):
                        name, process = chance.choice(victims(service))
                        os.kill(process.pid, signal.SIGKILL)
                        kills.append(name)
                try:
                    until(lambda: healthy(service), 120, "the API")
                except AssertionError as error:
                    raise AssertionError(f"{error} after {kills}: {service.warnings}\n{service.logs()}") from None
                report = service.finished(job, within_s=600)
            assert without_times(report) == calm[size]
            assert watch.repeated() == set()
            assert len({seen.prompt_hash for seen in provider.log[before:]}) == size
            jobs += 1
        with capsys.disabled():
            counted = ", ".join(f"{kills.count(name)} {name}" for name in sorted(set(kills)))
            print(
                f"\nchaos: {jobs} jobs, {len(kills)} kills ({counted}), {len(service.refusals)} answers 503; seed {SEED}"
            )


def healthy(service):
    with suppress(Exception):
        return service.client.get("/healthz").status_code == 200
    return False
