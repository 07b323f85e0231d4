"""The service's use cases, built from the settings of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragassay import embeddings as embedding_models
from ragassay import llm as language_models
from ragassay.core.plugins import import_plugin
from ragassay.core.settings import Settings
from ragassay.embeddings import unavailable
from ragassay.evaluation.runtime import Runtime

if TYPE_CHECKING:
    from ragassay.service.jobs import Jobs
    from ragassay.service.schedules import Schedules


def jobs_for(settings: Settings, *, patient: bool = True) -> Jobs:
    """The use cases of the service. Opens no connection yet; to be made after a fork, not before.

    A process takes one core for its arithmetic: there are as many workers as cores.
    """
    from ragassay.service.job_state import Retention
    from ragassay.service.jobs import Jobs
    from ragassay.service.notifier import Notifier
    from ragassay.service.queue import Queue
    from ragassay.service.redis import RedisStore
    from ragassay.service.redis_spacing import RedisSpacing
    from ragassay.service.registered import Registered

    for name in settings.plugins:
        import_plugin(name, "RAGASSAY_PLUGINS")
    registered = Registered.read(settings.systems)
    if patient:  # the API knows their names, and runs nothing
        registered.import_functions()
    retention = Retention.of_days(settings.keep_results_days, settings.keep_reports_days)
    store = RedisStore(settings.state, lease_s=settings.lease_s, patient=patient, retention=retention)
    queue = Queue(settings.broker)
    notifier = Notifier(store, allowed=settings.outgoing)
    return Jobs(store, queue, Runtime(settings, threads=1, spacing=RedisSpacing(store)), registered, notifier)


def schedules_for(settings: Settings, jobs: Jobs) -> Schedules:
    """The schedules over these jobs."""
    from ragassay.service.queue import Queue
    from ragassay.service.schedules import Schedules

    return Schedules(jobs, Queue(settings.broker), again_s=settings.lease_s)


def warm_up(settings: Settings) -> None:
    """Import the libraries behind judges and embeddings. Runs no model, so a worker may fork after it.

    LiteLLM takes seconds: it waits for the first job that needs it where nothing is set up for a model.
    """
    if settings.expects_models:
        language_models.warm_up()
    if unavailable(settings.embeddings) is None:
        embedding_models.warm_up(settings.embeddings)
