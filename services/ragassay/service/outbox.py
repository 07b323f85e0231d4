"""The transactional outbox of each project in Redis: its webhooks, its notices, and the notices that each webhook still
has to get.

Keys of a project: ``ra:p:{PROJECT}:webhooks`` (ids by age), ``webhook:<id>``, ``notices`` (ids by time), ``notice:<id>``, and
for each webhook ``queue:<id>`` (ids of notices, by the time of their next try), ``tries:<id>`` (of these), ``outcome:<id>``
(of the last try) and ``lease:<id>``. ``ra:outboxes`` holds the projects that have one. Times are milliseconds of the Redis
server's own clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis.exceptions import LockError

from ragassay.core.errors import Conflict, NotFound, bad_cursor
from ragassay.core.telemetry import SEPARATOR
from ragassay.service import counters
from ragassay.service.notices import OPT_IN, Notice, NoticeKind, NoticePage, Webhook, WebhookFormat
from ragassay.service.projects import project_key
from ragassay.service.redis import RedisStore

MOST_WEBHOOKS = 20  # of a project
MOST_KEPT_NOTICES = 10_000
NOTICES_KEPT_S = 90 * 86_400
WAITING_KEPT_S = 86_400  # for what webhooks still have to get: longer than all tries of a notice take
LEASE_S = 60.0  # longer than a try may take
_LOOKED_AT = 1000  # notices, for a page of one kind


class Destination(NamedTuple):
    """The address of a webhook and the secret that signs what it gets; None in Slack's format. None of it is shown."""

    url: str
    secret: str | None


