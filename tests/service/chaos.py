"""What a test of kills needs: a provider whose replies carry their prompt's name, and a watch on what is settled."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

import redis

from provider import Answer, Provider, verdicts

OUTAGE = (redis.exceptions.RedisError, OSError)


def stamped(seen):
    """A good verdict that says which prompt it answers, so that Redis shows which prompts are settled."""
    reply = verdicts(seen)
    reply["why"] = seen.prompt_hash
    return Answer(json.dumps(reply))


def stamping_provider(latency_s):
    return Provider(then=stamped, latency_s=latency_s)


def stamps(texts):
    return {json.loads(text)["why"] for text in texts}


class StopMonitor:
    """Looks again and again at what is settled; afterwards, no request may ask for what was settled before it."""

    def __init__(self, service, provider, job):
        self._service, self._provider, self._job = service, provider, job
        self._looks: list[tuple[int, set[str]]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._ended.wait(0.05):
            try:
                settled = stamps(self._service.settled(self._job))
            except OUTAGE:
                continue
            self._looks.append((len(self._provider.log), settled))  # the log's length is read last: later is later

    @contextmanager
    def looking(self):
        self._thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            self._thread.join()

    def repeated(self):
        """Prompts that were sent although they had been settled."""
        return {
            seen.prompt_hash
            for length, settled in self._looks
            for seen in self._provider.log[length:]
            if seen.prompt_hash in settled
        }
