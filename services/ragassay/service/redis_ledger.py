"""The calls of a job's chunk in Redis: paid once, and within the job's budget whatever many workers make them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import orjson
import zstandard
from redis.exceptions import ResponseError

from ragassay.core import telemetry
from ragassay.core.errors import BudgetReached
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Purpose, Reply, digest
from ragassay.core.report import DEFAULT_PROJECT
from ragassay.core.specification import Budget
from ragassay.llm.journal import RAISE_IT, SHARED, ScopedLedger, ends, of_unknown_price, paid
from ragassay.service.counters import KEY as COUNTERS
from ragassay.service.counters import MOST_COUNTERS
from ragassay.service.job_state import Claim
from ragassay.service.project_budgets import KEPT_S, ProjectBudgets, account_key, cap_key, estimated_part
from ragassay.service.redis import RedisStore
from ragassay.service.redis_errors import refuses_writes
from ragassay.storage.protocol import ChunkId

CACHE_KEPT_S = 30 * 86_400
_AGAIN_S, _WRITE_AGAIN_S = 0.1, 0.5
OPEN = b"?"  # how the mark of a call begins that has no reply yet


class RedisLedger:
    """The calls of one chunk of a job; a settled one is returned, never paid again, however often the chunk is run.

    The job's budget, and its project's for the month, hold over all workers: a call is let through only if the most that
    it may take still fits beside what is spent and what is reserved by calls in flight. Two calls of a job's judge with
    the same content are paid once: the second waits for the reply to the first, and has it as a cache hit.

    While Redis refuses to write a reply - it is full, say - that reply is kept here and no further call is let through.
    """

    def __init__(self, store: RedisStore, claim: Claim, *, cache: bool) -> None:
        self._store, self._claim, self._cache = store, claim, cache
        self._calls = store.key(claim.job, f"calls:{claim}")
        self._meta, self._dead = store.key(claim.job, "meta"), store.key(claim.job, "dead")
        self._owner, self._contents = store.key(claim.job, "owner"), store.key(claim.job, "contents")
        self._open: dict[str, Usage] = {}
        self._lost: Counter[str] = Counter()  # attempts of a call with an unknown outcome, which are booked
        self._until = 0.0
        self._refused = 0  # replies that Redis has not taken yet

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """The settled reply, else an earlier job's as a cache hit, else None and the right to call.

        Asked again for an open call, the attempt before counts as paid. Raises CancelledError when the job was cancelled
        or its chunk given to another worker: no further call is made. Raises BudgetReached.
        """
        while self._refused:
            await asyncio.sleep(_AGAIN_S)
        again = call.id in self._open
        self._lost[call.id] += again
        answer = await self._ask(call, estimate)
        if answer is None:
            self._open[call.id] = estimate
        elif answer[:1] not in _NO:
            return _reply(answer)
        elif answer == b"!":
            self._lost[call.id] -= again  # what it reserved is open still
        else:
            self._open.pop(call.id, None)  # that is spent now
        if answer and answer[:1] == b"@":
            return await self._hit(call, _reply(answer[1:]))
        if answer != b"!" and not self._lost[call.id] and (cached := self._cached(call)):
            telemetry.count("cache_hits")
            return await self._hit(call, cached)
        if answer == b"~":
            answer = await self._wait(call, estimate)
        if answer == b"!":
            raise asyncio.CancelledError
        if answer == b"u":
            raise BudgetReached(of_unknown_price().message, hint="resume with a budget in tokens")
        if answer == b"U":
            what = "the budget of the project can't be kept: the model has no price"
            raise BudgetReached(what, hint="give it one (prices)")
        if answer is not None:
            raise BudgetReached(self._reached(estimate), hint=RAISE_IT)
        self._open[call.id] = estimate
        return None

    async def _ask(self, call: Call, estimate: Usage) -> bytes | None:
        """What the script says, once no other call with the same content is in flight."""
        project = self._store.project or DEFAULT_PROJECT
        keys = [self._calls, self._meta, self._owner, COUNTERS, cap_key(project), account_key(project), self._contents]
        usd, tokens = _amounts(estimate)
        wanted = ["" if estimate.cost_usd is None else usd, tokens]
        content = call.content if call.purpose in SHARED else ""
        about = [call.id, self._claim.token, str(self._claim), self._lost[call.id], *wanted, content, KEPT_S]
        answer: bytes | None = self._store.run("reserve", keys, about)
        while answer == b"=":
            await asyncio.sleep(_AGAIN_S)
            answer = self._store.run("reserve", keys, about)
        return answer

    async def _hit(self, call: Call, reply: Reply) -> Reply:
        """Keep a reply that is paid already as this call's."""
        bill = reply.usage if call.purpose == "answer" else Usage()  # what the answer takes of the system under test
        usage = bill.model_copy(update={"calls": 0, "cache_hits": 1})
        hit = reply.model_copy(update={"usage": usage, "waste": Usage()})
        await self._keep(call, hit, Usage())
        return hit

    async def _wait(self, call: Call, estimate: Usage) -> bytes | None:
        """Ask until calls in flight have left what they don't need; as long as calls of a worker that died may stand."""
        patience_s = 3 * self._store.lease_ms / 1000
        if time.monotonic() > self._until:
            self._until = time.monotonic() + patience_s  # one patience for all that wait at the same time
        answer: bytes | None = b"~"
        while answer == b"~" and time.monotonic() < self._until:
            await asyncio.sleep(_AGAIN_S)
            answer = await self._ask(call, estimate)
        return answer

    def _cached(self, call: Call) -> Reply | None:
        cached = self._store.redis.get(self._of_cache(call)) if self._cache else None
        job, _, blob = cached.partition(b"\0") if cached else (b"", b"", b"")
        return None if not blob or job.decode() == self._claim.job else _reply(blob)

    def _reached(self, estimate: Usage) -> str:
        fields = ("most_usd", "most_tokens", "spent_usd", "spent_tokens", "unknown_usd")
        meta = self._store.redis.hmget(self._meta, fields)
        usd, tokens, cost, taken, unknown = (float(v or 0) for v in meta)
        budget = Budget(usd=usd or None, tokens=int(tokens) or None)
        spent = Usage(cost_usd=max(cost, 0.0), input_tokens=max(round(taken), 0))
        if over := budget.over(spent, estimate):
            return over + (estimated_part(unknown) if usd else "")
        of_project = ProjectBudgets(self._store).reached(self._store.project or DEFAULT_PROJECT, estimate.cost_usd or 0)
        return of_project or "the budget is reached: calls in flight may take what is left of it"

    def settled(self, ids: Sequence[str]) -> tuple[int, Reply] | None:
        """The first of these calls that is settled: its place among them, and its reply."""
        for place, blob in enumerate(self._store.redis.hmget(self._calls, ids)):
            if blob is not None and not blob.startswith(OPEN):
                return place, _reply(blob)
        return None

    async def settle(self, call: Call, reply: Reply) -> None:
        """Keep the reply for this job, and for later ones unless an earlier one is known; waits while Redis is full."""
        await self._keep(call, reply)
        if self._cache and not (reply.usage.cache_hits or reply.unreadable):
            known = self._claim.job.encode() + b"\0" + _blob(reply)
            try:
                self._store.redis.set(self._of_cache(call), known, nx=True, ex=CACHE_KEPT_S)
            except ResponseError as error:  # the reply is kept for this job, which is what counts
                if not refuses_writes(error):
                    raise

    async def _keep(self, call: Call, reply: Reply, spent: Usage | None = None) -> None:
        closing = self._closing(call, reply, _blob(reply, call), spent)
        if self._is_taken(closing):
            return
        self._refused += 1
        try:
            while not self._is_taken(closing):
                await asyncio.sleep(_WRITE_AGAIN_S)
        finally:
            self._refused -= 1

    def _is_taken(self, closing: tuple[list[str], list[object]]) -> bool:
        """End a call; False where Redis refuses to write now."""
        try:
            self._store.run("settle", *closing)
        except ResponseError as error:
            if not refuses_writes(error):
                raise
            return False
        return True

    def _of_cache(self, call: Call) -> str:
        """Where later jobs of the same project find a call; another's would learn that it was made."""
        return self._store.of_project(f"cache:{call.content}")

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:  # noqa: ARG002 - it is paid or not, whoever refused
        """The call came to nothing; the mark that it is open goes, what it may have cost is counted."""
        self._store.run("settle", *self._closing(call, Reply(text="", waste=spent), b"", ended=ends(spent)))

    def _closing(
        self, call: Call, reply: Reply, blob: bytes, spent: Usage | None = None, *, ended: bool = True
    ) -> tuple[list[str], list[object]]:
        """Keys and arguments of the script that ends a call, or with ``ended`` False an attempt of it."""
        counted = telemetry.take_counted() if call.id in self._open else {}  # else the script would not count them
        estimate = self._open.pop(call.id, Usage())
        lost = self._lost.pop(call.id, 0) if ended else self._lost[call.id]
        spent = paid(reply, estimate, lost=lost) if spent is None else spent
        uncertain = max(reply.waste.uncertain_calls - lost, 0)
        unknown_usd = uncertain * (estimate.cost_usd or 0.0)
        books = [*_amounts(spent), uncertain, unknown_usd or 0, self._claim.token]
        keys = [self._calls, self._meta, COUNTERS, self._dead]
        return keys, [call.id, blob, *books, orjson.dumps(counted), MOST_COUNTERS, str(self._claim)]


