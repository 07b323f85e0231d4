"""A job's keys in Redis and the scripts that change them, run alone: with the keys that the script's own head names."""

import json
import re
import struct
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import ragassay.service
from ragassay.service.job_state import TRANSITIONS
from ragassay.service.redis import RedisStore
from ragassay.storage.protocol import ChunkId

LUA = Path(ragassay.service.__file__).parent / "scripts"
LIFE = ("claim", "renew", "reserve", "settle", "commit", "release", "sweep", "transition")
HEADS = {
    name: re.search(r"^-- KEYS (.*?)(?:   ARGV|   ->|$)", (LUA / f"{name}.lua").read_text(), re.M) for name in LIFE
}
LEASE_MS = 60_000


class RawJob:
    """A running job of ``chunks`` chunks that nobody has claimed; ``about`` is more of its record."""

    def __init__(self, redis, chunks=3, *, id_=None, status="running", **about):
        self.redis, self.id, self.chunks = redis, id_ or uuid.uuid4().hex, [f"default:{n}" for n in range(chunks)]
        texts = {name: (LUA / f"{name}.lua").read_text() for name in ("functions", *LIFE)}
        self._scripts = {name: redis.register_script(texts["functions"] + texts[name]) for name in LIFE}
        record = {"status": status, "chunks": chunks, "rows_done": 0, "rows_failed": 0}
        redis.hset(self.key("meta"), mapping={**record, **about})
        redis.rpush(self.key("todo"), *self.chunks)

    def key(self, name):
        return f"ra:{{{self.id}}}:{name}"

    def run(self, script, *arguments, more=(), **names):
        """Run a script; ``names`` say which key it gets for one that its head has in a word, such as ``calls``."""
        head = HEADS[script].group(1).split()
        keys = [*(names.get(name, name) for name in head if not name.endswith("...")), *more]
        answer = self._scripts[script](keys=[self.key(name) for name in keys], args=arguments)
        return answer.decode() if isinstance(answer, bytes) else answer

    # --- the scripts, with what most calls of them say --------------------------------------------------------

    def claim(self, token, most=10**9, busy=()):
        """The chunk; ``more``: does its worker send the next message?"""
        chunk, self.more = self.run("claim", token, LEASE_MS, most, *busy) or (None, 0)
        return chunk and chunk.decode()

    def renew(self, chunk, token, lease_ms=LEASE_MS):
        return self.run("renew", chunk, token, lease_ms)

    def reserve(self, chunk, token, call="c", *, number=1, usd="0.5", tokens=100, content=""):
        """The answer in words, with the reply where there is one."""
        arguments = [call, f"{call}#{number}", token, chunk, usd, tokens, content, 1000]
        return " ".join(word.decode() for word in self.run("reserve", *arguments, calls=f"calls:{chunk}"))

    def settle(self, chunk, token, call="c", reply="reply", *, number=1, spent=("0.25", 60), unknown=0, **counted):
        books = [*spent, unknown, spent[0] if unknown else 0, json.dumps(counted), 2000]
        return self.run("settle", call, f"{call}#{number}", token, chunk, reply, *books, calls=f"calls:{chunk}")

    def commit(self, chunk, token, *, blob="results", rows=50, failed=0):
        """The one column has a number."""
        return self.run("commit", chunk, token, chunk, blob, rows, failed, chunk, "texts", 0, struct.pack("<d", 1))

    def release(self, chunk, token, why="", max_deaths=5):
        return self.run("release", chunk, token, "died" if why else "back", why, max_deaths, 0, 0)

    def wait(self, chunk, token, wait_ms=5000, give_up_ms=600_000, why="it is down"):
        return self.run("release", chunk, token, "wait", why, 5, wait_ms, give_up_ms)

    def sweep(self, token="sweeper", most_deaths=5):
        poisoned, _ = self.run("sweep", most_deaths, token, LEASE_MS)
        return [chunk.decode() for chunk in poisoned]

    def turn(self, to, *, guard=("", 0), told=(), **fields):
        """The status before, and whether it changed."""
        arguments = [
            to,
            f",{','.join(TRANSITIONS['transition'][to])},",
            *guard,
            json.dumps(fields),
            json.dumps(told),
            100,
            1000,
        ]
        before, changed = self.run("transition", *arguments, more=[f"calls:{chunk}" for chunk in self.chunks])
        return before.decode(), bool(changed)

    def retry(self, *chunks, rows=0, changed_ms=None):
        """``changed_ms``: when the caller saw that it had ended; by default it looks now."""
        store = RedisStore("redis://")
        store.redis, seen = self.redis, self.meta.get("changed_ms") if changed_ms is None else changed_ms
        record = SimpleNamespace(chunks=lambda: map(ChunkId.parse, self.chunks), systems={"default": None})
        return store.retry(self.id, record, list(map(ChunkId.parse, chunks)), rows=rows, changed_ms=seen)

    # --- what is there ----------------------------------------------------------------------------------------

    def expire(self, chunk):
        """What the time does to a chunk whose worker died."""
        self.redis.zadd(self.key("lease"), {chunk: 1}, xx=True)

    def probe_due(self):
        """What the time does to a job that waits for its provider."""
        self.redis.hset(self.key("meta"), "next_ms", int(time.time() * 1000) - 1)

    @property
    def meta(self):
        return {name.decode(): value.decode() for name, value in self.redis.hgetall(self.key("meta")).items()}

    @property
    def todo(self):
        return [chunk.decode() for chunk in self.redis.lrange(self.key("todo"), 0, -1)]

    @property
    def owner(self):
        return {chunk.decode(): token.decode() for chunk, token in self.redis.hgetall(self.key("owner")).items()}

    @property
    def leased(self):
        return {chunk.decode() for chunk in self.redis.zrange(self.key("lease"), 0, -1)}

    @property
    def done(self):
        return {chunk.decode() for chunk in self.redis.smembers(self.key("done"))}

    @property
    def counters(self):
        return {name.decode(): float(n) for name, n in self.redis.hgetall(self.key("counters")).items()}

    @property
    def books(self):
        """USD spent and reserved, tokens spent and reserved, calls in flight, calls that may have been paid."""
        names = ("spent_usd", "open_usd", "spent_tokens", "open_tokens", "in_flight", "uncertain_calls")
        return tuple(float(n or 0) for n in self.redis.hmget(self.key("meta"), names))

    @property
    def month(self):
        """USD spent and reserved on the project's account, and how much of the first has no bill."""
        return tuple(float(n or 0) for n in self.redis.hmget(self.key("month"), "spent_usd", "open_usd", "unknown_usd"))

    @property
    def everything(self):
        """All of its keys as they are."""
        return {key.decode(): self.redis.dump(key) for key in self.redis.scan_iter(self.key("*"))}
