"""Which workers and beats run, by the heartbeats that they send."""

from __future__ import annotations

from ragassay.service.projects import ProjectRedis


class Presence(ProjectRedis):
    """Heartbeats in Redis, each counted until its time is over by the clock of Redis."""

    def heartbeat(self, kind: str, name: str, *, for_s: int) -> None:
        """Count ``name`` (``host:pid:processes``) as running for so many seconds by the clock of Redis."""
        now, pipe = self.now_ms() / 1000, self.redis.pipeline(transaction=True)
        pipe.zremrangebyscore(f"ra:alive:{kind}", "-inf", now)
        pipe.zadd(f"ra:alive:{kind}", {name: now + for_s})
        pipe.expire(f"ra:alive:{kind}", for_s)
        pipe.execute()

    def deregister(self, kind: str, name: str) -> None:
        """Stop counting a process that ends."""
        self.redis.zrem(f"ra:alive:{kind}", name)

    def alive(self, kind: str, host: str | None = None) -> int:
        """How many of a kind run, everywhere or on one host."""
        return sum(host in (None, name.rsplit(":", 2)[0]) for name in self._running(kind))

    def processes(self) -> int:
        """How many processes all workers together have for chunks."""
        return sum(int(name.rsplit(":", 1)[1]) for name in self._running("worker"))

    def _running(self, kind: str) -> list[str]:
        names = self.redis.zrangebyscore(f"ra:alive:{kind}", f"({self.now_ms() / 1000}", "+inf")
        return [name.decode() for name in names]
