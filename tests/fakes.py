"""A scripted language model and a deterministic embedder: everything around them runs as with real ones."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ragassay.core.errors import BadSettings
from ragassay.core.models import Score, Usage
from ragassay.core.protocols import Call, Journal, Reply
from ragassay.embeddings import refuse_blank
from ragassay.embeddings.minilm import Vectors
from ragassay.llm import Messages
from ragassay.metrics.chunk import Chunk
from ragassay.metrics.metric import Metric
from ragassay.metrics.scoring import scores

Scripted = str | Mapping[str, Any] | Reply | Exception


@dataclass(frozen=True)
class Asked:
    """One call as it arrived."""

    messages: Messages
    schema: Mapping[str, Any] | None
    max_tokens: int
    call: Call


class FakeLLM:
    """Stands in for ``LLM``. ``replies``: one for each call in order, or a function of the messages.

    A reply is a text, a mapping (sent as JSON), a ``Reply`` or an exception to raise. ``calls`` holds what was asked.
    """

    def __init__(self, replies: Sequence[Scripted] | Callable[[Messages], Scripted], *, model: str = "fake") -> None:
        self._replies = replies
        self.model = model
        self.settings: Mapping[str, Any] = {"model": model, "parameters": {}, "left_out": []}
        self.endpoint = ""
        self.calls: list[Asked] = []

    def warm_up(self) -> None:
        """There is nothing to load."""

    async def complete(
        self,
        messages: Messages,
        *,
        max_tokens: int,
        call: Call,
        journal: Journal,
        read: Callable[[Reply], Any],
        wasted: Callable[[Usage], object] = lambda _: None,
        schema: Mapping[str, Any] | None = None,
        schema_name: str = "reply",
        alternatives: int = 0,
        seed_shift: int = 0,
    ) -> tuple[Reply, Any]:
        """The next scripted reply; settled like a real one. Raises BadSettings when the script is at its end."""
        async with journal.attempt(call, Usage(calls=1)) as attempt:
            if attempt.reply is not None:
                return attempt.reply, read(attempt.reply)
            self.calls.append(Asked(messages, schema, max_tokens, call))
            attempt.free()
            scripted = self._next(messages)
            if isinstance(scripted, Exception):
                raise scripted
            reply = scripted if isinstance(scripted, Reply) else _reply(scripted, messages, self.model)
            value = read(reply)
            reply = reply.model_copy(update={"unreadable": value is None})
            attempt.settle(reply)
            return reply, value

    def _next(self, messages: Messages) -> Scripted:
        if callable(self._replies):
            return self._replies(messages)
        if len(self.calls) > len(self._replies):
            raise BadSettings(f"the fake model was asked {len(self.calls)} times and has {len(self._replies)} replies")
        return self._replies[len(self.calls) - 1]


def _reply(scripted: str | Mapping[str, Any], messages: Messages, model: str) -> Reply:
    text = scripted if isinstance(scripted, str) else orjson.dumps(scripted).decode()
    input_tokens = sum(len(m["content"]) for m in messages) // 4
    return Reply(text=text, model=model, usage=Usage(calls=1, input_tokens=input_tokens, output_tokens=len(text) // 4))


class FakeEmbedder:
    """Bags of hashed words, for tests: deterministic, instant, and texts that share words are alike."""

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions
        self.calls: list[tuple[str, ...]] = []

    @property
    def name(self) -> str:
        """As a report prints it."""
        return f"fake-{self.dimensions}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dimensions). Raises BadInput on a blank text."""
        refuse_blank(texts)
        self.calls.append(tuple(texts))
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                place = hashlib.blake2b(word.strip(".,;:!?\"'()").encode(), digest_size=8).digest()
                row[int.from_bytes(place) % self.dimensions] += 1
            row /= np.linalg.norm(row)
        return vectors


def score_chunk(metric: Metric, chunk: Chunk) -> list[Score]:
    """A Score for each row of the chunk."""
    return asyncio.run(scores(metric, chunk))
