"""Idempotency keys of submitted jobs: the same body gives the same job, another body is refused."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import orjson
from redis import exceptions

from ragassay.errors import BadInput, Conflict

if TYPE_CHECKING:
    from ragassay.store.redis import RedisStore

THERE = "this job is there already"
MAKING_S = 60  # how long a key is taken while its job is being made


def key_name(store: RedisStore, key: str) -> str:
    """Where an idempotency key of the store's project is kept."""
    return store.of_project(f"idem:{key}")


def take_key(store: RedisStore, key: str, body_digest: str) -> str | None:
    """Take an idempotency key: None when it is new, else the job that it made.

    Raises BadInput (422) when that job had another body, Conflict (409) while it is being made.
    """
    name = key_name(store, key)
    mine = orjson.dumps([body_digest, None, uuid.uuid4().hex])
    if store.redis.set(name, mine, nx=True, ex=MAKING_S):
        return None
    known = store.redis.get(name)
    if known == mine:  # taken by our first attempt, whose answer was lost
        return None
    digest, job = orjson.loads(known)[:2] if known else (body_digest, None)
    if digest != body_digest:
        raise BadInput("this Idempotency-Key was used with another body", hint="use a new key for a new job")
    if job is None:
        raise Conflict("a job with this Idempotency-Key is being made", hint="ask again in a second")
    return str(job)


def free_key(store: RedisStore, key: str) -> None:
    """The job could not be made; the key may be used again."""
    store.redis.delete(key_name(store, key))


def begin_once(pipe: Any, key: str) -> None:
    """Begin a transaction that takes place only while ``key`` is absent; raises Conflict where it is there already."""
    pipe.watch(key)
    if pipe.exists(key):
        pipe.reset()
        raise Conflict(THERE)
    pipe.multi()


def execute_once(store: RedisStore, pipe: Any, key: str) -> None:
    """Execute a transaction; where ``begin_once`` began it, raises Conflict when ``key`` came meanwhile.

    Raises ConnectionError where the connection was lost: it may have taken place, and may be tried again.
    """
    try:
        pipe.execute()
    except exceptions.WatchError as error:  # which redis-py raises for a lost connection as well
        if store.redis.exists(key):
            raise Conflict(THERE) from None
        raise exceptions.ConnectionError(str(error)) from None
