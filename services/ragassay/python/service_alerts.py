"""The alerts and webhooks of a service, as ``alerts`` and ``webhooks`` of ``Client`` and ``AsyncClient`` have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from ragassay.notices import Delivery, Notice, NoticeKind, Webhook, WebhookFormat, WebhookSecret
from ragassay.python import alert_exchanges as exchanges
from ragassay.python.exchanges import awaited_pages, pages

Kinds = Collection[NoticeKind] | None


class ServiceAlerts:
    """What was told of the project's jobs and schedules."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run = run

    def list(self, kind: NoticeKind | None = None) -> Iterator[Notice]:
        """The notices, newest first, page by page."""
        for page in pages(self._run, partial(exchanges.alerts, kind)):
            yield from page.alerts


class AsyncServiceAlerts:
    """``ServiceAlerts`` to await; ``list`` is an async iterator."""

    def __init__(self, run: Callable[[Any], Awaitable[Any]]) -> None:
        self._run = run

    async def list(self, kind: NoticeKind | None = None) -> AsyncIterator[Notice]:
        """See ``ServiceAlerts.list``."""
        async for page in awaited_pages(self._run, partial(exchanges.alerts, kind)):
            for notice in page.alerts:
                yield notice


class ServiceWebhooks:
    """Who is told of what happens to jobs and schedules. A webhook is named by its id."""

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self._run = run

    def add(self, url: str, kinds: Kinds = None, *, format: WebhookFormat = "standard") -> WebhookSecret:  # noqa: A002
        """Have a URL told of notices of ``kinds``, by default all alerts. The secret that comes back is shown this once."""
        added: WebhookSecret = self._run(exchanges.add({"url": url, "kinds": kinds and [*kinds], "format": format}))
        return added

    def list(self) -> tuple[Webhook, ...]:
        """The webhooks, the oldest first."""
        found: tuple[Webhook, ...] = self._run(exchanges.webhooks()).webhooks
        return found

    def show(self, webhook: str) -> Webhook:
        """One webhook."""
        found: Webhook = self._run(exchanges.show(webhook))
        return found

    def change(
        self, webhook: str, *, url: str | None = None, kinds: Kinds = None, enabled: bool | None = None
    ) -> Webhook:
        """Change what is given; enabled again, what waits goes on."""
        changes = {"url": url, "kinds": kinds and [*kinds], "enabled": enabled}
        changed: Webhook = self._run(exchanges.change(webhook, changes))
        return changed

    def delete(self, webhook: str) -> Webhook:
        """Forget a webhook and all that waits for it."""
        gone: Webhook = self._run(exchanges.delete(webhook))
        return gone

    def rotate(self, webhook: str) -> WebhookSecret:
        """A new secret; the one before signs beside it for a day."""
        rotated: WebhookSecret = self._run(exchanges.rotate(webhook))
        return rotated

    def test(self, webhook: str) -> str:
        """Send it a notice that says that nothing happened; returns the delivery's id."""
        (sent,) = self._run(exchanges.test(webhook)).deliveries
        return str(sent)

    def deliveries(self, webhook: str) -> Iterator[Delivery]:
        """What it was sent or has to get, newest first, page by page."""
        for page in pages(self._run, partial(exchanges.deliveries, webhook)):
            yield from page.deliveries

    def replay(
        self, webhook: str, delivery: str | None = None, *, failed_since: datetime | str | None = None
    ) -> tuple[str, ...]:
        """Send one delivery, or all that failed since a time, again; returns their ids, which stay as they were."""
        again: tuple[str, ...] = self._run(exchanges.replay(webhook, delivery, failed_since)).deliveries
        return again


class AsyncServiceWebhooks:
    """``ServiceWebhooks`` to await; ``deliveries`` is an async iterator."""

    def __init__(self, run: Callable[[Any], Awaitable[Any]]) -> None:
        self._run = run

    async def add(self, url: str, kinds: Kinds = None, *, format: WebhookFormat = "standard") -> WebhookSecret:  # noqa: A002
        """See ``ServiceWebhooks.add``."""
        asked = {"url": url, "kinds": kinds and [*kinds], "format": format}
        added: WebhookSecret = await self._run(exchanges.add(asked))
        return added

    async def list(self) -> tuple[Webhook, ...]:
        """See ``ServiceWebhooks.list``."""
        found: tuple[Webhook, ...] = (await self._run(exchanges.webhooks())).webhooks
        return found

    async def show(self, webhook: str) -> Webhook:
        """See ``ServiceWebhooks.show``."""
        found: Webhook = await self._run(exchanges.show(webhook))
        return found

    async def change(
        self, webhook: str, *, url: str | None = None, kinds: Kinds = None, enabled: bool | None = None
    ) -> Webhook:
        """See ``ServiceWebhooks.change``."""
        changes = {"url": url, "kinds": kinds and [*kinds], "enabled": enabled}
        changed: Webhook = await self._run(exchanges.change(webhook, changes))
        return changed

    async def delete(self, webhook: str) -> Webhook:
        """See ``ServiceWebhooks.delete``."""
        gone: Webhook = await self._run(exchanges.delete(webhook))
        return gone

    async def rotate(self, webhook: str) -> WebhookSecret:
        """See ``ServiceWebhooks.rotate``."""
        rotated: WebhookSecret = await self._run(exchanges.rotate(webhook))
        return rotated

    async def test(self, webhook: str) -> str:
        """See ``ServiceWebhooks.test``."""
        (sent,) = (await self._run(exchanges.test(webhook))).deliveries
        return str(sent)

    async def deliveries(self, webhook: str) -> AsyncIterator[Delivery]:
        """See ``ServiceWebhooks.deliveries``."""
        async for page in awaited_pages(self._run, partial(exchanges.deliveries, webhook)):
            for delivery in page.deliveries:
                yield delivery

    async def replay(
        self, webhook: str, delivery: str | None = None, *, failed_since: datetime | str | None = None
    ) -> tuple[str, ...]:
        """See ``ServiceWebhooks.replay``."""
        again: tuple[str, ...] = (await self._run(exchanges.replay(webhook, delivery, failed_since))).deliveries
        return again
