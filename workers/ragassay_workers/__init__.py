"""The processes that work on jobs: Celery tasks, each one call into ``ragassay.jobs``, and beat with the sweeper."""
