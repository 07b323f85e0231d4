"""Beat: Celery's clock for schedules, and the sweeper in a thread beside it, so that it never waits behind workers."""

from __future__ import annotations

import logging

from ragassay import telemetry, tracing, wiring
from ragassay.settings import Settings
from ragassay_workers import log  # noqa: F401 - it listens to Celery
from ragassay_workers.app import app
from ragassay_workers.periodic import Periodic, heartbeat


def main() -> None:
    """Run both until a signal ends them; when Redis restarts Celery's part exits, and is to be started again."""
    settings = Settings()
    jobs = wiring.jobs_for(settings)
    app.log.setup(loglevel=logging.INFO)
    tracing.set_up(settings, "beat")
    threads = [heartbeat(jobs.store, "beat"), Periodic("the sweeper's round", settings.sweep_s, jobs.tick)]
    for thread in threads:
        thread.start()
    try:
        app.Beat(app=app, loglevel=logging.INFO, quiet=True).run()
    finally:
        for thread in threads:
            thread.stop(wait_s=3)  # a round that is under way ends, so that no wake-up is lost
        telemetry.close()


if __name__ == "__main__":
    main()
