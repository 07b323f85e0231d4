"""The alerts and webhooks of a service, as ``alerts`` and ``webhooks`` of ``Client`` and ``AsyncClient`` have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from datetime import datetime
from functools import partial

from ragassay.notices import (
    Delivery,
    DeliveryPage,
    Notice,
    NoticeKind,
    NoticePage,
    Replayed,
    Webhook,
    WebhookFormat,
    WebhookList,
    WebhookSecret,
)
from ragassay.python.exchanges import MOST_A_PAGE, AwaitedDrive, Drive, Exchange, awaited_pages, document, pages, route

Kinds = Collection[NoticeKind] | None


class ServiceAlerts:
    """What was told of the project's jobs and schedules."""

    def __init__(self, run: Drive) -> None:
        self._run = run

    def list(self, kind: NoticeKind | None = None) -> Iterator[Notice]:
        """The notices, newest first, page by page."""
        for page in pages(self._run, partial(_alerts, kind)):
            yield from page.alerts


class AsyncServiceAlerts:
    """``ServiceAlerts`` to await; ``list`` is an async iterator."""

    def __init__(self, run: AwaitedDrive) -> None:
        self._run = run

    async def list(self, kind: NoticeKind | None = None) -> AsyncIterator[Notice]:
        """See ``ServiceAlerts.list``."""
        async for page in awaited_pages(self._run, partial(_alerts, kind)):
            for notice in page.alerts:
                yield notice


class ServiceWebhooks:
    """Who is told of what happens to jobs and schedules. A webhook is named by its id."""

    def __init__(self, run: Drive) -> None:
        self._run = run

    def add(self, url: str, kinds: Kinds = None, *, format: WebhookFormat = "standard") -> WebhookSecret:  # noqa: A002
        """Have a URL told of notices of ``kinds``, by default all alerts. The secret that comes back is shown this once."""
        return self._run(_add(url, kinds, format))

    def list(self) -> tuple[Webhook, ...]:
        """The webhooks, the oldest first."""
        return self._run(_list()).webhooks

    def show(self, webhook: str) -> Webhook:
        """One webhook."""
        return self._run(_show(webhook))

    def change(
        self, webhook: str, *, url: str | None = None, kinds: Kinds = None, enabled: bool | None = None
    ) -> Webhook:
        """Change what is given; enabled again, what waits goes on."""
        return self._run(_change(webhook, url, kinds, enabled))

    def delete(self, webhook: str) -> Webhook:
        """Forget a webhook and all that waits for it."""
        return self._run(_delete(webhook))

    def rotate(self, webhook: str) -> WebhookSecret:
        """A new secret; the one before signs beside it for a day."""
        return self._run(_rotate(webhook))

    def test(self, webhook: str) -> str:
        """Send it a notice that says that nothing happened; returns the delivery's id."""
        (sent,) = self._run(_test(webhook)).deliveries
        return str(sent)

    def deliveries(self, webhook: str) -> Iterator[Delivery]:
        """What it was sent or has to get, newest first, page by page."""
        for page in pages(self._run, partial(_deliveries, webhook)):
            yield from page.deliveries

    def replay(
        self, webhook: str, delivery: str | None = None, *, failed_since: datetime | str | None = None
    ) -> tuple[str, ...]:
        """Send one delivery, or all that failed since a time, again; returns their ids, which stay as they were."""
        return self._run(_replay(webhook, delivery, failed_since)).deliveries


class AsyncServiceWebhooks:
    """``ServiceWebhooks`` to await; ``deliveries`` is an async iterator."""

    def __init__(self, run: AwaitedDrive) -> None:
        self._run = run

    async def add(self, url: str, kinds: Kinds = None, *, format: WebhookFormat = "standard") -> WebhookSecret:  # noqa: A002
        """See ``ServiceWebhooks.add``."""
        return await self._run(_add(url, kinds, format))

    async def list(self) -> tuple[Webhook, ...]:
        """See ``ServiceWebhooks.list``."""
        return (await self._run(_list())).webhooks

    async def show(self, webhook: str) -> Webhook:
        """See ``ServiceWebhooks.show``."""
        return await self._run(_show(webhook))

    async def change(
        self, webhook: str, *, url: str | None = None, kinds: Kinds = None, enabled: bool | None = None
    ) -> Webhook:
        """See ``ServiceWebhooks.change``."""
        return await self._run(_change(webhook, url, kinds, enabled))

    async def delete(self, webhook: str) -> Webhook:
        """See ``ServiceWebhooks.delete``."""
        return await self._run(_delete(webhook))

    async def rotate(self, webhook: str) -> WebhookSecret:
        """See ``ServiceWebhooks.rotate``."""
        return await self._run(_rotate(webhook))

    async def test(self, webhook: str) -> str:
        """See ``ServiceWebhooks.test``."""
        (sent,) = (await self._run(_test(webhook))).deliveries
        return str(sent)

    async def deliveries(self, webhook: str) -> AsyncIterator[Delivery]:
        """See ``ServiceWebhooks.deliveries``."""
        async for page in awaited_pages(self._run, partial(_deliveries, webhook)):
            for delivery in page.deliveries:
                yield delivery

    async def replay(
        self, webhook: str, delivery: str | None = None, *, failed_since: datetime | str | None = None
    ) -> tuple[str, ...]:
        """See ``ServiceWebhooks.replay``."""
        return (await self._run(_replay(webhook, delivery, failed_since))).deliveries


def _alerts(kind: NoticeKind | None, cursor: str | None) -> Exchange[NoticePage]:
    return document(NoticePage, "GET", route("alerts", kind=kind, cursor=cursor, limit=MOST_A_PAGE))


def _add(url: str, kinds: Kinds, form: WebhookFormat) -> Exchange[WebhookSecret]:
    asked = {"url": url, "format": form, **({} if kinds is None else {"kinds": [*kinds]})}
    return document(WebhookSecret, "POST", route("webhooks"), asked)


def _list() -> Exchange[WebhookList]:
    return document(WebhookList, "GET", route("webhooks"))


def _show(webhook: str) -> Exchange[Webhook]:
    return document(Webhook, "GET", route("webhooks", webhook))


def _change(webhook: str, url: str | None, kinds: Kinds, enabled: bool | None) -> Exchange[Webhook]:
    changes = {"url": url, "kinds": kinds and [*kinds], "enabled": enabled}
    given = {key: value for key, value in changes.items() if value is not None}
    return document(Webhook, "PATCH", route("webhooks", webhook), given)


def _delete(webhook: str) -> Exchange[Webhook]:
    return document(Webhook, "DELETE", route("webhooks", webhook))


def _rotate(webhook: str) -> Exchange[WebhookSecret]:
    return document(WebhookSecret, "POST", route("webhooks", webhook, "secret"))


def _test(webhook: str) -> Exchange[Replayed]:
    return document(Replayed, "POST", route("webhooks", webhook, "test"))


def _deliveries(webhook: str, cursor: str | None) -> Exchange[DeliveryPage]:
    return document(DeliveryPage, "GET", route("webhooks", webhook, "deliveries", cursor=cursor, limit=MOST_A_PAGE))


def _replay(webhook: str, delivery: str | None, failed_since: datetime | str | None) -> Exchange[Replayed]:
    """A time without an offset is of this machine's zone."""
    since = failed_since.astimezone().isoformat() if isinstance(failed_since, datetime) else failed_since
    return document(Replayed, "POST", route("webhooks", webhook, "replay", delivery=delivery, failed_since=since))
