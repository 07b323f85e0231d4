"""The processes that work on jobs: Celery tasks, each one call into a use case of ``ragassay.service``, and the scheduler."""
