"""The calls of a job's chunk in Redis: paid once, and within the job's budget whatever many workers make them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import orjson
import zstandard

from ragassay import telemetry
from ragassay.errors import BudgetReached
from ragassay.ledger import RAISE_IT, ScopedLedger, ends, of_unknown_price, paid
from ragassay.models import Usage
from ragassay.protocols import Call, Purpose, Reply, digest
from ragassay.specification import Budget
from ragassay.store.counters import KEY as COUNTERS
from ragassay.store.counters import MOST_COUNTERS
from ragassay.store.job_state import Claim
from ragassay.store.project_budgets import ProjectBudgets
from ragassay.store.protocol import ChunkId
from ragassay.store.redis import RedisStore

CACHE_KEPT_S = 30 * 86_400
MOST_LEASES = 20  # asked for in a row, where workers of the job or its resumption interfere
OPEN = b"?"  # how the mark of a call begins that has no reply yet


class RedisLedger:
    """The calls of one chunk of a job; a settled one is returned, never paid again, however often the chunk is run.

    The job's budget holds over all workers: a call is let through only if the most that it may take still fits beside
    what is spent and what is reserved by calls in flight. So does its project's, of which the job leases a block at a time.
    """

    def __init__(self, store: RedisStore, claim: Claim, *, cache: bool) -> None:
        self._store, self._claim, self._cache = store, claim, cache
        self._budgets = ProjectBudgets(store)
        self._calls = store.key(claim.job, f"calls:{claim}")
        self._meta = store.key(claim.job, "meta")
        self._open: dict[str, Usage] = {}
        self._lost: Counter[str] = Counter()  # attempts of a call that may have been paid
        self._until = 0.0

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """The settled reply, else an earlier job's as a cache hit, else None and the right to call.

        Asked again for an open call, the attempt before counts as paid. Raises CancelledError when the job was cancelled
        or its chunk given to somebody else: no further call is made. Raises BudgetReached.
        """
        again = call.id in self._open
        self._lost[call.id] += again
        answer = self._ask(call, estimate)
        if answer is None:
            self._open[call.id] = estimate
        elif answer not in _NO:
            return _reply(answer)
        elif answer == b"!":
            self._lost[call.id] -= again  # what it reserved is open still
        else:
            self._open.pop(call.id, None)  # that is spent now
        if answer != b"!" and not self._lost[call.id] and (hit := self._cached(call)):
            telemetry.count("cache_hits")
            self._close(call, hit, _blob(hit, call), spent=Usage())
            return hit
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

    def _ask(self, call: Call, estimate: Usage) -> bytes | None:
        """What the script says, with more of the project's budget leased where that is needed and there is some."""
        answer = self._ask_once(call, estimate)
        for _ in range(MOST_LEASES):
            if answer != b"l":
                return answer
            if refused := self._budgets.lease(self._claim.job, estimate.cost_usd or 0.0):
                return refused
            answer = self._ask_once(call, estimate)
        return b"~" if answer == b"l" else answer

    def _ask_once(self, call: Call, estimate: Usage) -> bytes | None:
        keys = [self._calls, self._meta, self._store.key(self._claim.job, "owner"), COUNTERS]
        usd, tokens = _amounts(estimate)
        wanted = ["" if estimate.cost_usd is None else usd, tokens]
        arguments = [call.id, self._claim.token, str(self._claim), self._lost[call.id], *wanted]
        answer: bytes | None = self._store.run("reserve", keys, arguments)
        return answer

    async def _wait(self, call: Call, estimate: Usage) -> bytes | None:
        """Ask until calls in flight have left what they don't need; as long as calls of a worker that died may stand."""
        patience_s = 3 * self._store.lease_ms / 1000
        if time.monotonic() > self._until:
            self._until = time.monotonic() + patience_s  # one patience for all that wait at the same time
        answer: bytes | None = b"~"
        while answer == b"~" and time.monotonic() < self._until:
            await asyncio.sleep(0.1)
            answer = self._ask(call, estimate)
        return answer

    def _cached(self, call: Call) -> Reply | None:
        cached = self._store.redis.get(self._of_cache(call)) if self._cache else None
        job, _, blob = cached.partition(b"\0") if cached else (b"", b"", b"")
        if not blob or job.decode() == self._claim.job:
            return None
        reply = _reply(blob)
        bill = reply.usage if call.purpose == "answer" else Usage()  # what the answer takes of the system under test
        return reply.model_copy(
            update={"usage": bill.model_copy(update={"calls": 0, "cache_hits": 1}), "waste": Usage()}
        )

    def _reached(self, estimate: Usage) -> str:
        fields = ("most_usd", "most_tokens", "spent_usd", "spent_tokens")
        meta = self._store.redis.hmget(self._meta, fields)
        usd, tokens, cost, taken = (float(v or 0) for v in meta)
        budget = Budget(usd=usd or None, tokens=int(tokens) or None)
        spent = Usage(cost_usd=max(cost, 0.0), input_tokens=max(round(taken), 0))
        if over := budget.over(spent, estimate):
            return over
        of_project = self._budgets.reached(self._claim.job)
        return of_project or "the budget is reached: calls in flight may take what is left of it"

    def settled(self, ids: Sequence[str]) -> tuple[int, Reply] | None:
        """The first of these calls that is settled: its place among them, and its reply."""
        for place, blob in enumerate(self._store.redis.hmget(self._calls, ids)):
            if blob is not None and not blob.startswith(OPEN):
                return place, _reply(blob)
        return None

    async def settle(self, call: Call, reply: Reply) -> None:
        """Keep the reply for this job, and for later ones unless an earlier one is known."""
        self._close(call, reply, _blob(reply, call))
        if self._cache and not reply.usage.cache_hits:
            known = self._claim.job.encode() + b"\0" + _blob(reply)
            self._store.redis.set(self._of_cache(call), known, nx=True, ex=CACHE_KEPT_S)

    def _of_cache(self, call: Call) -> str:
        """Where later jobs of the same project find a call; another's would learn that it was made."""
        return self._store.of_project(f"cache:{call.content}")

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:  # noqa: ARG002 - it is paid or not, whoever refused
        """The call came to nothing; the mark that it is open goes, what it may have cost is counted."""
        self._close(call, Reply(text="", waste=spent), b"", untold=not ends(spent))

    def _close(
        self, call: Call, reply: Reply, blob: bytes, spent: Usage | None = None, *, untold: bool = False
    ) -> None:
        """``untold``: attempts before that may have been paid are still to be told of, by the call's next end."""
        counted = telemetry.take_counted() if call.id in self._open else {}  # else the script would not count them
        estimate = self._open.pop(call.id, Usage())
        lost = self._lost[call.id] if untold else self._lost.pop(call.id, 0)
        spent = paid(reply, estimate, lost=lost) if spent is None else spent
        amounts = [*_amounts(spent), reply.waste.uncertain_calls, self._claim.token]
        more = [orjson.dumps(counted), MOST_COUNTERS, lost * untold]
        self._store.run("settle", [self._calls, self._meta, COUNTERS], [call.id, blob, *amounts, *more])


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


_NO = (b"!", b"~", b"$", b"u", b"U")


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
