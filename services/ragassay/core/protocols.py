"""Protocols of what a package is given: judges, embedders, systems under test, and the journal of their calls."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import orjson

from ragassay.core.models import FrozenModel, Rating, Response, Sample, Usage

Purpose: TypeAlias = Literal["judge", "repair", "answer", "synthesis"]


def digest(value: object) -> str:
    """SHA-256 of what JSON has types for, whatever the order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Call(FrozenModel):
    """Names one call to a provider. ``id`` is its place in a job; ``content`` is what it asks, wherever it stands.

    ``query_id``: of the query that it is about, where it is about one.
    """

    id: str
    content: str
    purpose: Purpose
    query_id: str = ""

    @classmethod
    def about(cls, query_id: str, purpose: Purpose, asked: object) -> Call:
        """The call about a query; ``asked`` is all that determines the reply: model, parameters, prompt, messages."""
        content = digest(asked)
        return cls(id=digest([query_id, purpose, content]), content=content, purpose=purpose, query_id=query_id)


class Reply(FrozenModel):
    """What a provider answered, and its bill. ``waste`` are earlier attempts that were paid and came to nothing.

    ``unreadable``: it was not what was asked for, so that no later run takes it from a cache.
    ``left_out``: what was asked for and the provider does not take, such as a parameter. ``model``: what
    the provider says that it answered with. ``alternatives``: where in the text, by character, the model hesitated, and the
    probabilities of the token there, first, and of others; None where no probabilities were asked for or given.
    """

    text: str
    finish_reason: str = "stop"
    model: str = ""
    usage: Usage = Usage()
    waste: Usage = Usage()
    unreadable: bool = False
    left_out: tuple[str, ...] = ()
    alternatives: tuple[tuple[int, dict[str, float]], ...] | None = None


class Attempt:
    """One request to a provider, from its reservation to its end. ``reply``: the settled one, so that none is needed.

    The caller says how the request ended. If it says nothing, the outcome is unknown (a timeout, a cancelled task): the
    request may have been paid, so its estimate counts as spent.
    """

    def __init__(self, reply: Reply | None = None) -> None:
        self.reply = reply
        self.spent: Usage | None = None  # None: unknown
        self.answered = False  # by the provider, be it with a refusal

    def settle(self, reply: Reply) -> None:
        """The reply came: it is kept, and the call is never made again."""
        self.reply, self.spent, self.answered = reply, reply.usage, True

    def free(self, *, answered: bool = False) -> None:
        """The request cost nothing: it was not sent, or the provider refused it. ``answered``: this one request alone."""
        self.spent, self.answered = Usage(), answered

    def waste(self, usage: Usage) -> None:
        """The request was answered and billed, and is of no use."""
        self.spent, self.answered = usage, True


class Journal(Protocol):
    """Keeps the attempts of calls, so that a finished call is never paid again. Used by many tasks at once."""

    def attempt(self, call: Call, max_usage: Usage) -> AbstractAsyncContextManager[Attempt]:
        """One request, with ``max_usage`` reserved for the length of the block; no request if its ``reply`` is there.

        Raises BudgetReached, and what a full store raises.
        """


@runtime_checkable
class Judge(Protocol):
    """Gives one verdict per sample."""

    @property
    def name(self) -> str:
        """As a report prints it: ``local`` or ``llm:<model>``."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """All that determines a verdict: model, parameters, prompt versions. JSON-ready; kept in the report."""

    async def judge(self, samples: Sequence[Sample], journal: Journal) -> list[Rating]:
        """One rating for each sample, in order. Failures are data, not exceptions; BudgetReached passes through."""


@runtime_checkable
class Embedder(Protocol):
    """Texts to unit vectors."""

    @property
    def name(self) -> str:
        """Model name and digest, as a report prints it."""

    def embed(self, texts: Sequence[str]) -> Any:
        """Unit vectors, float32, shape (len(texts), dimensions). Each distinct text is encoded once."""


@runtime_checkable
class System(Protocol):
    """A system under test."""

    @property
    def name(self) -> str:
        """The system's name in reports."""

    async def respond(self, sample: Sample) -> Response | None:
        """The system's response to the query; None when it has none."""
