"""The webhooks of a project: added, changed, disabled and tried out by those who own it."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from ragassay.errors import BadInput, BadSettings, NotFound
from ragassay.notices import ALERTS, DeliveryPage, Notice, NoticeKind, Replayed, Webhook, WebhookFormat, WebhookSecret
from ragassay.outgoing import Allowed, check_url
from ragassay.queue import Queue
from ragassay.store.outbox import Destination, Outbox, Secret

OVERLAP_S = 86_400  # for which a secret that was replaced signs beside the new one
LONGEST_URL = 2000  # characters


class Webhooks:
    """The webhooks of one project. ``allowed``: where they may lead although it is not public."""

    def __init__(self, outbox: Outbox, queue: Queue, project: str, *, allowed: Allowed) -> None:
        self._outbox, self._queue, self._project, self._allowed = outbox, queue, project, allowed

    def add(
        self, url: str, kinds: Collection[NoticeKind] | None = None, form: WebhookFormat = "standard"
    ) -> WebhookSecret:
        """Tell ``url`` of notices of ``kinds``, by default all alerts. The secret that signs is shown this once.

        Raises BadInput for an address that no request may go to, Conflict where the project has as many webhooks as it may have.
        """
        from ragassay.channels import new_secret

        secret = new_secret() if form == "standard" else None
        destination = Destination(_checked(url, self._allowed), form, (Secret(secret),) if secret else ())
        added = self._outbox.add(self._project, destination, _distinct(ALERTS if kinds is None else kinds))
        return WebhookSecret(webhook=self.get(added), secret=secret)

    def all(self) -> list[Webhook]:
        """The webhooks, the oldest first."""
        return self._outbox.webhooks(self._project)

    def get(self, webhook: str) -> Webhook:
        """One of them; raises NotFound."""
        return self._outbox.webhook(self._project, webhook)

    def change(
        self,
        webhook: str,
        *,
        url: str | None = None,
        kinds: Collection[NoticeKind] | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change what is given; enabled again, what waits goes on and failures are forgotten. Raises NotFound, BadInput."""
        changes: dict[str, Any] = {
            "url": url and _checked(url, self._allowed),
            "kinds": kinds and _distinct(kinds),
            "enabled": enabled,
        }
        self._outbox.change(
            self._project, webhook, {name: value for name, value in changes.items() if value is not None}
        )
        if enabled:
            self._queue.deliver(self._project, webhook)
        return self.get(webhook)

    def rotate(self, webhook: str) -> WebhookSecret:
        """A new secret; the one before signs beside it for a day. Raises NotFound, BadInput where none signs."""
        from ragassay.channels import new_secret

        destination = self._outbox.destination(self._project, webhook)
        if not destination.secrets:
            raise BadInput(f"webhook {webhook} has the format {destination.format!r}, which has no signature")
        until_ms = int(self._outbox.store.now_ms()) + OVERLAP_S * 1000
        new = Secret(new_secret())
        secrets = (new, Secret(destination.secrets[0].text, until_ms))
        self._outbox.change(self._project, webhook, {"secrets": secrets})
        until = datetime.fromtimestamp(until_ms / 1000, UTC).isoformat(timespec="seconds")
        return WebhookSecret(webhook=self.get(webhook), secret=new.text, previous_until=until)

    def remove(self, webhook: str) -> Webhook:
        """Forget a webhook and all that waits for it; raises NotFound."""
        removed = self.get(webhook)
        self._outbox.remove(self._project, webhook)
        return removed

    def deliveries(self, webhook: str, *, cursor: str | None, limit: int) -> DeliveryPage:
        """What it was sent or has to get, newest first; raises NotFound."""
        return self._outbox.deliveries(self._project, webhook, cursor=cursor, limit=limit)

    def test(self, webhook: str) -> Replayed:
        """Send it a notice that says that nothing happened. Raises NotFound, BadInput for one that is disabled."""
        if not self.get(webhook).enabled:
            raise BadInput(f"webhook {webhook} is disabled", hint=f"enable it: ragassay webhook set {webhook} --enable")
        sample = Notice(
            id=f"test:{uuid.uuid4().hex}",
            kind="test",
            project=self._project,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        deliveries = self._outbox.tell(sample, only=webhook) or {}
        self._queue.deliver(self._project, webhook)
        return Replayed(deliveries=tuple(deliveries.values()))

    def replay(self, webhook: str, *, delivery: str | None = None, since: datetime | None = None) -> Replayed:
        """Try one delivery again, or all that failed of those made ``since`` then; under the ids that they had.

        Raises NotFound, BadSettings unless one of both is given.
        """
        if (delivery is None) == (since is None):
            what = "name a delivery or a time, not both" if delivery else "name a delivery, or a time since when"
            raise BadSettings(what, where="replay")
        if since is not None and since.tzinfo is None:
            since = since.replace(tzinfo=UTC)
        chosen = self._outbox.failed_since(self._project, webhook, since) if since else [str(delivery)]
        replayed = self._outbox.replay(self._project, webhook, chosen)
        if delivery is not None and not replayed:
            hint = f"list them: GET /v1/webhooks/{webhook}/deliveries"
            raise NotFound(f"there is no delivery {delivery[:60]!r} of this webhook", hint=hint)
        if replayed:
            self._queue.deliver(self._project, webhook)
        return Replayed(deliveries=tuple(replayed))


def _distinct(kinds: Collection[NoticeKind]) -> tuple[NoticeKind, ...]:
    return tuple(dict.fromkeys(kinds))


def _checked(url: str, allowed: Allowed) -> str:
    """The address as it is; raises BadInput for what none can be sent to. Where its host leads is checked at each request."""
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
