"""What people said of a job's rows, in Redis, as long as its report at the least; the last label of a row and metric counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragassay.errors import Conflict
from ragassay.store.labels import Label
from ragassay.store.redis import RedisStore

MOST_LABELS = 200_000


class RedisLabels:
    """The labels of a job: a list that only grows."""

    def __init__(self, store: RedisStore, job: str) -> None:
        self._store, self._name = store, store.key(job, "labels")

    def add(self, labels: Iterable[Label]) -> None:
        """Keep labels, all or none; raises Conflict where there would be too many."""
        lines = [label.model_dump_json() for label in labels]
        if not lines:
            return
        redis = self._store.redis
        if redis.llen(self._name) + len(lines) > MOST_LABELS:
            raise Conflict(
                f"a job keeps {MOST_LABELS:,} labels at the most", hint="export them and go on in another job"
            )
        pipe = redis.pipeline(transaction=True)
        pipe.rpush(self._name, *lines)
        pipe.expire(self._name, self._store.retention.reports_s)
        pipe.execute()

    def kept(self) -> Sequence[Label]:
        """All of them, oldest first."""
        return [Label.model_validate_json(line) for line in self._store.redis.lrange(self._name, 0, -1)]
