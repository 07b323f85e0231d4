"""Beat: Celery's clock for schedules, and the sweeper in a thread beside it, so that it never waits behind workers."""

from __future__ import annotations

import logging
import threading

from redis.exceptions import RedisError

from ragassay import wiring
from ragassay.jobs import Jobs
from ragassay.settings import Settings
from ragassay_workers.app import app
from ragassay_workers.process import Presence

logger = logging.getLogger(__name__)


class Sweeper:
    """Calls ``jobs.tick`` every ``every_s`` seconds, whatever happens; many may run at once."""

    def __init__(self, jobs: Jobs, every_s: float) -> None:
        self._jobs, self._every_s = jobs, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sweeper")

    def start(self) -> None:
        """Begin, with a round at once: jobs may have waited for it."""
        self._thread.start()

    def end(self, *, wait_s: float) -> None:
        """Begin no further round; the one that is under way is waited for, but not for long."""
        self._ended.set()
        self._thread.join(wait_s)

    def _run(self) -> None:
        while True:
            try:
                self._jobs.tick()
            except Exception as error:  # an outer door: Redis may be away, and a bug must not end the rounds
                logger.warning("the sweeper's round failed: %s", error, exc_info=not isinstance(error, RedisError))
            if self._ended.wait(self._every_s):
                return


def main() -> None:
    """Run both until a signal ends them; when Redis restarts Celery's part exits, and is to be started again."""
    settings = Settings()
    jobs = wiring.jobs_for(settings)
    app.log.setup(loglevel=logging.INFO)
    presence = Presence(jobs.store, "beat")
    presence.start()
    sweeper = Sweeper(jobs, settings.sweep_s)
    sweeper.start()
    try:
        app.Beat(app=app, loglevel=logging.INFO).run()
    finally:
        sweeper.end(wait_s=1)
        presence.end(wait_s=1)


if __name__ == "__main__":
    main()
