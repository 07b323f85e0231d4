"""The webhooks of a project: add, list, test and remove them."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import UTC, datetime

from ragassay.core.errors import BadInput
from ragassay.core.http_guard import Allowed, check_url
from ragassay.service.notices import ALERTS, Notice, NoticeKind, Webhook, WebhookFormat, WebhookSecret
from ragassay.service.outbox import Outbox, no_webhook
from ragassay.service.queue import Queue

LONGEST_URL = 2000  # characters


class Webhooks:
    """The webhooks of one project. ``allowed``: where they may lead although it is not public."""

    def __init__(self, outbox: Outbox, queue: Queue, project: str, *, allowed: Allowed) -> None:
        self._outbox, self._queue, self._project, self._allowed = outbox, queue, project, allowed

    def add(
        self, url: str, kinds: Collection[NoticeKind] | None = None, form: WebhookFormat = "standard"
    ) -> WebhookSecret:
        """Send notices of ``kinds``, by default all alerts, to ``url``. The secret that signs is shown this once.

        Raises BadInput for an address that no request may go to, Conflict if the project has as many webhooks as it may have.
        """
        from ragassay.service.channels import new_secret

        secret = new_secret() if form == "standard" else None
        distinct = tuple(dict.fromkeys(ALERTS if kinds is None else kinds))
        added = self._outbox.add(self._project, _checked(url, self._allowed), secret, distinct)
        return WebhookSecret(webhook=self.get(added), secret=secret)

    def all(self) -> list[Webhook]:
        """The webhooks, the oldest first."""
        return self._outbox.webhooks(self._project)

    def get(self, webhook: str) -> Webhook:
        """One of them; raises NotFound."""
        for each in self.all():
            if each.id == webhook:
                return each
        raise no_webhook(webhook)

    def remove(self, webhook: str) -> Webhook:
        """Delete a webhook and all that waits for it; raises NotFound."""
        removed = self.get(webhook)
        self._outbox.remove(self._project, webhook)
        return removed

    def test(self, webhook: str) -> Webhook:
        """Queue a notice that says that nothing happened; its outcome is the webhook's last one. Raises NotFound."""
        self.get(webhook)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        sample = Notice(id=f"test:{uuid.uuid4().hex}", kind="test", project=self._project, at=at)
        self._outbox.put_test(sample, webhook)
        self._queue.deliver(self._project, webhook)
        return self.get(webhook)


def _checked(url: str, allowed: Allowed) -> str:
    """The address as it is; raises BadInput if no request may go there. Where its host leads is checked at each request."""
    if len(url) > LONGEST_URL:
        raise BadInput(f"is longer than {LONGEST_URL} characters", where="url")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise BadInput("it is no address: write https://HOST/PATH", where="url")
    try:
        check_url(url, allowed=allowed)
    except BadInput as error:
        error.where = error.where or "url"
        raise
    return url
