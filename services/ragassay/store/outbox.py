"""The outbox of each project in Redis: its webhooks, its notices, and who still has to get which.

Keys of a project share a slot: ``ra:p:{PROJECT}:webhooks`` (ids by age), ``webhook:<id>``, ``notices`` (ids by time),
``notice:<id>``, and for each webhook ``deliveries:<id>`` (by age), ``queue:<id>`` (those that wait, by when they are due),
``woken:<id>``; ``delivery:<id>``. The operator's e-mail is the webhook ``email`` of every project. ``ra:outboxes`` holds the
projects that have one. Times are milliseconds of the Redis server's own clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import orjson

from ragassay.errors import BadInput, Conflict, NotFound
from ragassay.notices import OPT_IN, Delivery, DeliveryPage, Notice, NoticeKind, NoticePage, Webhook, WebhookFormat
from ragassay.store.projects import project_key
from ragassay.store.redis import RedisStore

EMAIL = "email"
MOST_WEBHOOKS = 20  # of a project
MOST_KEPT_NOTICES = 10_000
NOTICES_KEPT_S, DELIVERIES_KEPT_S = 90 * 86_400, 30 * 86_400
LEASE_MS = 60_000  # longer than a try may take
PATIENCE_MS = 30_000  # until a wake-up that nothing came of is sent again
_LOOKED_AT = 1000  # notices, for a page of one kind


@dataclass(frozen=True)
class Secret:
    """What signs; ``until_ms``: no longer than that."""

    text: str = field(repr=False)
    until_ms: int | None = None


@dataclass(frozen=True)
class Destination:
    """Where a webhook's deliveries go. None of it is shown."""

    url: str = field(repr=False)
    format: WebhookFormat
    secrets: tuple[Secret, ...]


class Taken(NamedTuple):
    """A delivery that this worker is to make, and the try's number."""

    id: str
    notice: Notice
    tries: int


Outcome = Literal["delivered", "failed", "gone"]


