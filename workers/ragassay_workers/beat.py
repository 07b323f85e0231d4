"""Beat: one loop over what is due. Several may run: each step is claimed in Redis."""

from __future__ import annotations

import signal
import threading
import time

from ragassay import observability
from ragassay.core.settings import Settings
from ragassay.live.traffic import LiveTraffic
from ragassay.service import wiring
from ragassay.service.health import log_redis
from ragassay_workers.periodic import attempt, process_name

ROUND_S = 1.0
SWEEP_S, SWEEPS_A_LEASE = 15.0, 4  # between two rounds over jobs: the shorter of the two
HEARTBEAT_LASTS_S = 60  # longer than a round may take: slow receivers of notifications delay it by 20 s at the most


def main() -> None:
    """Run the rounds until a signal ends them. One that fails, since Redis is away, is made again.

    A heartbeat says that the last round of each kind was completed.
    """
    settings = Settings()
    observability.start_logging(settings)
    jobs = wiring.jobs_for(settings)
    observability.start_tracing("beat")
    log_redis(settings.redis_servers)
    name, schedules, live = process_name(), wiring.schedules_for(settings, jobs), LiveTraffic(jobs, settings)
    rounds = {
        "the round over jobs": (min(SWEEP_S, settings.lease_s / SWEEPS_A_LEASE), jobs.tick),
        "the round over schedules": (ROUND_S, schedules.tick),
        "the round over live traffic": (ROUND_S, live.tick_all),
        "the round over notifications": (ROUND_S, jobs.notifier.deliver_due),
    }
    ends, due, completed = threading.Event(), dict.fromkeys(rounds, 0.0), dict.fromkeys(rounds, False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ends.set())
    while not ends.is_set():
        for what, (every_s, action) in rounds.items():
            if not ends.is_set() and time.monotonic() >= due[what]:
                completed[what] = attempt(what, action)
                due[what] = time.monotonic() + every_s
        if all(completed.values()):
            attempt("the heartbeat", lambda: jobs.store.heartbeat("beat", name, for_s=HEARTBEAT_LASTS_S))
        ends.wait(ROUND_S)
    attempt("the end", lambda: jobs.store.deregister("beat", name))
    observability.stop_tracing()


if __name__ == "__main__":
    main()
