"""Datasets in Redis: the rows of each version in compressed blocks.

The keys of a project are ``ra:{datasets}:names`` in ``default``, ``versions:<name>`` (digest -> record),
``rows:<name>:<digest>`` (number -> block of canonical JSON Lines, ``first`` -> the number of the first row of each), and
``new:<id>``, rows that are still being written.
"""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import orjson
import zstandard

from ragassay.core.errors import NotFound
from ragassay.datasets.versions import DatasetStore, DatasetVersion, MakeVersion
from ragassay.service.redis import WRITTEN_WITHIN_S, RedisStore

BLOCK = 256 * 1024  # bytes of rows that are compressed together; a longer row has a block of its own
LARGEST_PAGE = 4 * 1024 * 1024


class Place(NamedTuple):
    """Which Redis, and whose datasets in it."""

    url: str
    project: str | None


class RedisDatasets(DatasetStore):
    """Datasets of the project of a ``RedisStore``, beside its jobs. No row is kept in memory beyond its block."""

    _if_damaged = "upload the rows again"

    def __init__(self, store: RedisStore) -> None:
        self._store = store

    def __eq__(self, other: object) -> bool:
        """Are they the same datasets?"""
        return isinstance(other, RedisDatasets) and self.place == other.place

    def __hash__(self) -> int:
        """What is read of a store is remembered by it."""
        return hash(self.place)

    @property
    def place(self) -> Place:
        """From where another process opens them."""
        return Place(self._store.url, self._store.project)

    def names(self) -> list[str]:
        """The names that have a version, sorted."""
        return self.names_after(None)

    def names_after(self, name: str | None, limit: int = -1) -> list[str]:
        """Names that come after one in their order; -1: all of them."""
        after = "-" if name is None else f"({name}"
        found = self._store.redis.zrangebylex(self._key("names"), after, "+", start=0, num=limit)
        return [each.decode() for each in found]

    def _records(self, name: str) -> list[bytes]:
        return list(self._store.redis.hvals(self._key(f"versions:{name}")))

    def page(self, version: DatasetVersion, first: int, limit: int) -> list[bytes]:
        """Rows from a place on as canonical JSON: ``limit`` of them, or one and as many as fit into 4 MB with it."""
        page, size = list[bytes](), 0
        for line in islice(self._lines(version, first), limit):
            size += len(line)
            if page and size > LARGEST_PAGE:
                break
            page.append(line.rstrip())
        return page

    def _keep(self, name: str, lines: Iterable[bytes], make_version: MakeVersion) -> DatasetVersion:
        """Keep lines and their version; no other process sees any of them before all are there."""
        new = self._key(f"new:{uuid.uuid4().hex}")
        try:
            digest, rows = self._write(new, lines)
            version = make_version(digest, rows)
            pipe = self._store.redis.pipeline(transaction=True)
            pipe.rename(new, self._rows_key(version))
            pipe.persist(self._rows_key(version))
            pipe.hset(self._key(f"versions:{name}"), digest, version.model_dump_json())
            pipe.zadd(self._key("names"), {name: 0})
            pipe.execute()
        except BaseException:
            with suppress(Exception):  # they go by themselves later
                self._store.redis.unlink(new)
            raise
        return version

    def delete(self, version: DatasetVersion) -> None:
        """Forget a version and its rows; raises NotFound."""
        versions = self._key(f"versions:{version.name}")

        def step(pipe: Any) -> bool:
            digests = pipe.hkeys(versions)
            pipe.multi()
            if there := version.digest.encode() in digests:
                pipe.hdel(versions, version.digest)
                pipe.unlink(self._rows_key(version))
                if len(digests) == 1:
                    pipe.zrem(self._key("names"), version.name)
            return there

        if not self._store.redis.transaction(step, versions, value_from_callable=True):
            raise _gone(version)

    def _rows_key(self, version: DatasetVersion) -> str:
        return self._key(f"rows:{version.name}:{version.digest}")

    def _key(self, name: str) -> str:
        return self._store.of_project(f"{{datasets}}:{name}")

    def _write(self, key: str, lines: Iterable[bytes]) -> tuple[str, int]:
        """Write the blocks of the rows; returns their digest and number."""
        digest, rows, size = hashlib.sha256(), 0, 0
        firsts, block = [0], list[bytes]()

        def write() -> None:
            pipe = self._store.redis.pipeline(transaction=True)
            pipe.hset(key, str(len(firsts) - 1), zstandard.compress(b"".join(block)))
            pipe.expire(key, WRITTEN_WITHIN_S)
            pipe.execute()

        for line in lines:
            if block and size + len(line) > BLOCK:
                write()
                firsts.append(rows)
                block, size = [], 0
            digest.update(line)
            block.append(line)
            rows, size = rows + 1, size + len(line)
        if block:
            write()
            self._store.redis.hset(key, "first", orjson.dumps(firsts))
        return digest.hexdigest(), rows

    def _lines(self, version: DatasetVersion, first: int = 0) -> Iterator[bytes]:
        """The lines of the rows from a place on; raises NotFound where they are gone."""
        redis, key = self._store.redis, self._rows_key(version)
        starts: list[int] = orjson.loads(redis.hget(key, "first") or b"[0]")
        begin = bisect_right(starts, first) - 1
        for number in range(begin, len(starts)):
            packed = redis.hget(key, str(number))
            if packed is None:
                raise _gone(version)
            lines = zstandard.decompress(packed).splitlines(keepends=True)
            yield from lines[first - starts[number] :] if number == begin else lines


def _gone(version: DatasetVersion) -> NotFound:
    return NotFound(f"{version.reference} was deleted", hint="list what there is: GET /v1/datasets")
