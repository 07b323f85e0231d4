"""Notifications to webhooks, Slack and the log: a transactional outbox in Redis, which the rounds of a beat empty.

What makes a notification adds it to ``ra:outbox`` in the step that it is about. A round lists each once in its project, and
queues a delivery for each webhook that wants its kind. Keys of a project: ``ra:p:{PROJECT}:webhooks`` (id -> webhook),
``outcomes`` (id -> outcome of its last try), ``notifications`` (ids by time) and ``notification:<id>``; ``ra:deliveries`` has the
deliveries of all projects by the time of their next try. Times are milliseconds of Redis's clock.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
import uuid
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson
from redis.exceptions import LockError

from ragassay.core.errors import BadInput, Conflict, NotFound
from ragassay.core.http_guard import Allowed, check_url
from ragassay.core.models import FrozenModel
from ragassay.core.paging import bad_cursor
from ragassay.observability import SEPARATOR
from ragassay.service import counters
from ragassay.service.notifications import (
    ALERTS,
    OPT_IN,
    Notification,
    NotificationKind,
    NotificationPage,
    Webhook,
    WebhookFormat,
    WebhookSecret,
)
from ragassay.service.projects import clock_time, project_key
from ragassay.service.redis import OUTBOX, RedisStore

MAX_WEBHOOKS = 20  # of a project
MAX_KEPT = 10_000  # notifications of a project
MAX_URL = 2000  # characters
KEPT_S = 90 * 86_400
DELIVERIES, LOCK = "ra:deliveries", "ra:lock:deliveries"
LOCK_S = 60.0  # longer than a turn and a try may take
TURN_S = 10.0  # after which a round begins no further try
THREADS = 8  # webhooks that are served at once
RETRY_DELAYS_S = (5, 60, 300, 900, 2400)  # after each try that failed: six of them in about an hour
MAX_TRIES = len(RETRY_DELAYS_S) + 1
_SCANNED = 1000  # notifications, for a page of one kind
_LOGGED_ELSEWHERE = ("gate_missed", "regression")  # with the reason, where the gates are checked
_log = logging.getLogger("ragassay.alerts")


class _Receiver(FrozenModel):
    """A webhook as it is stored; in Slack's format it has no secret."""

    url: str
    secret: str | None
    kinds: tuple[NotificationKind, ...]
    created_at: str


class _Delivery(FrozenModel):
    """A notification for a webhook. ``number``: of the try that is next, from 1."""

    webhook: str
    number: int = 1
    notification: Notification

    @property
    def message(self) -> str:
        """Its id for the receiver, the same at each try."""
        return f"msg_{hashlib.sha256(f'{self.notification.id} {self.webhook}'.encode()).hexdigest()[:40]}"