class RetryLedger(ScopedLedger):
    """The calls about rows of a chunk that are tried again, for the ``number``th time: apart from those of the times before.

    A reply that was settled then is used, and adds nothing to what the row has spent: its result has that. ``unread`` are
    queries whose replies were no verdict; they are asked again, whatever a cache knows. An answer is asked for once.
    """

    def __init__(self, ledger: RedisLedger, number: int, unread: Iterable[str]) -> None:
        super().__init__(ledger, f"retry {number}")
        self._settled, self._number, self._unread = ledger.settled, number, frozenset(unread)

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """The reply of this time or of one before, else as the ledger below."""
        if not self._is_asked_anew(call):
            before = [f"retry {number}/{call.id}" for number in range(self._number - 1, 0, -1)]
            if found := self._settled([self._scoped(call).id, *before, call.id]):
                place, reply = found
                counted = place == 0 or call.purpose == "answer"  # what an answer took is in no row's evaluation
                return reply if counted else reply.model_copy(update={"usage": Usage(), "waste": Usage()})
        return await super().reserve(call, estimate)

    def _is_asked_anew(self, call: Call) -> bool:
        return call.query_id in self._unread and call.purpose != "answer"

    def _scoped(self, call: Call) -> Call:
        scoped = super()._scoped(call)
        if not self._is_asked_anew(call):
            return scoped
        return scoped.model_copy(update={"content": digest([scoped.id, call.content])})