class Outbox:
    """Webhooks, notices and deliveries. Every method may be called by many processes at once."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store

    # --- webhooks ---------------------------------------------------------------------------------------------

    def add(self, project: str, destination: Destination, kinds: tuple[NoticeKind, ...]) -> str:
        """Keep a webhook; returns its id. Raises Conflict where the project has as many as it may have."""
        redis, webhook = self.store.redis, f"wh_{uuid.uuid4().hex}"
        if redis.zcard(project_key(project, "webhooks")) >= MOST_WEBHOOKS:
            raise Conflict(f"a project has at most {MOST_WEBHOOKS} webhooks", hint="delete one that is not needed")
        redis.sadd("ra:outboxes", project)  # first: an outbox that nobody looks into would deliver nothing
        now = self.store.now_ms()
        pipe = redis.pipeline(transaction=True)
        pipe.hset(
            project_key(project, f"webhook:{webhook}"),
            mapping={
                "url": destination.url,
                "format": destination.format,
                "secrets": orjson.dumps(destination.secrets),
                "kinds": _listed(kinds),
                "enabled": 1,
                "created_ms": int(now),
            },
        )
        pipe.zadd(project_key(project, "webhooks"), {webhook: now})
        pipe.execute()
        return webhook

    def change(self, project: str, webhook: str, changes: Mapping[str, Any]) -> None:
        """Change ``url``, ``kinds`` or ``secrets``; ``enabled`` True also forgets the failures. Raises NotFound."""
        fields: dict[str, Any] = dict(changes)
        if "kinds" in fields:
            fields["kinds"] = _listed(fields["kinds"])
        if "secrets" in fields:
            fields["secrets"] = orjson.dumps(fields["secrets"])
        if "enabled" in fields:
            fields["enabled"] = int(fields["enabled"])
        if fields.get("enabled"):
            fields |= {"failures": 0, "disabled": ""}
        self._fields(project, webhook)
        if fields:
            self.store.redis.hset(project_key(project, f"webhook:{webhook}"), mapping=fields)

    def remove(self, project: str, webhook: str) -> None:
        """Forget a webhook and what waits for it; raises NotFound."""
        names = (f"webhook:{webhook}", f"queue:{webhook}", f"deliveries:{webhook}", f"woken:{webhook}")
        pipe = self.store.redis.pipeline(transaction=True)
        pipe.zrem(project_key(project, "webhooks"), webhook)
        pipe.delete(*(project_key(project, name) for name in names))
        if not pipe.execute()[0]:
            raise _no_webhook(webhook)

    def webhooks(self, project: str) -> list[Webhook]:
        """The project's webhooks, the oldest first."""
        ids = [each.decode() for each in self.store.redis.zrange(project_key(project, "webhooks"), 0, -1)]
        pipe = self.store.redis.pipeline(transaction=False)
        for each in ids:
            pipe.hgetall(project_key(project, f"webhook:{each}"))
        return [_webhook(each, _texts(fields)) for each, fields in zip(ids, pipe.execute(), strict=True) if fields]

    def webhook(self, project: str, webhook: str) -> Webhook:
        """One webhook; raises NotFound."""
        return _webhook(webhook, self._fields(project, webhook))

    def destination(self, project: str, webhook: str) -> Destination:
        """Where its deliveries go, and the secrets that sign them now; raises NotFound."""
        fields, now = self._fields(project, webhook), self.store.now_ms()
        known = [Secret(**each) for each in orjson.loads(fields["secrets"])]
        secrets = tuple(secret for secret in known if secret.until_ms is None or secret.until_ms > now)
        return Destination(fields["url"], "slack" if fields["format"] == "slack" else "standard", secrets)

    def _fields(self, project: str, webhook: str) -> dict[str, str]:
        fields = _texts(self.store.redis.hgetall(project_key(project, f"webhook:{webhook}")))
        if "url" not in fields:
            raise _no_webhook(webhook)
        return fields

    # --- notices ----------------------------------------------------------------------------------------------

    def tell(self, notice: Notice, *, email: bool = False, only: str = "") -> dict[str, str] | None:
        """Keep a notice and a delivery of it for each webhook that wants its kind; returns the deliveries by webhook.

        None: it was kept before, or is no alert and nobody wants it. ``email``: the operator gets mail. ``only``: it is
        for this webhook alone.
        """
        project = notice.project
        if email:
            self.store.redis.sadd("ra:outboxes", project)
        keys = [project_key(project, name) for name in (f"notice:{notice.id}", "notices", "webhooks")]
        arguments = [
            *(project_key(project, ""), notice.id, notice.model_dump_json(exclude_none=True), notice.kind),
            *(int(notice.kind in OPT_IN), only, int(email)),
            *(NOTICES_KEPT_S, MOST_KEPT_NOTICES, DELIVERIES_KEPT_S),
        ]
        pairs = self.store.run("tell", keys, arguments)
        if pairs is None:
            return None
        return {webhook.decode(): delivery.decode() for webhook, delivery in zip(pairs[::2], pairs[1::2], strict=True)}

    def notices(self, project: str, *, kind: NoticeKind | None, cursor: str | None, limit: int) -> NoticePage:
        """Notices, newest first. With ``kind`` a page looks at so many at the most, so it may hold fewer."""
        most = limit if kind is None else max(limit, _LOOKED_AT)
        ids, more = self._newest(project_key(project, "notices"), cursor, most)
        kept = self.store.redis.mget([project_key(project, f"notice:{each}") for each in ids]) if ids else []
        shown: list[Notice] = []
        looked_at = 0
        for document in kept:
            looked_at += 1
            notice = Notice.model_validate_json(document) if document else None
            if notice and kind in (None, notice.kind):
                shown.append(notice)
            if len(shown) == limit:
                break
        return NoticePage(alerts=tuple(shown), next=ids[looked_at - 1] if more or looked_at < len(ids) else None)

    # --- deliveries -------------------------------------------------------------------------------------------

    def take(self, project: str, webhook: str, token: str, *, most_tries: int) -> Taken | None:
        """What a webhook has to get now, leased to the holder of ``token``; None where there is nothing for it to do."""
        keys = [project_key(project, f"webhook:{webhook}"), project_key(project, f"queue:{webhook}")]
        taken = self.store.run("take_delivery", keys, [project_key(project, ""), token, LEASE_MS, most_tries])
        if not taken:
            return None
        delivery, *rest = taken
        fields = _texts(dict(zip(rest[::2], rest[1::2], strict=True)))
        return Taken(delivery.decode(), Notice.model_validate_json(fields["notice"]), int(fields["tries"]))

    def release(self, project: str, webhook: str, token: str) -> None:
        """Let another worker go on with a webhook."""
        self.store.run("release_webhook", [project_key(project, f"webhook:{webhook}")], [token])

    def settle(
        self,
        project: str,
        webhook: str,
        token: str,
        delivery: str,
        outcome: Outcome,
        *,
        status: int | None,
        error: str,
        wait_s: float,
        most_tries: int,
    ) -> str:
        """Write down what became of a try: ``stale``, ``delivered``, ``waiting``, ``failed`` or ``disabled``."""
        keys = [
            project_key(project, name) for name in (f"webhook:{webhook}", f"queue:{webhook}", f"delivery:{delivery}")
        ]
        arguments = [delivery, token, outcome, status or "", error, int(wait_s * 1000), most_tries]
        return str(self.store.run("settle_delivery", keys, arguments).decode())

    def due(self) -> Iterator[tuple[str, str]]:
        """Each (project, webhook) that has something to get now, unless it was named a moment ago."""
        redis, now = self.store.redis, self.store.now_ms()
        for project in sorted(each.decode() for each in redis.smembers("ra:outboxes")):
            ids = [*(each.decode() for each in redis.zrange(project_key(project, "webhooks"), 0, -1)), EMAIL]
            pipe = redis.pipeline(transaction=False)
            for each in ids:
                pipe.zcount(project_key(project, f"queue:{each}"), "-inf", now)
                pipe.hget(project_key(project, f"webhook:{each}"), "enabled")
            found = pipe.execute()
            for each, waiting, enabled in zip(ids, found[::2], found[1::2], strict=True):
                woken = project_key(project, f"woken:{each}")
                if waiting and enabled == b"1" and redis.set(woken, 1, nx=True, px=PATIENCE_MS):
                    yield project, each

    def deliveries(self, project: str, webhook: str, *, cursor: str | None, limit: int) -> DeliveryPage:
        """A webhook's deliveries, newest first; raises NotFound."""
        self._fields(project, webhook)
        ids, more = self._newest(project_key(project, f"deliveries:{webhook}"), cursor, limit)
        return DeliveryPage(deliveries=tuple(self._read(project, ids)), next=ids[-1] if more else None)

    def failed_since(self, project: str, webhook: str, since: datetime) -> list[str]:
        """The deliveries of a webhook that failed for good, of those made since then, the oldest first; raises NotFound."""
        self._fields(project, webhook)
        least = int(since.timestamp() * 1000)
        ids = self.store.redis.zrangebyscore(project_key(project, f"deliveries:{webhook}"), least, "+inf")
        found = self._read(project, [each.decode() for each in ids])
        return [delivery.id for delivery in found if delivery.status == "failed"]

    def replay(self, project: str, webhook: str, deliveries: Sequence[str]) -> list[str]:
        """Try deliveries again from the beginning; returns those that are still kept. Raises NotFound."""
        self._fields(project, webhook)
        names = (f"queue:{webhook}", f"deliveries:{webhook}", *(f"delivery:{each}" for each in deliveries))
        keys = [project_key(project, name) for name in names]
        return [each.decode() for each in self.store.run("replay_delivery", keys, [DELIVERIES_KEPT_S, *deliveries])]

    def _read(self, project: str, ids: list[str]) -> list[Delivery]:
        pipe = self.store.redis.pipeline(transaction=False)
        for each in ids:
            pipe.hgetall(project_key(project, f"delivery:{each}"))
        found = zip(ids, map(_texts, pipe.execute()), strict=True)
        return [_delivery(each, fields) for each, fields in found if "notice" in fields]

    def _newest(self, key: str, cursor: str | None, limit: int) -> tuple[list[str], bool]:
        """So many ids after the one of the cursor, newest first, and whether there are more."""
        first = 0
        if cursor is not None:
            rank = self.store.redis.zrevrank(key, cursor)
            if rank is None:
                raise BadInput(f"cursor {cursor[:40]!r} is not one that a page gave")
            first = rank + 1
        ids = [each.decode() for each in self.store.redis.zrevrange(key, first, first + limit)]
        return ids[:limit], len(ids) > limit


