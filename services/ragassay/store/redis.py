"""The truth about jobs, in Redis, changed by Lua scripts only; a Celery message merely says that there may be work.

One hash tag per job, so that a job's keys share a slot: ``ra:{job}:meta todo lease owner dead done bells in:<n>
calls:<n> out:<n> report gates``. Times are milliseconds of the Redis server's own clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import zstandard

from ragassay.errors import BadInput, Conflict, NotFound, Unavailable
from ragassay.models import Budget, Result, Sample

MOST_DEATHS = 5
_LUA = Path(__file__).parent / "lua"
_DAY_S = 86_400
REPORT_KEPT_S, RESULTS_KEPT_S = 400 * _DAY_S, 30 * _DAY_S
IDEMPOTENCY_S, MAKING_S = _DAY_S, 60


@dataclass(frozen=True)
class Claim:
    """The right to work on one chunk of a job, until the lease runs out."""

    job: str
    chunk: str
    token: str


class RedisStore:
    """Jobs, chunks, results and reports. Every method may be called by many processes at once."""

    def __init__(self, url: str, *, lease_s: float = 60.0, patient: bool = True) -> None:
        self.url, self.lease_ms, self._patient = url, int(lease_s * 1000), patient

    @cached_property
    def redis(self) -> Any:  # its stubs mix sync and async answers
        """The connection; while Redis is away it tries for about ten seconds, or, if not ``patient``, for one.

        A worker had better wait, but who asks over HTTP should hear soon that there is nobody.
        """
        from redis import Redis
        from redis.backoff import EqualJitterBackoff
        from redis.exceptions import BusyLoadingError, ConnectionError, TimeoutError  # noqa: A004 - redis's names
        from redis.retry import Retry

        return Redis.from_url(
            self.url,
            socket_timeout=10 if self._patient else 3,
            socket_connect_timeout=3 if self._patient else 1,
            health_check_interval=15,
            retry=Retry(EqualJitterBackoff(cap=2, base=0.05), 9 if self._patient else 3),
            retry_on_error=[ConnectionError, TimeoutError, BusyLoadingError],
        )

    # --- jobs -------------------------------------------------------------------------------------------------

    def create(
        self,
        job: str,
        document: bytes,
        chunks: Mapping[str, Sequence[Sample]],
        *,
        created_ms: int,
        idempotency: tuple[str, str] | None = None,
        one_by_one: bool = False,
        budget: Budget | None = None,
    ) -> None:
        """Save a job with its input; it is visible only when all of it is there.

        ``one_by_one``: a chunk is given out only when none is being worked on.

        ``idempotency``, the key and the digest of its body, is kept with the job or not at all: a client that repeats
        itself after a crash finds the job.
        """
        pipe = self.redis.pipeline(transaction=True)
        for chunk, samples in chunks.items():
            pipe.set(
                self.key(job, f"in:{chunk}"),
                _pack([s.model_dump(mode="json", exclude_defaults=True) for s in samples]),
            )
        rows = sum(map(len, chunks.values()))
        pipe.delete(self.key(job, "todo"))  # this pipeline may be sent again after a lost answer
        pipe.rpush(self.key(job, "todo"), *chunks)
        pipe.hset(
            self.key(job, "meta"),
            mapping={
                "status": "queued",
                "document": document,
                "chunks": len(chunks),
                "rows": rows,
                "rows_done": 0,
                "rows_failed": 0,
                "created_ms": created_ms,
                "one_by_one": int(one_by_one),
                **_caps(budget or Budget()),
            },
        )
        pipe.zadd("ra:jobs", {job: created_ms})
        pipe.sadd("ra:active", job)
        if idempotency:
            key, digest = idempotency
            pipe.set(f"ra:idem:{key}", orjson.dumps([digest, job]), ex=IDEMPOTENCY_S)
        pipe.execute()

    def meta(self, job: str) -> dict[str, bytes]:
        """The job's record; raises NotFound."""
        found = self.redis.hgetall(self.key(job, "meta"))
        if not found:
            raise NotFound(f"there is no job {job!r}", hint="list them: GET /v1/jobs")
        return {name.decode(): value for name, value in found.items()}

    def jobs(self, *, before: str | None, limit: int) -> list[str]:
        """Ids, newest first, of the jobs that come after the job ``before`` in that order."""
        first = 0
        if before is not None:
            rank = self.redis.zrevrank("ra:jobs", before)
            if rank is None:
                raise BadInput(f"cursor {before[:40]!r} is not one that a page gave")
            first = rank + 1
        return [job.decode() for job in self.redis.zrevrange("ra:jobs", first, first + limit - 1)]

    def active(self) -> list[str]:
        """Jobs that are neither finished nor failed nor cancelled."""
        return sorted(job.decode() for job in self.redis.smembers("ra:active"))

    def turn(self, job: str, to: str, *allowed: str) -> str:
        """Change the status where it is one of ``allowed``; returns the one before. Raises NotFound."""
        before = self.run("turn", [self.key(job, "meta")], [to, *allowed])
        if before is None:
            raise NotFound(f"there is no job {job!r}", hint="list them: GET /v1/jobs")
        return str(before.decode())

    def close(self, job: str, chunks: Sequence[str]) -> None:
        """A job that has ended needs no sweeping; its input, calls and results are kept for a while, then let go."""
        pipe = self.redis.pipeline(transaction=True)
        pipe.srem("ra:active", job)
        pipe.delete(*(self.key(job, name) for name in ("todo", "lease", "owner", "dead", "bells")))
        for kind in ("in", "calls", "out"):
            for chunk in chunks:
                pipe.expire(self.key(job, f"{kind}:{chunk}"), RESULTS_KEPT_S)
        pipe.expire(self.key(job, "done"), RESULTS_KEPT_S)
        pipe.expire(self.key(job, "meta"), REPORT_KEPT_S)
        pipe.execute()

    def fail(self, job: str, error: str) -> None:
        """End a job that can't go on, and say why."""
        self.redis.hset(self.key(job, "meta"), "error", error)
        self.turn(job, "failed", "queued", "running", "paused", "finalizing")

    def pause(self, job: str, why: str, resumes: int) -> None:
        """No chunk is given out any more, until ``resume``; nothing where it came after the caller's claim."""
        self.run("pause", [self.key(job, "meta")], [why, resumes])

    def resumes(self, job: str) -> int:
        """How often the job was resumed."""
        return int(self.redis.hget(self.key(job, "meta"), "resumes") or 0)

    def resume(self, job: str, budget: Budget) -> str:
        """Go on with a paused job under a new budget; returns the status before. Raises NotFound."""
        caps = ["" if most is None else most for most in (budget.usd, budget.tokens)]
        before = self.run("resume", [self.key(job, "meta")], caps)
        if before is None:
            raise NotFound(f"there is no job {job!r}", hint="list them: GET /v1/jobs")
        return str(before.decode())

    # --- chunks -----------------------------------------------------------------------------------------------

    def claim(self, job: str) -> Claim | None:
        """The next chunk, or None when there is none to be had."""
        token = uuid.uuid4().hex
        keys = [self.key(job, name) for name in ("meta", "todo", "lease", "owner")]
        chunk = self.run("claim", keys, [token, self.lease_ms])
        return Claim(job, chunk.decode(), token) if chunk else None

    def renew(self, claim: Claim) -> bool:
        """Keep the lease for longer; False when the chunk is no longer ours or the job no longer wanted.

        True while Redis does not answer: then nobody else can take the chunk either, and the next renewal will tell.
        """
        from redis.exceptions import RedisError

        keys = [self.key(claim.job, name) for name in ("meta", "lease", "owner")]
        try:
            return bool(self.run("renew", keys, [claim.chunk, claim.token, self.lease_ms]))
        except RedisError:
            return True

    def commit(self, claim: Claim, results: Sequence[Result]) -> str:
        """Store the results once: ``kept``, ``last`` when the job is complete now, ``stale`` when the claim was lost."""
        names = ("meta", "lease", "owner", "done", f"out:{claim.chunk}")
        failed = sum(any(score.missing == "failed" for score in result.scores.values()) for result in results)
        blob = _pack([result.model_dump(mode="json", exclude_defaults=True) for result in results])
        arguments = [claim.chunk, claim.token, blob, len(results), failed]
        return str(self.run("commit", [self.key(claim.job, n) for n in names], arguments).decode())

    def give_back(self, claim: Claim, *, died: bool) -> None:
        """Return a chunk that could not be finished; ``died`` counts against it."""
        keys = [self.key(claim.job, name) for name in ("meta", "todo", "lease", "owner", "dead")]
        self.run("give_back", keys, [claim.chunk, claim.token, int(died)])

    def sweep(self, job: str) -> list[Claim]:
        """Take back chunks whose lease ran out; returns those that died too often, claimed for the caller."""
        token = uuid.uuid4().hex
        keys = [self.key(job, name) for name in ("meta", "todo", "lease", "owner", "dead")]
        hopeless = self.run("sweep", keys, [MOST_DEATHS, token, self.lease_ms])
        return [Claim(job, chunk.decode(), token) for chunk in hopeless]

    def samples(self, job: str, chunk: str) -> list[Sample]:
        """The input of a chunk."""
        return [Sample.model_validate(row) for row in _unpack(self.redis.get(self.key(job, f"in:{chunk}")), job, chunk)]

    def results(self, job: str, chunks: Sequence[str]) -> Iterator[Result]:
        """The committed results of the chunks, in order; a chunk without results is passed over."""
        for chunk in chunks:
            blob = self.redis.get(self.key(job, f"out:{chunk}"))
            if blob is not None:
                yield from map(Result.model_validate, _unpack(blob, job, chunk))

    # --- doorbells --------------------------------------------------------------------------------------------

    def due_bells(self, job: str, *, bells: int, patience_ms: int) -> list[tuple[int, str]]:
        """Doorbells to ring now, each with the nonce that its message must carry; they are marked as rung."""
        nonce = uuid.uuid4().hex
        keys = [self.key(job, name) for name in ("meta", "todo", "bells")]
        return [(int(bell), nonce) for bell in self.run("ring", keys, [bells, patience_ms, nonce])]

    def is_current(self, job: str, bell: int, nonce: str) -> bool:
        """Is this the latest ringing of the doorbell? An older message may work, but rings no more."""
        rung = self.redis.hget(self.key(job, "bells"), str(bell))
        return rung is not None and rung.decode().partition(":")[2] == nonce

    def hush(self, job: str, bell: int) -> None:
        """Forget that a doorbell was rung, so that it may be rung again at once."""
        self.redis.hdel(self.key(job, "bells"), str(bell))

    # --- reports ----------------------------------------------------------------------------------------------

    def save_report(self, job: str, report: bytes) -> None:
        """Keep the finished report. The first one stays: a finalize that was overtaken must not change what was read."""
        self.redis.set(self.key(job, "report"), zstandard.compress(report), ex=REPORT_KEPT_S, nx=True)

    def report(self, job: str) -> bytes:
        """The report's JSON; raises Conflict while there is none."""
        blob = self.redis.get(self.key(job, "report"))
        if blob is None:
            status = self.meta(job)["status"].decode()
            raise Conflict(f"job {job} is {status} and has no report", hint="follow it: GET /v1/jobs/" + job)
        return zstandard.decompress(blob)

    def save_gates(self, job: str, document: bytes, alerts: bytes) -> bool:
        """Keep what the gates say, and the alerts in the job's record; False where that was kept already."""
        pipe = self.redis.pipeline(transaction=True)
        pipe.set(self.key(job, "gates"), document, ex=REPORT_KEPT_S, nx=True)
        pipe.hsetnx(self.key(job, "meta"), "alerts", alerts)
        return bool(pipe.execute()[0])

    def gates(self, job: str) -> bytes | None:
        """What the gates of a job say, as JSON; empty where they could not be checked."""
        found: bytes | None = self.redis.get(self.key(job, "gates"))
        return found

    # --- submitting twice -------------------------------------------------------------------------------------

    def remember(self, key: str, body_digest: str) -> str | None:
        """Take an idempotency key: None when it is new, else the job that it made.

        Raises BadInput (422) when that job had another body, Conflict (409) while it is being made.
        """
        name = f"ra:idem:{key}"
        mine = orjson.dumps([body_digest, None, uuid.uuid4().hex])
        if self.redis.set(name, mine, nx=True, ex=MAKING_S):
            return None
        known = self.redis.get(name)
        if known == mine:  # taken by our first attempt, whose answer was lost
            return None
        digest, job = orjson.loads(known)[:2] if known else (body_digest, None)
        if digest != body_digest:
            raise BadInput("this Idempotency-Key was used with another body", hint="use a new key for a new job")
        if job is None:
            raise Conflict("a job with this Idempotency-Key is being made", hint="ask again in a second")
        return str(job)

    def forget(self, key: str) -> None:
        """The job could not be made; the key is free again."""
        self.redis.delete(f"ra:idem:{key}")

    # --- who is there -----------------------------------------------------------------------------------------

    def here(self, kind: str, name: str, *, for_s: int) -> None:
        """A worker or sweeper says that it lives."""
        self.redis.set(f"ra:alive:{kind}:{name}", "1", ex=for_s)

    def gone(self, kind: str, name: str) -> None:
        """It says that it ends."""
        self.redis.delete(f"ra:alive:{kind}:{name}")

    def alive(self, kind: str, host: str = "*") -> int:
        """How many of a kind live, everywhere or on one host."""
        return sum(1 for _ in self.redis.scan_iter(match=f"ra:alive:{kind}:{host}:*", count=1000))

    def check(self) -> list[str]:
        """What of Redis's configuration would lose jobs; raises Unavailable when it does not answer."""
        from redis.exceptions import RedisError

        try:
            memory, persistence = self.redis.info("memory"), self.redis.info("persistence")
        except RedisError as error:
            raise Unavailable(f"Redis does not answer ({error})", hint="check RAGASSAY_STATE_URL") from None
        troubles = []
        if memory.get("maxmemory_policy", "noeviction") != "noeviction":
            troubles.append(f"Redis evicts keys (maxmemory-policy {memory['maxmemory_policy']}): jobs can vanish")
        if not persistence.get("aof_enabled"):
            troubles.append("Redis keeps no append-only file: a restart loses jobs")
        limit = memory.get("maxmemory", 0)
        if limit and memory["used_memory"] > 0.7 * limit:
            troubles.append("Redis uses more than 70 % of its memory")
        return troubles

    def key(self, job: str, name: str) -> str:
        """The Redis key of one of a job's records."""
        return f"ra:{{{job}}}:{name}"

    @cached_property
    def _scripts(self) -> dict[str, Any]:
        return {path.stem: self.redis.register_script(path.read_text()) for path in _LUA.glob("*.lua")}

    def run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run one of the Lua scripts by its name."""
        return self._scripts[script](keys=keys, args=arguments)


def _caps(budget: Budget) -> dict[str, float]:
    caps = {"most_usd": budget.usd, "most_tokens": budget.tokens}
    return {name: most for name, most in caps.items() if most is not None}


def _pack(rows: Sequence[Any]) -> bytes:
    return zstandard.compress(orjson.dumps(rows))


def _unpack(blob: bytes | None, job: str, chunk: str) -> list[Any]:
    if blob is None:
        raise NotFound(
            f"chunk {chunk} of job {job} is gone from Redis", hint="its retention has passed, or keys were evicted"
        )
    rows: list[Any] = orjson.loads(zstandard.decompress(blob))
    return rows
