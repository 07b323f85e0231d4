"""Beat: the sweeper, and the rounds over schedules and notifications, each in a thread that never waits for workers."""

from __future__ import annotations

import signal
import threading
from functools import partial

from ragassay import observability
from ragassay.core.settings import Settings
from ragassay.service import wiring
from ragassay.service.health import log_redis
from ragassay.service.jobs import Jobs
from ragassay_workers.periodic import Periodic, heartbeat, process_name

SWEEP_MAY_TAKE_S, ROUND_S = 60, 1.0


def sweep(jobs: Jobs, every_s: float) -> None:
    """One round; that it was completed is known for as long as a few rounds may take."""
    jobs.tick()
    jobs.store.heartbeat("sweeper", process_name(), for_s=int(SWEEP_MAY_TAKE_S + 3 * every_s))


def main() -> None:
    """Run the rounds until a signal ends them. One that fails, since Redis is away, is made again."""
    settings = Settings()
    observability.start_logging(settings)
    jobs = wiring.jobs_for(settings)
    observability.start_tracing(settings, "beat")
    log_redis(settings.redis_servers)
    schedules = wiring.schedules_for(settings, jobs)
    threads = [
        heartbeat(jobs.store, "beat"),
        Periodic("the sweeper's round", settings.sweep_s, partial(sweep, jobs, settings.sweep_s)),
        Periodic("the round over schedules", ROUND_S, schedules.tick),
        Periodic("the round over notifications", ROUND_S, jobs.notifier.deliver_due),
    ]
    ends = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ends.set())
    for thread in threads:
        thread.start()
    ends.wait()
    for thread in threads:
        thread.stop(wait_s=3)  # a round that is under way ends, so that no wake-up is lost
    observability.stop_tracing()


if __name__ == "__main__":
    main()
