"""The processes that work on jobs: Celery tasks, each one call into ``ragassay.service.jobs``, and beat with the sweeper."""
