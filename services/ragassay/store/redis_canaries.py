"""Where a job keeps its canary panel, and a project the first verdicts of each judge on each panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import zstandard

from ragassay.judge_documents import JudgedPanel
from ragassay.models import Sample
from ragassay.store.job_rows import pack, unpack
from ragassay.store.redis import RedisStore


class RedisCanary:
    """Under the job's keys ``panel`` and ``canary``; the baselines under the project's ``canary:<judge>-<panel>``."""

    def __init__(self, store: RedisStore, job: str, project: str = "default") -> None:
        self._store, self._job, self._project = store, job, project

    def save_rows(self, rows: Iterable[Sample]) -> None:
        """Save the rows of a new job's panel."""
        packed = pack([row.model_dump(mode="json", exclude_defaults=True) for row in rows])
        self._store.redis.set(self._store.key(self._job, "panel"), packed)  # it lives as long as the rows

    def rows(self) -> Sequence[Sample]:
        """The panel's rows."""
        blob = self._store.redis.get(self._store.key(self._job, "panel"))
        return [] if blob is None else [Sample.model_validate(row) for row in unpack(blob)]

    def keep(self, judged: JudgedPanel) -> None:
        """Keep what the judge made of the panel in this job."""
        self._store.redis.set(self._store.key(self._job, "canary"), _packed(judged))

    def judged(self) -> JudgedPanel | None:
        """What the judge made of the panel in this job; None where it was not judged."""
        return _unpacked(self._store.redis.get(self._store.key(self._job, "canary")))

    def baseline(self, key: str, offered: JudgedPanel | None = None) -> JudgedPanel | None:
        """What that judge first made of that panel; ``offered`` is kept, and returned, where nothing is."""
        name = self._store.of(self._project).of_project(f"canary:{key}")
        if offered is not None:
            self._store.redis.set(name, _packed(offered), nx=True)
        self._store.redis.expire(name, self._store.retention.reports_s)  # from its last use
        return _unpacked(self._store.redis.get(name))


def _packed(judged: JudgedPanel) -> bytes:
    return zstandard.compress(judged.model_dump_json().encode())


def _unpacked(blob: bytes | None) -> JudgedPanel | None:
    return None if blob is None else JudgedPanel.model_validate_json(zstandard.decompress(blob))
