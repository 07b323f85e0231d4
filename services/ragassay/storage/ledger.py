"""Ledgers in a folder: the calls of one run, and a cache of replies that later runs may use instead of paying again."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, DiskFull
from ragassay.core.files import LineLog, private_folder
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Ledger, Purpose, Reply
from ragassay.core.specification import Budget
from ragassay.llm.journal import SHARED, BudgetLedger, MemoryLedger, ScopedLedger, ends, paid

logger = logging.getLogger("ragassay")


class CallCache:
    """Replies of finished calls by what was asked: endpoint, model, parameters, prompt version and text. SQLite, one file.

    Where the file can't be used - the disk is full, say - ``warn`` is told once, and nothing is taken or kept any more.
    """

    def __init__(self, path: Path, warn: Callable[[str], object] = logger.warning) -> None:
        self._path, self._warn = path, warn
        self._db: sqlite3.Connection | None = None
        try:
            private_folder(path.parent)
            path.touch(mode=0o600)
            path.chmod(0o600)
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)
        self._run("PRAGMA journal_mode=WAL")
        self._run("PRAGMA synchronous=NORMAL")
        self._run(
            "CREATE TABLE IF NOT EXISTS replies (content TEXT, run TEXT, kept REAL, reply BLOB, PRIMARY KEY (content, run))"
        )

    def get(self, content: str, *, not_from: str) -> Reply | None:
        """An earlier run's reply to the same question; a run's own replies are in its ledger."""
        sql = "SELECT reply FROM replies WHERE content = ? AND run != ? ORDER BY kept LIMIT 1"
        rows = self._run(sql, (content, not_from))
        return Reply.model_validate_json(rows[0][0]) if rows else None

    def put(self, content: str, reply: Reply, *, run: str) -> None:
        """Keep a reply for later runs."""
        row = (content, run, time.time(), reply.model_dump_json().encode())
        self._run("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        """Close the file."""
        if self._db:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    def _run(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        if self._db is None:
            return []
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        self.close()
        self._warn(f"calls are neither taken from the cache nor kept in it: {self._path}: {error}")


def calls_about(path: Path, system: str, query_id: str) -> list[tuple[Purpose, Reply]]:
    """The finished calls about a query of a system among those of a run, in their order; none from before calls told it."""
    wanted, of_system = b'"query_id":' + orjson.dumps(query_id), b'{"id":' + orjson.dumps(f"{system}/")[:-1]
    found = []
    with suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            if line.startswith(of_system) and wanted in line:
                row = orjson.loads(line)
                if row.get("query_id") == query_id and "reply" in row:
                    found.append((row["purpose"], Reply.model_validate(row["reply"])))
    return found


def rows_with_replies(path: Path) -> int:
    """The number of rows that the calls of a run have a reply for, of whatever chunk; 0 if no call was made."""
    rows = set()
    with suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            if b'"reply":' in line:
                with suppress(orjson.JSONDecodeError):  # a line that a kill has cut
                    row = orjson.loads(line)
                    rows.add((row["id"].partition("/")[0], row["query_id"]))
    return len(rows)


class FolderLedger:
    """The calls of one run as JSON Lines, appended to as they begin and end; survives a kill of the process.

    A call begins only within ``budget``, beside what the run has spent before; with ``shared``, within that budget of
    several runs, to which what this one has spent is added. Two calls of a judge with the same content are paid once: the
    second waits for the reply to the first, and has it as a cache hit. Cache hits are written down too, so that a resumed
    run counts them as the first attempt did. A call that began and has no end was in flight when the process died: it may
    have been paid, so it counts as uncertain and its estimate as spent. Raises BadData for a damaged file.
    """

    def __init__(
        self,
        path: Path,
        *,
        run: str,
        cache: CallCache | None = None,
        budget: Budget = Budget(),  # noqa: B008 - frozen
        shared: BudgetLedger | None = None,
    ) -> None:
        self._run, self._cache = run, cache
        self._settled: dict[str, Reply] = {}
        self._estimates: dict[str, Usage] = {}
        self._open: set[str] = set()  # ids of calls that are in flight
        self._lost: Counter[str] = Counter()  # attempts of a call with an unknown outcome, the open one left out
        self._replies: dict[str, Reply] = {}  # of calls that are paid once, by their content
        self._asking: dict[
            str, tuple[str, asyncio.Event]
        ] = {}  # by content, the call in flight and the event of its end
        self._full: DiskFull | None = None
        self.lost = Usage()
        self.interrupted = Usage()  # calls in flight when a process died; no row counts them
        self.held = Usage()  # what they are held to have spent
        self.spent = Usage()  # by this run, so that a budget holds when it is resumed: what came from the cache is not
        self._log = LineLog(path)
        begun: dict[str, list[Usage]] = {}  # attempts of calls that have no end yet
        for number, row in enumerate(self._log.rows(), 1):
            try:
                self._read(row, begun)
            except (AttributeError, KeyError, TypeError, ValidationError):
                what = f"{path}:{number}: not a call of this version of ragassay"
                raise BadData([what], hint="the run's folder is damaged") from None
        for call, estimates in begun.items():
            lost, held = Usage(uncertain_calls=len(estimates)), Usage.total(estimates)
            row = {"id": call, "interrupted": lost.model_dump(), "held": held.model_dump()}
            self._log.append(row)
            self._read(row, {})
        self._budget: Ledger = MemoryLedger()
        if shared is not None:
            shared.spent += self.spent
            self._budget = ScopedLedger(shared, run)
        elif budget != Budget():
            self._budget = BudgetLedger(MemoryLedger(), budget, self.spent)

    def _read(self, row: Any, begun: dict[str, list[Usage]]) -> None:
        if "began" in row:
            begun.setdefault(row["id"], []).append(Usage.model_validate(row["began"]))
            return
        held, lost = Usage.model_validate(row.get("held", {})), Usage.model_validate(row.get("lost", {}))
        attempts = begun.pop(row["id"], [])
        if "lost" in row and not ends(lost) and attempts[1:]:  # attempts before it are still to be told of
            begun[row["id"]] = attempts[:-1]
        self.spent += held
        self.lost += lost
        if "lost" in row:
            return
        if "interrupted" in row:
            self.interrupted += Usage.model_validate(row["interrupted"])
            self.held += held
        else:
            reply = self._settled[row["id"]] = Reply.model_validate(row["reply"])
            if row["purpose"] in SHARED:
                self._replies.setdefault(row["content"], reply)

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """The reply of this run, else of an earlier run as a cache hit, else None once it is written that the call begins.

        A cache hit costs nothing. An answer's keeps its bill: that is what the answer takes of the system under test.
        Raises BudgetReached, and DiskFull: once a row could not be written, no call is let through any more.
        """
        while other := self._asking.get(call.content):
            if other[0] == call.id:
                break
            await other[1].wait()
        if settled := self._settled.get(call.id):
            return settled
        if self._full:
            raise self._full
        self._lost[call.id] += call.id in self._open
        if known := self._known(call):
            return await self._hit(call, known)
        if call.purpose in SHARED:
            self._asking.setdefault(call.content, (call.id, asyncio.Event()))
        try:
            await self._begin(call, estimate)
        except BaseException:
            self._end(call)
            raise
        self._estimates[call.id] = estimate
        self._open.add(call.id)
        return None

    def _known(self, call: Call) -> Reply | None:
        """The reply to the same question, of another call of this run or of an earlier run."""
        if call.purpose in SHARED and (reply := self._replies.get(call.content)):
            return reply
        return self._cache.get(call.content, not_from=self._run) if self._cache else None

    async def _hit(self, call: Call, known: Reply) -> Reply:
        """Keep a reply that is paid already as this call's; attempts before with an unknown outcome count as spent."""
        bill = known.usage if call.purpose == "answer" else Usage()
        usage = bill.model_copy(update={"calls": 0, "cache_hits": 1})
        hit = known.model_copy(update={"usage": usage, "waste": Usage()})
        lost = Usage(uncertain_calls=self._lost[call.id])
        self._keep(call, hit, paid(Reply(text="", waste=lost), self._estimates.pop(call.id, Usage())))
        if call.id in self._open:
            await self._budget.release(call, lost)
        self._end(call, ended=True)
        return hit

    async def _begin(self, call: Call, estimate: Usage) -> None:
        await self._budget.reserve(call, estimate)
        try:
            if self._full:  # while it waited for the budget
                raise self._full
            self._append({"id": call.id, "began": estimate.model_dump(exclude_defaults=True)})
        except DiskFull:
            await self._budget.release(call, Usage())
            raise

    def _end(self, call: Call, *, ended: bool = False) -> None:
        """A call is in flight no more; ``ended`` unless it may be made again."""
        self._open.discard(call.id)
        if ended:
            self._lost.pop(call.id, None)
        if call.content in self._asking and self._asking[call.content][0] == call.id:
            self._asking.pop(call.content)[1].set()

    async def settle(self, call: Call, reply: Reply) -> None:
        """Write the reply down, whole; raises DiskFull."""
        try:
            self._keep(call, reply, paid(reply, self._estimates.pop(call.id, Usage())))
        finally:
            self._end(call, ended=True)
            await self._budget.settle(call, reply)
        if self._cache and not reply.unreadable:
            self._cache.put(call.content, reply, run=self._run)

    async def release(self, call: Call, spent: Usage, *, answered: bool = False) -> None:  # noqa: ARG002 - it is paid or not, whoever refused
        """The call came to nothing: write down what it may have cost."""
        self._end(call, ended=ends(spent))
        estimate = self._estimates.pop(call.id, None) if ends(spent) else self._estimates.get(call.id)
        if estimate is None and spent == Usage():
            return
        try:
            held = Usage() if spent == Usage() else paid(Reply(text="", waste=spent), estimate or Usage())
            self._append({"id": call.id, "lost": spent.model_dump(), "held": held.model_dump()})
            self.lost += spent
        finally:
            await self._budget.release(call, spent)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def _keep(self, call: Call, reply: Reply, held: Usage) -> None:
        row = {"id": call.id, "query_id": call.query_id, "content": call.content, "purpose": call.purpose}
        self._append({**row, "reply": reply.model_dump(), "held": held.model_dump()})
        self._settled[call.id] = reply
        if call.purpose in SHARED:
            self._replies.setdefault(call.content, reply)

    def _append(self, row: Any) -> None:
        try:
            self._log.append(row)
        except DiskFull as full:
            self._full = full
            raise
