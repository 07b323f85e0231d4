"""Notices to webhooks, Slack and the log, each sent at least once, from a transactional outbox in Redis."""

from __future__ import annotations

import hashlib
import logging
import time

from ragassay.core.errors import NotFound
from ragassay.core.http_guard import Allowed
from ragassay.core.settings import secrets, without
from ragassay.service.notices import Notice, NoticeKind, NoticePage
from ragassay.service.outbox import Outbox
from ragassay.service.queue import Queue
from ragassay.service.redis import RedisStore
from ragassay.service.webhooks import Webhooks

WAITS_S = (5, 60, 300, 900, 2400)  # after each try that failed: six of them in about an hour
MOST_TRIES = len(WAITS_S) + 1
TURN_S = 20.0  # for which one message is worked on, so that other webhooks have their turn
_LOGGED_ELSEWHERE = ("gate_missed", "regression")  # with the reason, where the gates are checked
_log = logging.getLogger("ragassay.alerts")


class Alerts:
    """Sends notices. ``allowed``: where webhooks may lead although it is not public."""

    def __init__(
        self,
        store: RedisStore,
        queue: Queue,
        *,
        allowed: Allowed = Allowed(),  # noqa: B008 - frozen
    ) -> None:
        self.outbox, self._queue, self._allowed = Outbox(store), queue, allowed

    def tell(self, notice: Notice) -> bool:
        """Keep a notice for all webhooks that want it; False if that notice was kept before, so it is sent once.

        Values of keys and passwords of our environment are taken out of its names.
        """
        notice = _without_secrets(notice)
        receivers = self.outbox.put(notice)
        if receivers is None:
            return False
        level = logging.ERROR if notice.is_alert and notice.kind not in _LOGGED_ELSEWHERE else logging.INFO
        _log.log(level, "%s: id=%s project=%s job=%s", notice.headline, notice.id, notice.project, notice.job)
        for receiver in receivers:  # if the broker does not take a message, the sweeper sends it again
            self._queue.deliver(notice.project, receiver)
        return True

    def page(self, project: str, *, kind: NoticeKind | None, cursor: str | None, limit: int) -> NoticePage:
        """A project's notices, newest first. With ``kind`` a page may hold fewer than ``limit`` and have a ``next``."""
        return self.outbox.notices(project, kind=kind, cursor=cursor, limit=limit)

    def webhooks(self, project: str) -> Webhooks:
        """The webhooks of a project."""
        return Webhooks(self.outbox, self._queue, project, allowed=self._allowed)

    def wake(self) -> None:
        """Send a message for each webhook that has something to get now: a retry that is due, or a message that was lost."""
        for project, webhook in self.outbox.due():
            self._queue.deliver(project, webhook)

    def deliver(self, project: str, webhook: str) -> None:
        """Give a webhook what it has to get, one notice after another. A message comes at least once, so each try is leased.

        Only one worker does so for a webhook, and its turn ends with a try that fails: a slow receiver keeps one worker at
        the most, for ten seconds at a time.
        """
        until = time.monotonic() + TURN_S
        while self.outbox.has_due(project, webhook):
            with self.outbox.lease(project, webhook) as leased:
                if not leased or not self._deliver_next(project, webhook):
                    return
            if time.monotonic() > until:
                self._queue.deliver(project, webhook)
                return

    def _deliver_next(self, project: str, webhook: str) -> bool:
        """Try to deliver one notice, and write down the outcome; was it delivered?"""
        from ragassay.service.channels import Refusal, post

        taken = self.outbox.take(project, webhook)
        if taken is None:
            return False
        notice, tries = taken
        status, error = None, ""
        try:
            destination = self.outbox.destination(project, webhook)
            if tries > MOST_TRIES:
                error = "a worker died in the last try"
            else:
                status = post(notice, _delivery(notice, webhook), *destination, allowed=self._allowed)
        except NotFound:  # it was deleted a moment ago
            return False
        except Refusal as refusal:
            status, error = refusal.answered, refusal.message
        again_in_s = WAITS_S[tries - 1] if error and tries < MOST_TRIES else None
        self.outbox.settle(project, webhook, notice.id, status=status, error=error, again_in_s=again_in_s)
        level, outcome = (logging.WARNING, error) if error else (logging.INFO, f"it answered {status}")
        _log.log(level, "webhook %s, notice %s: try %d of %d: %s", webhook, notice.id, tries, MOST_TRIES, outcome)
        return not error


def _delivery(notice: Notice, webhook: str) -> str:
    """The id of a notice for a webhook, the same at each try."""
    return f"msg_{hashlib.sha256(f'{notice.id} {webhook}'.encode()).hexdigest()[:40]}"


def _without_secrets(notice: Notice) -> Notice:
    """The notice without values of our keys and passwords in the names that others chose."""
    names = {name: getattr(notice, name) for name in ("schedule", "system", "gate", "metric")}
    return notice.model_copy(update={name: without(text, secrets()) for name, text in names.items() if text})
