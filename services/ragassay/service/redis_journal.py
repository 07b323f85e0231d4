"""The journal of a job's chunk in Redis: calls are paid once, and within the job's budget however many workers make them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import orjson
import zstandard
from redis.exceptions import ResponseError

from ragassay import observability
from ragassay.core.aio import to_its_end
from ragassay.core.errors import BudgetReached
from ragassay.core.eval_config import Budget
from ragassay.core.jobs import DEFAULT_PROJECT
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply, digest
from ragassay.llm.budget import RAISE_IT, of_unknown_price
from ragassay.llm.journal import SHARED, Reservation, StoredJournal, hit
from ragassay.service.connection import refuses_writes
from ragassay.service.counters import KEY as COUNTERS
from ragassay.service.counters import MAX_COUNTERS
from ragassay.service.job_state import Claim
from ragassay.service.project_budgets import KEPT_S, ProjectBudgets, account_key, cap_key, estimated_part
from ragassay.service.redis import RedisStore

CACHE_KEPT_S = 30 * 86_400
_AGAIN_S, _WRITE_AGAIN_S = 0.1, 0.5


@dataclass(frozen=True)
class Retry:
    """Rows of a chunk that are tried again, for the ``number``th time: their calls are apart from those before.

    A reply that was settled before is used, and adds nothing to what the row has spent: its result has that. ``unread``:
    queries without a verdict; calls about them are made again whose reply could not be read, whatever a cache has. So is
    an answer that is an error.
    """

    number: int
    unread: Collection[str]

    def scoped(self, call: Call, *, anew: bool) -> Call:
        """The call of this time; ``anew``: no reply to the same content of before answers it."""
        id_ = f"retry {self.number}/{call.id}"
        content = digest([id_, call.content]) if anew else call.content
        return call.model_copy(update={"id": id_, "content": content})

    def ids(self, call: Call) -> list[str]:
        """The calls whose reply may answer this one: that of this time first."""
        return [*(f"retry {number}/{call.id}" for number in range(self.number, 0, -1)), call.id]


class RedisJournal(StoredJournal):
    """The calls of one chunk of a job; a settled one is returned, never paid again, however often the chunk is run.

    The job's budget, its project's for the month and, for live traffic, its stream's for the day hold over all workers: a
    request is allowed only if the most that it may take still fits on top of what is spent and of what requests in flight
    have reserved. Two calls of a job's judge with the same content are paid once: the second waits for the reply to the
    first, and has it as a cache hit.

    While Redis refuses to write a reply, because it is full for example, that reply is kept here and no further request
    is allowed.
    """

    def __init__(self, store: RedisStore, claim: Claim, *, cache: bool, retry: Retry | None = None) -> None:
        self._store, self._claim, self._cache, self._retry = store, claim, cache, retry
        self._calls = store.key(claim.job, f"calls:{claim}")
        self._meta, self._dead = store.key(claim.job, "meta"), store.key(claim.job, "dead")
        self._owner, self._contents = store.key(claim.job, "owner"), store.key(claim.job, "contents")
        self._numbers: Counter[str] = Counter()  # requests begun, by call
        self._until = 0.0
        self._refused = 0  # replies that Redis has not taken yet

    async def reserve(self, call: Call, max_usage: Usage) -> Reply | Reservation:
        """The settled reply, else that to the same question as a cache hit, else the right to make a request.

        Raises CancelledError when the job was cancelled or its chunk given to another worker: no further request is made.
        Raises BudgetReached.
        """
        if self._retry:
            settled, unreadable = await self._store.in_thread(self._settled_before, call, self._retry)
            if settled:
                return settled
            call = self._retry.scoped(call, anew=unreadable)
        while self._refused:
            await asyncio.sleep(_AGAIN_S)
        self._numbers[call.id] += 1
        reservation = Reservation(call, self._numbers[call.id], max_usage)
        # Looked up first: between the grant and the request nothing is waited for, or a cancellation would leave it open.
        cached = await self._store.in_thread(self._cached, call) if self._cache else None
        answer, blob = await self._ask(reservation)
        if cached and answer not in ("settled", "same", "stop"):
            observability.count("cache_hits")
            return await self._hit(reservation, cached, granted=answer == "granted")
        if answer == "wait":
            answer, blob = await self._wait(reservation)
        if answer == "granted":
            return reservation
        if answer == "settled":
            return _reply(blob)
        if answer == "same":
            return await self._hit(reservation, _reply(blob))
        if answer == "stop":
            raise asyncio.CancelledError
        if answer == "job has no price":
            raise BudgetReached(of_unknown_price().message, hint="resume with a budget in tokens")
        if answer == "project has no price":
            what = "the budget of the project can't be kept: the model has no price"
            raise BudgetReached(what, hint="give it one (prices)")
        raise BudgetReached(await self._store.in_thread(self._reached, max_usage), hint=RAISE_IT)

    def _settled_before(self, call: Call, retry: Retry) -> tuple[Reply | None, bool]:
        """The reply of this time or of one before; and whether one of before could not be read, so that it is none."""
        for place, blob in enumerate(self._store.redis.hmget(self._calls, retry.ids(call))):
            if blob is not None:
                reply = _reply(blob)
                if place and reply.unreadable and (call.purpose == "answer" or call.query_id in retry.unread):
                    return None, True
                counted = place == 0 or call.purpose == "answer"  # what an answer took is in no row's evaluation
                return (reply if counted else reply.model_copy(update={"usage": Usage(), "waste": Usage()})), False
        return None, False

    async def _ask(self, reservation: Reservation) -> tuple[str, bytes]:
        """The script's answer and its reply, once no other call with the same content is in flight."""
        call, max_usage, project = reservation.call, reservation.max_usage, self._store.project or DEFAULT_PROJECT
        keys = [self._calls, self._meta, self._owner, cap_key(project), account_key(project), self._contents]
        usd, tokens = _amounts(max_usage)
        wanted = ["" if max_usage.cost_usd is None else usd, tokens]
        content = call.content if call.purpose in SHARED else ""
        about = [call.id, reservation.key, self._claim.token, str(self._claim), *wanted, content, KEPT_S]
        while True:
            asking = asyncio.ensure_future(self._store.in_thread(self._store.run, "reserve", keys, about))
            try:
                answer, *reply = await to_its_end(asking)
            except asyncio.CancelledError:
                if asking.result()[0] == b"granted":  # and no request is made
                    await to_its_end(self.end(reservation, Usage()))
                raise
            if answer != b"busy":
                return answer.decode(), reply[0] if reply else b""
            await asyncio.sleep(_AGAIN_S)

    async def _wait(self, reservation: Reservation) -> tuple[str, bytes]:
        """Ask until calls in flight have left what they don't need; as long as those of a worker that died may take."""
        patience_s = 3 * self._store.lease_ms / 1000
        if time.monotonic() > self._until:
            self._until = time.monotonic() + patience_s  # one patience for all that wait at the same time
        answer, reply = "wait", b""
        while answer == "wait" and time.monotonic() < self._until:
            await asyncio.sleep(_AGAIN_S)
            answer, reply = await self._ask(reservation)
        return answer, reply

    async def _hit(self, reservation: Reservation, known: Reply, *, granted: bool = False) -> Reply:
        """Keep a reply that is paid already as this call's."""
        reply = hit(reservation.call, known)
        await self._close(reservation, Usage(), reply, granted=granted)
        return reply

    def _cached(self, call: Call) -> Reply | None:
        cached = self._store.redis.get(self._of_cache(call))
        job, _, blob = cached.partition(b"\0") if cached else (b"", b"", b"")
        return None if not blob or job.decode() == self._claim.job else _reply(blob)

    def _reached(self, max_usage: Usage) -> str:
        fields = ("most_usd", "most_tokens", "spent_usd", "spent_tokens", "unknown_usd")
        meta = self._store.redis.hmget(self._meta, fields)
        usd, tokens, cost, taken, unknown = (float(v or 0) for v in meta)
        budget = Budget(usd=usd or None, tokens=int(tokens) or None)
        spent = Usage(cost_usd=max(cost, 0.0), input_tokens=max(round(taken), 0))
        if over := budget.over(spent, max_usage):
            return over + (estimated_part(unknown) if usd else "")
        of_project = ProjectBudgets(self._store).reached(
            self._store.project or DEFAULT_PROJECT, max_usage.cost_usd or 0
        )
        of_day = self._store.redis.hget(self._meta, "most_account_usd")
        if of_day is not None and not of_project:
            return f"the budget of the day is reached: {float(of_day):g} USD for the requests of this stream"
        return of_project or "the budget is reached: calls in flight may take what is left of it"

    async def settle(self, reservation: Reservation, reply: Reply) -> None:
        """Keep the reply for this job, and for later ones unless an earlier one is kept; waits while Redis is full."""
        await self._close(reservation, reservation.booked(reply.usage), reply)
        if self._cache and not reply.unreadable:
            await self._store.in_thread(self._keep_in_cache, reservation.call, reply)

    def _keep_in_cache(self, call: Call, reply: Reply) -> None:
        known = self._claim.job.encode() + b"\0" + _blob(reply)
        try:
            self._store.redis.set(self._of_cache(call), known, nx=True, ex=CACHE_KEPT_S)
        except ResponseError as error:  # the reply is kept for this job, which is what counts
            if not refuses_writes(error):
                raise

    async def end(self, reservation: Reservation, spent: Usage) -> None:
        """End a request without a reply; waits while Redis is full."""
        await self._close(reservation, spent)

    async def _close(
        self, reservation: Reservation, spent: Usage, reply: Reply | None = None, *, granted: bool = True
    ) -> None:
        """Put what a request spent in the place of what it had reserved, if it was granted, and keep its reply."""
        call, uncertain = reservation.call, spent.uncertain_calls
        usd, tokens = _amounts(spent)
        books = [usd, tokens, uncertain, (usd or 0) if uncertain else 0]
        counted = orjson.dumps(observability.take_counted() if granted else {})  # else the script would not count them
        about = [call.id, reservation.key, self._claim.token, str(self._claim), _blob(reply) if reply else b""]
        keys = [self._calls, self._meta, COUNTERS, self._dead]
        arguments = [*about, *books, counted, MAX_COUNTERS]
        if await self._store.in_thread(self._is_taken, keys, arguments):
            return
        self._refused += 1
        try:
            while not await self._store.in_thread(self._is_taken, keys, arguments):
                await asyncio.sleep(_WRITE_AGAIN_S)
        finally:
            self._refused -= 1

    def _is_taken(self, keys: list[str], arguments: Sequence[object]) -> bool:
        """Run the script that ends a request; False if Redis refuses to write now."""
        try:
            self._store.run("settle", keys, arguments)
        except ResponseError as error:
            if not refuses_writes(error):
                raise
            return False
        return True

    def _of_cache(self, call: Call) -> str:
        """Where later jobs of the same project find a call; another's would learn that it was made."""
        return self._store.of_project(f"cache:{call.content}")


def _amounts(usage: Usage) -> tuple[float, int]:
    return usage.cost_usd or 0.0, usage.input_tokens + usage.output_tokens


def _blob(reply: Reply) -> bytes:
    packed: bytes = zstandard.compress(orjson.dumps(reply.model_dump(mode="json", exclude_defaults=True)))
    return packed


def _reply(blob: bytes) -> Reply:
    return Reply.model_validate(orjson.loads(zstandard.decompress(blob)))
