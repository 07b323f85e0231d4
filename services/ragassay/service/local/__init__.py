"""The whole service on one machine: Redis, API, workers and beat, started and kept running by ``ragassay up``."""
