"""Notifications to webhooks, Slack and the log: a transactional outbox in Redis, which the rounds of a beat deliver.

Keys of a project: ``ra:p:{PROJECT}:webhooks`` (id -> webhook), ``notifications`` (ids by time), ``notification:<id>``, and for
each webhook ``queue:<id>`` (ids of notifications, by the time of their next try), ``tries:<id>`` (of these), ``outcome:<id>`` (of
the last try) and ``lease:<id>``. ``ra:outboxes`` holds the projects that have one. Times are milliseconds of Redis's clock.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from redis.exceptions import LockError

from ragassay.core.errors import BadInput, Conflict, NotFound, bad_cursor
from ragassay.core.http_guard import Allowed, check_url
from ragassay.core.models import FrozenModel
from ragassay.core.settings import secrets, without
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
from ragassay.service.redis import RedisStore

MAX_WEBHOOKS = 20  # of a project
MAX_KEPT = 10_000  # notifications of a project
MAX_URL = 2000  # characters
KEPT_S = 90 * 86_400
WAITING_KEPT_S = 86_400  # for what webhooks still have to get: longer than all tries take
LEASE_S = 60.0  # longer than a turn and a try may take
TURN_S = 10.0  # after which a webhook begins no further try in a round
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


class Notifier:
    """Notifications, webhooks and deliveries. ``allowed``: where webhooks may lead although it is not public.

    Every method may be called by many processes at once.
    """

    def __init__(self, store: RedisStore, *, allowed: Allowed = Allowed()) -> None:  # noqa: B008 - frozen
        self.store, self._allowed = store, allowed

    # --- notifications ----------------------------------------------------------------------------------------

    def notify(self, notification: Notification) -> bool:
        """Keep a notification and queue it for each webhook that wants its kind, in one step.

        False if it was kept before, so it is sent once, or if it is no alert and no webhook wants it. Values of keys and
        passwords of our environment are taken out of its names.
        """
        notification = _without_secrets(notification)
        receivers = self._receivers(notification.project).items()
        wanted = [webhook for webhook, receiver in receivers if notification.kind in receiver.kinds]
        if notification.kind in OPT_IN and not wanted:
            return False
        if not self._put(notification, wanted, listed=True):
            return False
        level = logging.ERROR if notification.is_alert and notification.kind not in _LOGGED_ELSEWHERE else logging.INFO
        text, about = notification.headline, (notification.id, notification.project, notification.job)
        _log.log(level, "%s: id=%s project=%s job=%s", text, *about)
        return True

    def _put(self, notification: Notification, webhooks: Collection[str], *, listed: bool) -> bool:
        project, kept_s = notification.project, KEPT_S if listed else WAITING_KEPT_S
        document, now = notification.model_dump_json(), self.store.now_ms()
        key, listing = project_key(project, f"notification:{notification.id}"), project_key(project, "notifications")

        def step(pipe: Any) -> bool:
            if pipe.exists(key):
                return False
            pipe.multi()
            pipe.set(key, document, ex=kept_s)
            if listed:
                pipe.hincrby(counters.KEY, SEPARATOR.join(("notifications", notification.kind)))
                pipe.zadd(listing, {notification.id: now})
                pipe.zremrangebyscore(listing, "-inf", now - kept_s * 1000)
                pipe.zremrangebyrank(listing, 0, -MAX_KEPT - 1)
                pipe.expire(listing, kept_s)
            for webhook in webhooks:
                queue = project_key(project, f"queue:{webhook}")
                pipe.zadd(queue, {notification.id: now})
                pipe.expire(queue, WAITING_KEPT_S)
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
        wanted = tuple(dict.fromkeys(ALERTS if kinds is None else kinds))
        if len(self._receivers(project)) >= MAX_WEBHOOKS:
            raise Conflict(f"a project has at most {MAX_WEBHOOKS} webhooks", hint="delete one that is not needed")
        receiver = _Receiver(url=url, secret=secret, kinds=wanted, created_at=clock_time(self.store.now_ms()))
        self.store.redis.sadd("ra:outboxes", project)  # first: an outbox that no round looks into would deliver nothing
        self.store.redis.hset(project_key(project, "webhooks"), webhook, receiver.model_dump_json())
        return WebhookSecret(webhook=self.webhook(project, webhook), secret=secret)

    def webhooks(self, project: str) -> list[Webhook]:
        """The webhooks of a project, the oldest first, each with the outcome of its last try."""
        receivers = self._receivers(project)
        pipe = self.store.redis.pipeline(transaction=False)
        for webhook in receivers:
            pipe.hgetall(project_key(project, f"outcome:{webhook}"))
            pipe.zcard(project_key(project, f"queue:{webhook}"))
        answers = pipe.execute()
        found = zip(receivers.items(), answers[::2], answers[1::2], strict=True)
        return [_shown(webhook, receiver, last, waiting) for (webhook, receiver), last, waiting in found]

    def webhook(self, project: str, webhook: str) -> Webhook:
        """One of them; raises NotFound."""
        for each in self.webhooks(project):
            if each.id == webhook:
                return each
        raise NotFound(f"there is no webhook {webhook[:60]!r}", hint="list them: GET /v1/webhooks")

    def remove_webhook(self, project: str, webhook: str) -> Webhook:
        """Delete a webhook and all that waits for it; raises NotFound."""
        removed = self.webhook(project, webhook)
        pipe = self.store.redis.pipeline(transaction=True)
        pipe.hdel(project_key(project, "webhooks"), webhook)
        pipe.delete(*(project_key(project, f"{name}:{webhook}") for name in ("queue", "tries", "outcome")))
        pipe.execute()
        return removed

    def test_webhook(self, project: str, webhook: str) -> Webhook:
        """Queue a notification that says that nothing happened; its outcome is the webhook's last one. Raises NotFound."""
        self.webhook(project, webhook)
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        sample = Notification(id=f"test:{uuid.uuid4().hex}", kind="test", project=project, at=at)
        self._put(sample, (webhook,), listed=False)
        return self.webhook(project, webhook)

    def _receivers(self, project: str) -> dict[str, _Receiver]:
        stored = self.store.redis.hgetall(project_key(project, "webhooks"))
        receivers = {webhook.decode(): _Receiver.model_validate_json(one) for webhook, one in stored.items()}
        return dict(sorted(receivers.items(), key=lambda each: (each[1].created_at, each[0])))

    # --- deliveries -------------------------------------------------------------------------------------------

    def deliver_due(self) -> None:
        """A round: give each webhook what it has to get by now, several at once.

        A slow receiver delays the next round by at most a turn and a try.
        """
        due = list(self._due())
        if due:
            with ThreadPoolExecutor(min(THREADS, len(due)), "notifier") as threads:
                list(threads.map(self._serve, *zip(*due, strict=True)))

    def _due(self) -> Iterator[tuple[str, str]]:
        for project in sorted(each.decode() for each in self.store.redis.smembers("ra:outboxes")):
            for webhook in self._receivers(project):
                if self._next(project, webhook):
                    yield project, webhook

    def _next(self, project: str, webhook: str) -> str | None:
        queue = project_key(project, f"queue:{webhook}")
        due = self.store.redis.zrangebyscore(queue, "-inf", self.store.now_ms(), start=0, num=1)
        return due[0].decode() if due else None

    def _serve(self, project: str, webhook: str) -> None:
        """Send a webhook one notification after another, until a try fails; leased, so that of two beats one does."""
        lock = self.store.redis.lock(project_key(project, f"lease:{webhook}"), timeout=LEASE_S, blocking=False)
        if not lock.acquire():
            return
        until = time.monotonic() + TURN_S
        try:
            while (due := self._next(project, webhook)) and self._deliver(project, webhook, due):
                if time.monotonic() > until:
                    return
        finally:
            with suppress(LockError):  # it took longer than its lease
                lock.release()

    def _deliver(self, project: str, webhook: str, id_: str) -> bool:
        """Try to deliver a notification, and write down the outcome; may the next one follow?

        The try is counted before it is made, so that one that kills its process does not go on for ever.
        """
        from ragassay.service.senders import Refusal, post

        redis = self.store.redis
        document = redis.get(project_key(project, f"notification:{id_}"))
        receiver = self._receivers(project).get(webhook)
        if document is None or receiver is None:
            redis.zrem(project_key(project, f"queue:{webhook}"), id_)
            return receiver is not None
        notification = Notification.model_validate_json(document)
        number = self._count_try(project, webhook, id_)
        status, error = None, ""
        message = f"msg_{hashlib.sha256(f'{id_} {webhook}'.encode()).hexdigest()[:40]}"  # the same at each try
        try:
            if number > MAX_TRIES:
                error = "the process died in the last try"
            else:
                status = post(notification, message, receiver.url, receiver.secret, allowed=self._allowed)
        except Refusal as refusal:
            status, error = refusal.answered, refusal.message
        again_in_s = RETRY_DELAYS_S[number - 1] if error and number < MAX_TRIES else None
        self._settle(project, webhook, id_, status=status, error=error, again_in_s=again_in_s)
        level, outcome = (logging.WARNING, error) if error else (logging.INFO, f"it answered {status}")
        _log.log(level, "webhook %s, notification %s: try %d of %d: %s", webhook, id_, number, MAX_TRIES, outcome)
        return not error

    def _count_try(self, project: str, webhook: str, id_: str) -> int:
        tries, pipe = project_key(project, f"tries:{webhook}"), self.store.redis.pipeline(transaction=True)
        pipe.hincrby(tries, id_)
        pipe.expire(tries, WAITING_KEPT_S)
        return int(pipe.execute()[0])

    def _settle(
        self, project: str, webhook: str, id_: str, *, status: int | None, error: str, again_in_s: float | None
    ) -> None:
        """Write down the outcome of a try. ``again_in_s``: the time until the next one; None after the last.

        The outcome has a key of its own: a webhook that is deleted during a try stays deleted.
        """
        queue, tries, outcome = (project_key(project, f"{name}:{webhook}") for name in ("queue", "tries", "outcome"))
        now = self.store.now_ms()
        pipe = self.store.redis.pipeline(transaction=True)
        pipe.hset(outcome, mapping={"at": clock_time(now), "status": status or "", "error": error})
        if again_in_s is not None:
            pipe.zadd(queue, {id_: now + again_in_s * 1000}, xx=True)
        else:
            pipe.zrem(queue, id_)
            pipe.hdel(tries, id_)
            pipe.hincrby(counters.KEY, SEPARATOR.join(("deliveries", "failed" if error else "delivered")))
            if error:
                pipe.hincrby(outcome, "undelivered")
        pipe.expire(outcome, KEPT_S)
        pipe.execute()


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


def _shown(webhook: str, receiver: _Receiver, outcome: dict[bytes, bytes], waiting: int) -> Webhook:
    last = {name.decode(): value.decode() for name, value in outcome.items()}
    form: WebhookFormat = "slack" if receiver.secret is None else "standard"
    return Webhook(
        id=webhook,
        url=shown_url(receiver.url, form),
        kinds=receiver.kinds,
        format=form,
        created_at=receiver.created_at,
        waiting=waiting,
        undelivered=int(last.get("undelivered", 0)),
        last_at=last.get("at"),
        last_status=int(last["status"]) if last.get("status") else None,
        last_error=last.get("error") or None,
    )


def shown_url(url: str, form: WebhookFormat) -> str:
    """An address without what may be a secret in it: its query, and of Slack's, which is nothing but a secret, the path."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return f"{origin}/..." if form == "slack" else f"{origin}{parts.path}{'?...' if parts.query else ''}"


def _without_secrets(notification: Notification) -> Notification:
    """The notification without values of our keys and passwords in the names that others chose."""
    names = {name: getattr(notification, name) for name in ("schedule", "system", "gate", "metric")}
    return notification.model_copy(update={name: without(text, secrets()) for name, text in names.items() if text})