class Outbox:
    """Webhooks, notices and their queues. Every method may be called by many processes at once."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store

    # --- webhooks ---------------------------------------------------------------------------------------------

    def add(self, project: str, url: str, secret: str | None, kinds: tuple[NoticeKind, ...]) -> str:
        """Keep a webhook; returns its id. Raises Conflict if the project has as many as it may have."""
        redis, webhook = self.store.redis, f"wh_{uuid.uuid4().hex}"
        if redis.zcard(project_key(project, "webhooks")) >= MOST_WEBHOOKS:
            raise Conflict(f"a project has at most {MOST_WEBHOOKS} webhooks", hint="delete one that is not needed")
        redis.sadd("ra:outboxes", project)  # first: an outbox that no round looks into would deliver nothing
        now = self.store.now_ms()
        fields = {"url": url, "kinds": ",".join(kinds), "created_ms": int(now)}
        pipe = redis.pipeline(transaction=True)
        pipe.hset(project_key(project, f"webhook:{webhook}"), mapping=fields | ({"secret": secret} if secret else {}))
        pipe.zadd(project_key(project, "webhooks"), {webhook: now})
        pipe.execute()
        return webhook

    def remove(self, project: str, webhook: str) -> None:
        """Delete a webhook and what waits for it; raises NotFound."""
        names = (f"{name}:{webhook}" for name in ("webhook", "queue", "tries", "outcome"))
        pipe = self.store.redis.pipeline(transaction=True)
        pipe.zrem(project_key(project, "webhooks"), webhook)
        pipe.delete(*(project_key(project, name) for name in names))
        if not pipe.execute()[0]:
            raise no_webhook(webhook)

    def webhooks(self, project: str) -> list[Webhook]:
        """The project's webhooks, the oldest first."""
        ids = self._ids(project)
        pipe = self.store.redis.pipeline(transaction=False)
        for each in ids:
            pipe.hgetall(project_key(project, f"webhook:{each}"))
            pipe.hgetall(project_key(project, f"outcome:{each}"))
            pipe.zcard(project_key(project, f"queue:{each}"))
        answers = pipe.execute()
        found = zip(ids, answers[::3], answers[1::3], answers[2::3], strict=True)
        return [
            _webhook(each, _texts(fields), _texts(last), waiting) for each, fields, last, waiting in found if fields
        ]

    def destination(self, project: str, webhook: str) -> Destination:
        """Where its notices go, and the secret that signs them; raises NotFound."""
        fields = _texts(self.store.redis.hgetall(project_key(project, f"webhook:{webhook}")))
        if not fields:
            raise no_webhook(webhook)
        return Destination(fields["url"], fields.get("secret"))

    def _ids(self, project: str) -> list[str]:
        return [each.decode() for each in self.store.redis.zrange(project_key(project, "webhooks"), 0, -1)]

    # --- notices ----------------------------------------------------------------------------------------------

    def put(self, notice: Notice) -> tuple[str, ...] | None:
        """Keep a notice once and queue it for each webhook that wants its kind: all of that, or nothing.

        Returns these webhooks; None if the notice was kept before, or if it is no alert and no webhook wants it.
        """
        webhooks = tuple(each.id for each in self.webhooks(notice.project) if notice.kind in each.kinds)
        if notice.kind in OPT_IN and not webhooks:
            return None
        return webhooks if self._put(notice, webhooks, listed=True) else None

    def put_test(self, notice: Notice, webhook: str) -> None:
        """Queue a notice for one webhook alone; it is in no list."""
        self._put(notice, (webhook,), listed=False)

    def _put(self, notice: Notice, webhooks: tuple[str, ...], *, listed: bool) -> bool:
        project, kept_s = notice.project, NOTICES_KEPT_S if listed else WAITING_KEPT_S
        document, now = notice.model_dump_json(), self.store.now_ms()
        key, notices = project_key(project, f"notice:{notice.id}"), project_key(project, "notices")

        def step(pipe: Any) -> bool:
            if pipe.exists(key):
                return False
            pipe.multi()
            pipe.set(key, document, ex=kept_s)
            if listed:
                pipe.hincrby(counters.KEY, SEPARATOR.join(("notices", notice.kind)))
                pipe.zadd(notices, {notice.id: now})
                pipe.zremrangebyscore(notices, "-inf", now - kept_s * 1000)
                pipe.zremrangebyrank(notices, 0, -MOST_KEPT_NOTICES - 1)
                pipe.expire(notices, kept_s)
            for webhook in webhooks:
                queue = project_key(project, f"queue:{webhook}")
                pipe.zadd(queue, {notice.id: now})
                pipe.expire(queue, WAITING_KEPT_S)
            return True

        return bool(self.store.redis.transaction(step, key, value_from_callable=True))

    def notices(self, project: str, *, kind: NoticeKind | None, cursor: str | None, limit: int) -> NoticePage:
        """A project's notices, newest first. With ``kind`` a page may hold fewer than ``limit`` and have a ``next``."""
        ids, more = self._newest(project_key(project, "notices"), cursor, _LOOKED_AT if kind else limit)
        documents = self.store.redis.mget([project_key(project, f"notice:{each}") for each in ids]) if ids else []
        shown: list[Notice] = []
        looked_at = 0
        for document in documents:
            looked_at += 1
            notice = Notice.model_validate_json(document) if document else None
            if notice and kind in (None, notice.kind):
                shown.append(notice)
            if len(shown) == limit:
                break
        return NoticePage(alerts=tuple(shown), next=ids[looked_at - 1] if more or looked_at < len(ids) else None)

    def _newest(self, key: str, cursor: str | None, limit: int) -> tuple[list[str], bool]:
        """Up to ``limit`` ids after the one of the cursor, newest first, and whether there are more."""
        first = 0
        if cursor is not None:
            rank = self.store.redis.zrevrank(key, cursor)
            if rank is None:
                raise bad_cursor(cursor)
            first = rank + 1
        ids = [each.decode() for each in self.store.redis.zrevrange(key, first, first + limit)]
        return ids[:limit], len(ids) > limit

    # --- queues -----------------------------------------------------------------------------------------------

    @contextmanager
    def lease(self, project: str, webhook: str) -> Iterator[bool]:
        """Hold a webhook for a try; False if another worker does. A lease whose worker died ends by itself."""
        lock = self.store.redis.lock(project_key(project, f"lease:{webhook}"), timeout=LEASE_S, blocking=False)
        held = bool(lock.acquire())
        try:
            yield held
        finally:
            if held:
                with suppress(LockError):  # it took longer than its lease
                    lock.release()

    def has_due(self, project: str, webhook: str) -> bool:
        """Has a webhook something to get now?"""
        return bool(self.store.redis.zcount(project_key(project, f"queue:{webhook}"), "-inf", self.store.now_ms()))

    def take(self, project: str, webhook: str) -> tuple[Notice, int] | None:
        """The notice that a webhook has to get first, and the number of this try; None if nothing is due.

        The try is counted before it is made, so that one that kills its worker does not go on for ever.
        """
        redis, queue = self.store.redis, project_key(project, f"queue:{webhook}")
        while due := redis.zrangebyscore(queue, "-inf", self.store.now_ms(), start=0, num=1):
            document = redis.get(project_key(project, f"notice:{due[0].decode()}"))
            if document is None:
                redis.zrem(queue, due[0])
                continue
            pipe = redis.pipeline(transaction=True)
            pipe.hincrby(project_key(project, f"tries:{webhook}"), due[0])
            pipe.expire(project_key(project, f"tries:{webhook}"), WAITING_KEPT_S)
            return Notice.model_validate_json(document), int(pipe.execute()[0])
        return None

    def settle(
        self, project: str, webhook: str, notice: str, *, status: int | None, error: str, again_in_s: float | None
    ) -> None:
        """Write down the outcome of a try. ``again_in_s``: the time until the next one; None after the last.

        The outcome has a key of its own: a webhook that is deleted during a try stays deleted.
        """
        queue, tries, outcome = (project_key(project, f"{name}:{webhook}") for name in ("queue", "tries", "outcome"))
        now = self.store.now_ms()
        pipe = self.store.redis.pipeline(transaction=True)
        pipe.hset(outcome, mapping={"at_ms": int(now), "status": status or "", "error": error})
        if again_in_s is not None:
            pipe.zadd(queue, {notice: now + again_in_s * 1000}, xx=True)
        else:
            pipe.zrem(queue, notice)
            pipe.hdel(tries, notice)
            pipe.hincrby(counters.KEY, SEPARATOR.join(("deliveries", "failed" if error else "delivered")))
            if error:
                pipe.hincrby(outcome, "undelivered")
        pipe.expire(outcome, NOTICES_KEPT_S)
        pipe.execute()

    def due(self) -> Iterator[tuple[str, str]]:
        """Each (project, webhook) that has something to get now."""
        for project in sorted(each.decode() for each in self.store.redis.smembers("ra:outboxes")):
            for webhook in self._ids(project):
                if self.has_due(project, webhook):
                    yield project, webhook


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}


def _time(milliseconds: str | None) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC).isoformat(timespec="milliseconds")


def _webhook(webhook: str, fields: Mapping[str, str], last: Mapping[str, str], waiting: int) -> Webhook:
    form: WebhookFormat = "standard" if "secret" in fields else "slack"
    status = last.get("status")
    return Webhook.model_validate(
        {
            "id": webhook,
            "url": shown_url(fields["url"], form),
            "kinds": tuple(fields["kinds"].split(",")),
            "format": form,
            "created_at": _time(fields["created_ms"]),
            "waiting": waiting,
            "undelivered": int(last.get("undelivered", 0)),
            "last_at": _time(last.get("at_ms")),
            "last_status": int(status) if status else None,
            "last_error": last.get("error") or None,
        }
    )


def shown_url(url: str, form: WebhookFormat) -> str:
    """An address without what may be a secret in it: its query, and of Slack's, which is nothing but a secret, the path."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return f"{origin}/..." if form == "slack" else f"{origin}{parts.path}{'?...' if parts.query else ''}"


def no_webhook(webhook: str) -> NotFound:
    """The error of a webhook that the project does not have."""
    return NotFound(f"there is no webhook {webhook[:60]!r}", hint="list them: GET /v1/webhooks")