class Notifier:
    """Notifications, webhooks and deliveries. ``allowed``: where webhooks may lead although it is not public.

    Every method may be called by many processes at once.
    """

    def __init__(self, store: RedisStore, *, allowed: Allowed = Allowed()) -> None:  # noqa: B008 - frozen
        self.store, self._allowed = store, allowed

    # --- notifications ----------------------------------------------------------------------------------------

    def empty_outbox(self) -> None:
        """List each notification of the outbox once, however often it is there, and queue it for each webhook that wants it.

        One that is no alert and that no webhook wants is dropped.
        """
        while head := self.store.redis.lindex(OUTBOX, 0):
            notification = Notification.model_validate_json(head)
            receivers = self._receivers(notification.project).items()
            wanted = [webhook for webhook, receiver in receivers if notification.kind in receiver.kinds]
            if (wanted or notification.kind not in OPT_IN) and self._list(notification, wanted):
                is_error = notification.kind in ALERTS and notification.kind not in _LOGGED_ELSEWHERE
                about = (notification.id, notification.project, notification.job)
                level = logging.ERROR if is_error else logging.INFO
                _log.log(level, "%s: id=%s project=%s job=%s", notification.headline, *about)
            self.store.redis.lrem(OUTBOX, 1, head)  # last: a round that dies before is repeated

    def _list(self, notification: Notification, webhooks: Collection[str]) -> bool:
        """Keep a notification and its deliveries in one step; False if it was kept before."""
        project, now = notification.project, self.store.now_ms()
        key, listing = project_key(project, f"notification:{notification.id}"), project_key(project, "notifications")

        def step(pipe: Any) -> bool:
            if pipe.exists(key):
                return False
            pipe.multi()
            pipe.set(key, notification.model_dump_json(), ex=KEPT_S)
            pipe.hincrby(counters.KEY, SEPARATOR.join(("notifications", notification.kind)))
            pipe.zadd(listing, {notification.id: now})
            pipe.zremrangebyscore(listing, "-inf", now - KEPT_S * 1000)
            pipe.zremrangebyrank(listing, 0, -MAX_KEPT - 1)
            pipe.expire(listing, KEPT_S)
            for webhook in webhooks:
                delivery = _Delivery(webhook=webhook, notification=notification)
                pipe.zadd(DELIVERIES, {delivery.model_dump_json(): now})
            return True

        return bool(self.store.redis.transaction(step, key, value_from_callable=True))

    def page(self, project: str, *, kind: NotificationKind | None, cursor: str | None, limit: int) -> NotificationPage:
        """A project's notifications, newest first. With ``kind`` a page may hold fewer than ``limit`` and have a ``next``."""
        redis, listing = self.store.redis, project_key(project, "notifications")
        rank = -1 if cursor is None else redis.zrevrank(listing, cursor)
        if rank is None:
            raise bad_cursor(str(cursor))
        scanned = _SCANNED if kind else limit
        ids = [each.decode() for each in redis.zrevrange(listing, rank + 1, rank + 1 + scanned)]
        keys = [project_key(project, f"notification:{each}") for each in ids[:scanned]]
        shown: list[Notification] = []
        last = None
        for id_, document in zip(ids, redis.mget(keys) if keys else (), strict=False):
            last = id_
            notification = Notification.model_validate_json(document) if document else None
            if notification and kind in (None, notification.kind):
                shown.append(notification)
            if len(shown) == limit:
                break
        return NotificationPage(alerts=tuple(shown), next=None if not ids or last == ids[-1] else last)

    # --- webhooks ---------------------------------------------------------------------------------------------

    def add_webhook(
        self,
        project: str,
        url: str,
        kinds: Collection[NotificationKind] | None = None,
        form: WebhookFormat = "standard",
    ) -> WebhookSecret:
        """Send notifications of ``kinds``, by default all alerts, to ``url``. The secret that signs is shown this once.

        Raises BadInput for an address that no request may go to, Conflict if the project has as many webhooks as it may have.
        """
        from ragassay.service.senders import new_secret

        _check_address(url, self._allowed)
        webhook, secret = f"wh_{uuid.uuid4().hex}", new_secret() if form == "standard" else None
        if len(self._receivers(project)) >= MAX_WEBHOOKS:
            raise Conflict(f"a project has at most {MAX_WEBHOOKS} webhooks", hint="delete one that is not needed")
        wanted = tuple(dict.fromkeys(ALERTS if kinds is None else kinds))
        receiver = _Receiver(url=url, secret=secret, kinds=wanted, created_at=clock_time(self.store.now_ms()))
        self.store.redis.hset(project_key(project, "webhooks"), webhook, receiver.model_dump_json())
        return WebhookSecret(webhook=self.webhook(project, webhook), secret=secret)

    def webhooks(self, project: str) -> list[Webhook]:
        """The webhooks of a project, the oldest first, each with the outcome of its last try."""
        outcomes = self.store.redis.hgetall(project_key(project, "outcomes"))
        return [
            _shown(webhook, receiver, outcomes.get(webhook.encode()))
            for webhook, receiver in self._receivers(project).items()
        ]

    def webhook(self, project: str, webhook: str) -> Webhook:
        """One of them; raises NotFound."""
        for each in self.webhooks(project):
            if each.id == webhook:
                return each
        raise NotFound(f"there is no webhook {webhook[:60]!r}", hint="list them: GET /v1/webhooks")

    def remove_webhook(self, project: str, webhook: str) -> Webhook:
        """Delete a webhook; raises NotFound. What waits for it is dropped when it is due."""
        removed = self.webhook(project, webhook)
        for name in ("webhooks", "outcomes"):
            self.store.redis.hdel(project_key(project, name), webhook)
        return removed

    def test_webhook(self, project: str, webhook: str) -> Webhook:
        """Queue a notification that says that nothing happened; its outcome is the webhook's last one. Raises NotFound."""
        tested, at = self.webhook(project, webhook), datetime.now(UTC).isoformat(timespec="milliseconds")
        sample = Notification(id=f"test:{uuid.uuid4().hex}", kind="test", project=project, at=at)
        delivery = _Delivery(webhook=webhook, notification=sample)
        self.store.redis.zadd(DELIVERIES, {delivery.model_dump_json(): self.store.now_ms()})
        return tested

    def _receivers(self, project: str) -> dict[str, _Receiver]:
        stored = self.store.redis.hgetall(project_key(project, "webhooks"))
        receivers = {webhook.decode(): _Receiver.model_validate_json(one) for webhook, one in stored.items()}
        return dict(sorted(receivers.items(), key=lambda each: (each[1].created_at, each[0])))

    # --- deliveries -------------------------------------------------------------------------------------------

    def deliver_due(self) -> None:
        """A round: empty the outbox, then give each webhook what it has to get by now, several at once.

        Of two beats one delivers. Slow receivers delay the next round by at most a turn and a try, however many they are;
        what is not tried stays due, and the order of webhooks is drawn.
        """
        self.empty_outbox()
        redis, until = self.store.redis, ("-inf", self.store.now_ms())
        lock = redis.lock(LOCK, timeout=LOCK_S, blocking=False, thread_local=False)
        if not redis.zcount(DELIVERIES, *until) or not lock.acquire():
            return
        try:
            by_webhook: dict[str, list[bytes]] = {}
            for stored in redis.zrangebyscore(DELIVERIES, *until):
                by_webhook.setdefault(orjson.loads(stored)["webhook"], []).append(stored)
            webhooks = list(by_webhook.values())
            random.shuffle(webhooks)  # so that slow ones don't always come first
            with ThreadPoolExecutor(THREADS, "notifier") as threads:
                list(threads.map(partial(self._serve, until=time.monotonic() + TURN_S), webhooks))
        finally:
            with suppress(LockError):  # it took longer than the lock is held
                lock.release()

    def _serve(self, due: list[bytes], *, until: float) -> None:
        """Send a webhook one notification after another, until a try fails or the time of the round is over."""
        for stored in due:
            if time.monotonic() > until or not self._deliver(stored):
                return

    def _deliver(self, stored: bytes) -> bool:
        """Try to deliver a notification, and write down the outcome; did it arrive, or is its webhook gone?"""
        from ragassay.service.senders import Refusal, post

        delivery, redis = _Delivery.model_validate_json(stored), self.store.redis
        notification, number = delivery.notification, delivery.number
        receiver = self._receivers(notification.project).get(delivery.webhook)
        if receiver is None:
            redis.zrem(DELIVERIES, stored)
            return True
        status, error = None, None
        try:
            status = post(notification, delivery.message, receiver.url, receiver.secret, allowed=self._allowed)
        except Refusal as refusal:
            status, error = refusal.answered, refusal.message
        ends, now = error is None or number == MAX_TRIES, self.store.now_ms()
        outcome = {"last_at": clock_time(now), "last_status": status, "last_error": error}
        pipe = redis.pipeline(transaction=True)
        pipe.zrem(DELIVERIES, stored)
        pipe.hset(project_key(notification.project, "outcomes"), delivery.webhook, orjson.dumps(outcome))
        if ends:
            pipe.hincrby(counters.KEY, SEPARATOR.join(("deliveries", "failed" if error else "delivered")))
        else:
            again = delivery.model_copy(update={"number": number + 1})
            pipe.zadd(DELIVERIES, {again.model_dump_json(): now + RETRY_DELAYS_S[number - 1] * 1000})
        pipe.execute()
        if error and ends and notification.job:
            self.store.note_undelivered(notification.job, delivery.webhook, f"{notification.kind}: {error}")
        level, said = (logging.WARNING, error) if error else (logging.INFO, f"it answered {status}")
        about = delivery.webhook, notification.id, number, MAX_TRIES, said
        _log.log(level, "webhook %s, notification %s: try %d of %d: %s", *about)
        return error is None


def _check_address(url: str, allowed: Allowed) -> None:
    """Raise BadInput if no request may go to an address. Where its host leads is checked at each request."""
    if len(url) > MAX_URL:
        raise BadInput(f"is longer than {MAX_URL} characters", where="url")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise BadInput("it is no address: write https://HOST/PATH", where="url")
    try:
        check_url(url, allowed=allowed)
    except BadInput as error:
        error.where = error.where or "url"
        raise


def _shown(webhook: str, receiver: _Receiver, outcome: bytes | None) -> Webhook:
    form: WebhookFormat = "slack" if receiver.secret is None else "standard"
    about = receiver.model_dump(include={"kinds", "created_at"}) | orjson.loads(outcome or b"{}")
    return Webhook(id=webhook, url=shown_url(receiver.url, form), format=form, **about)


def shown_url(url: str, form: WebhookFormat) -> str:
    """An address without what may be a secret in it: its query, and of Slack's, which is nothing but a secret, the path."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return f"{origin}/..." if form == "slack" else f"{origin}{parts.path}{'?...' if parts.query else ''}"
