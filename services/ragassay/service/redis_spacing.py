"""The limit of requests and tokens in a minute that all workers of a service share: moments for calls, in Redis."""

from __future__ import annotations

import uuid

from ragassay.service.projects import ProjectRedis


class RedisSpacing:
    """Hands out moments over all processes; what they are apart is reckoned by the clock of Redis.

    The lines, ``ra:calls:<line>``, are of the provider's account, so all projects stand in the same ones.
    """

    def __init__(self, store: ProjectRedis) -> None:
        self._store = store

    async def wait_s(self, line: str, request_s: float, tokens_s: float) -> float:
        """Take the line's next moment; the seconds until then."""
        return await self._store.in_thread(self._run, line, request_s, tokens_s, "take")

    def correct(self, line: str, tokens_s: float) -> None:
        """The tokens of a call take so much longer than was thought when it took its moment; below 0: less. Not waited for."""
        self._store.threads.submit(self._run, line, 0.0, tokens_s, "correct")

    def _run(self, line: str, request_s: float, tokens_s: float, what: str) -> float:
        keys = [f"ra:calls:{line}", f"ra:call:{uuid.uuid4().hex}"]
        arguments = [round(request_s * 1e6), round(tokens_s * 1e6), what]
        return int(self._store.run("space_calls", keys, arguments)) / 1e6
