"""Ledgers in a folder: the calls of one run, and a cache of replies that later runs may use instead of paying again."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import orjson

from ragassay.files import read_lines
from ragassay.ledger import paid
from ragassay.models import Usage
from ragassay.seams import Call, Reply


class CallCache:
    """Replies of finished calls by what was asked: model, parameters, prompt version and text. SQLite, one file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS replies (content TEXT, run TEXT, kept REAL, reply BLOB, PRIMARY KEY (content, run))"
        )

    def get(self, content: str, *, not_from: str) -> Reply | None:
        """An earlier run's reply to the same question; a run's own replies are in its ledger."""
        row = self._db.execute(
            "SELECT reply FROM replies WHERE content = ? AND run != ? ORDER BY kept LIMIT 1", (content, not_from)
        ).fetchone()
        return Reply.model_validate_json(row[0]) if row else None

    def put(self, content: str, reply: Reply, *, run: str) -> None:
        """Keep a reply for later runs."""
        self._db.execute(
            "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)",
            (content, run, time.time(), reply.model_dump_json().encode()),
        )

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class FolderLedger:
    """The finished calls of one run as JSON Lines, appended to as they end; survives a kill of the process.

    A reply from the cache is written down too, so that a resumed run counts it as the first attempt did.
    """

    def __init__(self, path: Path, *, run: str, cache: CallCache | None = None) -> None:
        self._run, self._cache = run, cache
        self._settled: dict[str, Reply] = {}
        self._estimates: dict[str, Usage] = {}
        self.lost = Usage()
        self.spent = Usage()  # by this run, so that a budget holds when it is resumed: what came from the cache is not
        if path.exists():
            _drop_torn_line(path)
            for row in read_lines(path):
                self.spent += Usage.model_validate(row.get("held", {}))
                if "lost" in row:
                    self.lost += Usage.model_validate(row["lost"])
                else:
                    self._settled[row["id"]] = Reply.model_validate(row["reply"])
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)

    async def reserve(self, call: Call, estimate: Usage) -> Reply | None:
        """The reply of this run, else of an earlier run as a cache hit, else None.

        A cache hit costs nothing. An answer's keeps its bill: that is what the answer takes of the system under test.
        """
        if settled := self._settled.get(call.id):
            return settled
        self._estimates[call.id] = estimate
        if self._cache and (cached := self._cache.get(call.content, not_from=self._run)):
            bill = cached.usage if call.purpose == "answer" else Usage()
            usage = bill.model_copy(update={"calls": 0, "cache_hits": 1})
            hit = cached.model_copy(update={"usage": usage, "waste": Usage()})
            self._keep(call, hit, Usage())
            return hit
        return None

    async def settle(self, call: Call, reply: Reply) -> None:
        """Write the reply down; one write, so that a kill leaves it whole or absent."""
        self._keep(call, reply, paid(reply, self._estimates.pop(call.id, Usage())))
        if self._cache:
            self._cache.put(call.content, reply, run=self._run)

    async def release(self, call: Call, spent: Usage) -> None:
        """The call came to nothing: remember what it may have cost."""
        if spent != Usage():
            held = paid(Reply(text="", waste=spent), self._estimates.pop(call.id, Usage()))
            row = {"id": call.id, "lost": spent.model_dump(), "held": held.model_dump()}
            self._file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            self.lost += spent

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _keep(self, call: Call, reply: Reply, held: Usage) -> None:
        row = {"id": call.id, "content": call.content, "purpose": call.purpose, "reply": reply.model_dump()}
        row["held"] = held.model_dump()
        self._file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        self._settled[call.id] = reply


def _drop_torn_line(path: Path) -> None:
    """Cut off what a kill left after the last complete line; that call was not settled."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