def _listed(kinds: tuple[NoticeKind, ...]) -> str:
    return f",{','.join(kinds)},"


def _texts(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in fields.items()}


def _time(milliseconds: str | None) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC).isoformat(timespec="milliseconds")


def _last(fields: Mapping[str, str]) -> dict[str, Any]:
    status = fields.get("last_status")
    return {
        "created_at": _time(fields["created_ms"]),
        "last_at": _time(fields.get("last_ms")),
        "last_status": int(status) if status else None,
        "last_error": fields.get("last_error") or None,
    }


def _webhook(webhook: str, fields: Mapping[str, str]) -> Webhook:
    return Webhook.model_validate(
        {
            "id": webhook,
            "url": shown_url(fields["url"], fields["format"]),
            "kinds": tuple(filter(None, fields["kinds"].split(","))),
            "format": fields["format"],
            "enabled": fields["enabled"] == "1",
            "failures": int(fields.get("failures", 0)),
            "disabled_because": fields.get("disabled") or None,
            **_last(fields),
        }
    )


def _delivery(delivery: str, fields: Mapping[str, str]) -> Delivery:
    notice = Notice.model_validate_json(fields["notice"])
    return Delivery.model_validate(
        {
            "id": delivery,
            "webhook": fields["webhook"],
            "notice": notice.id,
            "kind": notice.kind,
            "status": fields["status"],
            "tries": int(fields["tries"]),
            "next_at": _time(fields["next_ms"]) if fields["status"] == "waiting" else None,
            **_last(fields),
        }
    )


def shown_url(url: str, form: str) -> str:
    """An address without what may be a secret in it: its query, and of Slack's, which is nothing but a secret, the path."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return f"{origin}/..." if form == "slack" else f"{origin}{parts.path}{'?...' if parts.query else ''}"


def _no_webhook(webhook: str) -> NotFound:
    return NotFound(f"there is no webhook {webhook[:60]!r}", hint="list them: GET /v1/webhooks")
