"""Who is told what: notices to webhooks, e-mail, Slack and the log, each at least once, from an outbox in Redis."""

from __future__ import annotations

import logging
import time
import uuid
from typing import TYPE_CHECKING

from ragassay.errors import NotFound
from ragassay.notices import Notice, NoticeKind, NoticePage
from ragassay.outgoing import Allowed
from ragassay.queue import Queue
from ragassay.settings import secrets, without
from ragassay.store.outbox import EMAIL, Outbox, Outcome, Taken
from ragassay.store.redis import RedisStore
from ragassay.webhooks import Webhooks

if TYPE_CHECKING:
    from ragassay.channels import MailServer

WAITS_S = (5, 300, 1800, 7200, 14_400, 25_200, 36_000)  # after each try that failed: eight of them in about a day
MOST_TRIES = len(WAITS_S) + 1
LONGEST_WAIT_S = 86_400  # that a Retry-After is honoured for
TURN_S = 20.0  # for which one message is worked on, so that other webhooks have their turn
_LOGGED_ELSEWHERE = ("gate_missed", "regression")  # with the reason, where the gates are checked
_log = logging.getLogger("ragassay.alerts")


class Alerts:
    """Tells people what happened. ``mail`` gets the alerts of all projects; ``allowed``: where webhooks may lead although
    it is not public.
    """

    def __init__(
        self,
        store: RedisStore,
        queue: Queue,
        *,
        allowed: Allowed = Allowed(),  # noqa: B008 - frozen
        mail: MailServer | None = None,
    ) -> None:
        self.outbox, self._queue, self._allowed, self._mail = Outbox(store), queue, allowed, mail

    def tell(self, notice: Notice) -> bool:
        """Keep a notice for all who want to know; False where that notice was kept before, so it is told once.

        Values of keys and passwords of our environment are taken out of its names.
        """
        notice = _without_secrets(notice)
        receivers = self.outbox.tell(notice, email=self._mail is not None)
        if receivers is None:
            return False
        level = logging.ERROR if notice.is_alert and notice.kind not in _LOGGED_ELSEWHERE else logging.INFO
        _log.log(level, "%s: id=%s project=%s job=%s", notice.headline, notice.id, notice.project, notice.job)
        for receiver in receivers:  # where the broker does not take a message, the sweeper sends it again
            self._queue.deliver(notice.project, receiver)
        return True

    def page(self, project: str, *, kind: NoticeKind | None, cursor: str | None, limit: int) -> NoticePage:
        """A project's notices, newest first. With ``kind`` a page may hold fewer than ``limit`` and have a ``next``."""
        return self.outbox.notices(project, kind=kind, cursor=cursor, limit=limit)

    def webhooks(self, project: str) -> Webhooks:
        """The webhooks of a project."""
        return Webhooks(self.outbox, self._queue, project, allowed=self._allowed)

    def wake(self) -> None:
        """Send a message for each webhook that has something to get now: a retry that is due, or what was lost."""
        for project, webhook in self.outbox.due():
            self._queue.deliver(project, webhook)

    def deliver(self, project: str, webhook: str) -> None:
        """Give a webhook what it has to get, one after another. Delivered at least once, so it takes a lease first.

        Only one worker does so for a webhook, and its turn ends with a try that fails: a slow receiver keeps one worker at
        the most, for ten seconds at a time.
        """
        token, until = uuid.uuid4().hex, time.monotonic() + TURN_S
        while taken := self.outbox.take(project, webhook, token, most_tries=MOST_TRIES):
            if not self._try(project, webhook, token, taken):
                return
            if time.monotonic() > until:
                self.outbox.release(project, webhook, token)
                self._queue.deliver(project, webhook)
                return

    def _try(self, project: str, webhook: str, token: str, taken: Taken) -> bool:
        """Try once and write down what became of it; was it delivered?"""
        from ragassay.channels import GONE, Refusal

        outcome: Outcome = "delivered"
        status, error, wait_s = None, "", 0.0
        try:
            status = self._send(project, webhook, taken)
        except NotFound:  # it was deleted a moment ago
            return False
        except Refusal as refusal:
            status, error = refusal.answered, refusal.message
            outcome = "gone" if status == GONE else "failed"
            wait_s = max(WAITS_S[min(taken.tries, len(WAITS_S)) - 1], min(refusal.retry_after or 0.0, LONGEST_WAIT_S))
        became = self.outbox.settle(
            project, webhook, token, taken.id, outcome, status=status, error=error, wait_s=wait_s, most_tries=MOST_TRIES
        )
        form = "webhook %s, delivery %s of notice %s: try %d of %d: %s (%s)"
        level = logging.INFO if became == "delivered" else logging.WARNING
        _log.log(
            level, form, webhook, taken.id, taken.notice.id, taken.tries, MOST_TRIES, error or "it was taken", became
        )
        return became == "delivered"

    def _send(self, project: str, webhook: str, taken: Taken) -> int | None:
        from ragassay import channels

        if webhook == EMAIL:
            if self._mail is None:
                raise channels.Refusal("no mail server is set: RAGASSAY_SMTP_HOST")
            channels.mail(taken.notice, taken.id, self._mail)
            return None
        destination = self.outbox.destination(project, webhook)
        signed_by = None if destination.format == "slack" else [secret.text for secret in destination.secrets]
        return channels.post(taken.notice, taken.id, destination.url, signed_by, allowed=self._allowed)


def _without_secrets(notice: Notice) -> Notice:
    """The notice without values of our keys and passwords in the names that others chose."""
    names = {name: getattr(notice, name) for name in ("schedule", "system", "gate", "metric")}
    return notice.model_copy(update={name: without(text, secrets()) for name, text in names.items() if text})