_NO = (b"!", b"~", b"$", b"u", b"U", b"@")


def _amounts(usage: Usage) -> tuple[float, int]:
    return usage.cost_usd or 0.0, usage.input_tokens + usage.output_tokens


_ABOUT = ("query_id", "purpose")  # of the call, beside its reply where a job keeps it


def _blob(reply: Reply, call: Call | None = None) -> bytes:
    about = {name: getattr(call, name) for name in _ABOUT} if call else {}
    packed: bytes = zstandard.compress(orjson.dumps(reply.model_dump(mode="json", exclude_defaults=True) | about))
    return packed


def _reply(blob: bytes) -> Reply:
    return _told(blob)[1]


def _told(blob: bytes) -> tuple[dict[str, str], Reply]:
    """What the call of a reply was about, as far as it is kept, and the reply."""
    kept = orjson.loads(zstandard.decompress(blob))
    about = {name: kept.pop(name) for name in _ABOUT if name in kept}
    return about, Reply.model_validate(kept)


def calls_about(store: RedisStore, job: str, chunk: ChunkId, query_id: str) -> list[tuple[Purpose, Reply]]:
    """The settled calls of a chunk that are about a query; none from before calls told it, or where they are gone."""
    blobs: list[bytes] = store.redis.hvals(store.key(job, f"calls:{chunk}"))
    told = [_told(blob) for blob in blobs if not blob.startswith(OPEN)]
    return [(about["purpose"], reply) for about, reply in told if about.get("query_id") == query_id]  # type: ignore[misc]
