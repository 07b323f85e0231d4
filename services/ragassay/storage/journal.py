"""Journals in a folder: the calls of one run, and a cache of replies that later runs use instead of paying again."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from ragassay.core.errors import BadData, DiskFull
from ragassay.core.eval_config import Budget
from ragassay.core.files import LineLog, private_folder
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.llm.budget import BudgetAccount
from ragassay.llm.journal import SHARED, Reservation, StoredJournal, hit

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
        """An earlier run's reply to the same question; a run's own replies are in its journal."""
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


def rows_with_replies(folder: Path, answering: Iterable[str]) -> int:
    """The number of rows of a run that have a response of a system that answers in it, or a reply of a model."""
    rows = set()
    files = [(folder / "responses" / f"{system}.jsonl", system) for system in answering]
    for path, system in [*files, (folder / "calls.jsonl", "")]:
        with suppress(FileNotFoundError), path.open("rb") as file:
            for line in file:
                if system or b'"reply":' in line:
                    with suppress(orjson.JSONDecodeError):  # a line that a kill has cut
                        row = orjson.loads(line)
                        rows.add((system or row["id"].partition("/")[0], row["query_id"]))
    return len(rows)


class FolderJournal(StoredJournal):
    """The calls of one run as JSON Lines, appended to as requests begin and end; survives a kill of the process.

    A request begins only within ``budget``, on top of what the run has spent before, or, with ``shared``, within that
    account of several runs. Two calls of a judge with the same content are paid once: the second waits for the reply to
    the first, and has it as a cache hit. Cache hits are written too, so that a resumed run counts them as before. A
    request without an end was in flight when the process died: its outcome is unknown. Raises BadData for a damaged file.

    ``forgotten``: by row (system, query id), what replies took that answer no call any more, see ``ask_again``.
    """

    def __init__(
        self,
        path: Path,
        *,
        run: str,
        cache: CallCache | None = None,
        budget: Budget = Budget(),  # noqa: B008 - frozen
        shared: BudgetAccount | None = None,
    ) -> None:
        self._run, self._cache = run, cache
        self._settled: dict[str, Reply] = {}
        self._replies: dict[str, Reply] = {}  # of calls that are paid once, by their content
        self._unreadable: dict[tuple[str, str], dict[str, str]] = {}  # by row, the contents of such calls
        self.forgotten: dict[tuple[str, str], Usage] = {}
        self._in_flight: dict[str, asyncio.Event] = {}  # the end of the request in flight, by content
        self._numbers: Counter[str] = Counter()  # requests begun, by call
        self._full: DiskFull | None = None
        self.unknown = Usage()  # requests with an unknown outcome, and the estimates that count as spent for them
        self._log = LineLog(path)
        spent, begun = Usage(), dict[tuple[str, int], Usage]()
        for number, row in enumerate(self._log.rows(), 1):
            try:
                spent += self._read(row, begun)
            except (AttributeError, KeyError, TypeError, ValidationError):
                what = f"{path}:{number}: not a call of this version of ragassay"
                raise BadData([what], hint="the run's folder is damaged") from None
        for (call, number), max_usage in begun.items():
            interrupted = max_usage.model_copy(update={"calls": 0, "uncertain_calls": 1})
            row = {"id": call, "attempt": number, "spent": interrupted.model_dump(exclude_defaults=True)}
            self._log.append(row)
            spent += self._read(row, {(call, number): max_usage})
        self._account = shared or BudgetAccount(budget)
        self._account.spent += spent

    def _read(self, row: Any, begun: dict[tuple[str, int], Usage]) -> Usage:
        """Take in a line; what it adds to the spent budget."""
        call = row["id"]
        if row.get("asked_again"):
            self._forget((call.partition("/")[0], row["query_id"]), call)
            return Usage()
        if "most" in row:
            begun[call, row["attempt"]] = Usage.model_validate(row["most"])
            self._numbers[call] = row["attempt"]
            return Usage()
        spent = Usage.model_validate(row["spent"])
        begun.pop((call, row.get("attempt", 0)), None)
        if spent.uncertain_calls:
            self.unknown += spent
        if "reply" in row:
            known = Call(id=call, content=row["content"], purpose=row["purpose"], query_id=row["query_id"])
            self._keep(known, Reply.model_validate(row["reply"]))
        return spent

    @property
    def spent(self) -> Usage:
        """What counts as spent on its account, so that a budget holds if the run is resumed; cache hits don't."""
        return self._account.spent

    async def reserve(self, call: Call, max_usage: Usage) -> Reply | Reservation:
        """The reply of this run, else that to the same question as a cache hit, else the right to make a request.

        Raises BudgetReached, and DiskFull: once a row could not be written, no request is let through any more.
        """
        while other := self._in_flight.get(call.content):
            await other.wait()
        if settled := self._settled.get(call.id):
            return settled
        if self._full:
            raise self._full
        if known := self._known(call):
            reply = hit(call, known)
            self._append(self._row(call, reply))
            self._keep(call, reply)
            return reply
        if call.purpose in SHARED:
            self._in_flight[call.content] = asyncio.Event()
        try:
            return await self._begin(call, max_usage)
        except BaseException:
            self._end(call)
            raise

    def _known(self, call: Call) -> Reply | None:
        """The reply to the same question, of another call of this run or of an earlier run."""
        if call.purpose in SHARED and (reply := self._replies.get(call.content)):
            return reply
        return self._cache.get(call.content, not_from=self._run) if self._cache else None

    async def _begin(self, call: Call, max_usage: Usage) -> Reservation:
        await self._account.reserve(max_usage)
        try:
            if self._full:  # while it waited for the budget
                raise self._full
            self._numbers[call.id] += 1
            reservation = Reservation(call, self._numbers[call.id], max_usage)
            row = {"id": call.id, "attempt": reservation.number}
            self._append(row | {"most": max_usage.model_dump(exclude_defaults=True)})
        except DiskFull:
            await self._account.settle(max_usage, Usage())
            raise
        return reservation

    async def settle(self, reservation: Reservation, reply: Reply) -> None:
        """Write the reply down, whole; raises DiskFull."""
        call, spent = reservation.call, reservation.booked(reply.usage)
        try:
            self._append(self._row(call, reply) | self._of(reservation, spent))
            self._keep(call, reply)
        finally:
            self._end(call)
            await self._account.settle(reservation.max_usage, spent)
        if self._cache and not reply.unreadable:
            self._cache.put(call.content, reply, run=self._run)

    async def end(self, reservation: Reservation, spent: Usage) -> None:
        """Write down what a request without a reply spent; raises DiskFull."""
        try:
            self._append({"id": reservation.call.id} | self._of(reservation, spent))
            if spent.uncertain_calls:
                self.unknown += spent
        finally:
            self._end(reservation.call)
            await self._account.settle(reservation.max_usage, spent)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def _end(self, call: Call) -> None:
        if ended := self._in_flight.pop(call.content, None):
            ended.set()

    @staticmethod
    def _row(call: Call, reply: Reply) -> dict[str, Any]:
        about = {"id": call.id, "query_id": call.query_id, "content": call.content, "purpose": call.purpose}
        return about | {"reply": reply.model_dump(), "spent": {}}

    @staticmethod
    def _of(reservation: Reservation, spent: Usage) -> dict[str, Any]:
        return {"attempt": reservation.number, "spent": spent.model_dump(exclude_defaults=True)}

    def ask_again(self, rows: Set[tuple[str, str]]) -> None:
        """Let calls about these rows, each a system and a query id, be made again whose reply could not be read.

        A row is such a one once its result is kept; until then its replies are used, so that a killed run repeats no call.
        """
        for row in rows & self._unreadable.keys():
            for call in list(self._unreadable.get(row, ())):
                self._append({"id": call, "query_id": row[1], "asked_again": True})
                self._forget(row, call)

    def _forget(self, row: tuple[str, str], call: str) -> None:
        content, reply = self._unreadable[row].pop(call), self._settled.pop(call)
        if (known := self._replies.get(content)) and known.unreadable:
            del self._replies[content]
        self.forgotten[row] = Usage.total((self.forgotten.get(row, Usage()), reply.usage, reply.waste))

    def _keep(self, call: Call, reply: Reply) -> None:
        self._settled[call.id] = reply
        if call.purpose in SHARED:
            self._replies.setdefault(call.content, reply)
        if reply.unreadable:
            self._unreadable.setdefault((call.id.partition("/")[0], call.query_id), {})[call.id] = call.content

    def _append(self, row: Any) -> None:
        try:
            self._log.append(row)
        except DiskFull as full:
            self._full = full
            raise
