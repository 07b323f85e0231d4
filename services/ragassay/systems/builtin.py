"""A system under test that ragassay runs itself: it retrieves, answers where it is asked to, and measures both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ragassay.core.errors import BadInput, BadSettings, ProviderDown, Unavailable, reason_from
from ragassay.core.models import Response, Sample
from ragassay.core.protocols import digest
from ragassay.core.report import Built, Source
from ragassay.datasets.corpus import Corpus
from ragassay.systems.options import SystemConfig
from ragassay.systems.retrieval import Pipeline, SearchResult


@dataclass(frozen=True)
class Answer:
    """An answer, and what it took. Cost in USD, time in ms; None is unknown."""

    text: str
    latency_ms: float | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Answerer(Protocol):
    """Answers a query from contexts."""

    @property
    def models(self) -> tuple[str, ...]:
        """What answers, and the version of its prompt; kept in the report."""

    def warm_up(self) -> None:
        """Import and load what the first answer would have to wait for; asks nobody."""

    async def answer(self, sample: Sample, contexts: Sequence[str]) -> Answer:
        """Raises BadInput and Unavailable where this query can't be answered, BadSettings where none can."""


def planned_source(name: str, config: SystemConfig, corpus: Path | None, rows: int) -> Source:
    """Where the responses of a built-in system are going to come from; see ``Built`` for what is known later.

    Raises BadSettings without a corpus, NotFound and BadData on one that can't be read.
    """
    if corpus is None:
        raise BadSettings(
            f"system {name!r} searches a corpus and none is named", hint="write, for example, corpus: FILE"
        )
    passages = Corpus.read(corpus)
    configuration = config.model_dump(mode="json")
    built = Built(
        configuration=configuration,
        corpus=str(corpus),
        corpus_digest=passages.digest,
        passages=len(passages.passages),
    )
    return Source(name=name, digest=digest([configuration, passages.digest]), rows=rows, built=built)


class BuiltIn:
    """A retriever and its answerer as a system. A query that takes too long is a response with an error."""

    def __init__(self, name: str, config: SystemConfig, retriever: Pipeline, answerer: Answerer | None = None) -> None:
        self._name, self.config, self.retriever, self._answerer = name, config, retriever, answerer
        self._texts = {passage.id: passage.full for passage in retriever.corpus.passages}
        self._in_flight = asyncio.Semaphore(config.in_flight)
        self._retrieving = asyncio.Lock()  # it keeps all cores busy: two at once would measure each other
        self._first, self._started = asyncio.Lock(), False

    @property
    def name(self) -> str:
        """The system's name in reports."""
        return self._name

    @property
    def models(self) -> tuple[str, ...]:
        """All models behind it."""
        return (*self.retriever.models, *(self._answerer.models if self._answerer else ()))

    async def respond(self, sample: Sample) -> Response:
        """The system's response. Latencies are of the work itself: waiting for a turn, and the start, are not in them.

        The first query is alone, since it also opens connections, and its response has ``first_call_ms``: the time of
        the start and its own.
        """
        async with self._in_flight:
            async with self._first:
                if not self._started:
                    self._started = True
                    return await self._first_response(sample)
            return await self._respond(sample)

    async def _first_response(self, sample: Sample) -> Response:
        began = time.perf_counter()
        await asyncio.to_thread(self.retriever.warm_up)
        if self._answerer is not None:
            await asyncio.to_thread(self._answerer.warm_up)
        start_ms = (time.perf_counter() - began) * 1000
        response = await self._respond(sample)
        return response.model_copy(update={"first_call_ms": start_ms + (response.latency_ms or 0.0)})

    async def _respond(self, sample: Sample) -> Response:
        await self._retrieving.acquire()
        search = asyncio.ensure_future(asyncio.to_thread(self._find, sample.query))
        search.add_done_callback(self._searched)
        try:
            async with asyncio.timeout(self.config.timeout_s):
                retrieved, took_ms = await asyncio.shield(search)
        except TimeoutError:
            return Response(retrieved_doc_ids=(), error=self._late("nothing was retrieved"))
        return await self._answered(sample, self._response(retrieved, took_ms))

    def _searched(self, search: asyncio.Future[tuple[SearchResult, float]]) -> None:
        """Let the next search begin. A thread can't be stopped, so a search that is too late keeps its turn until it ends."""
        self._retrieving.release()
        if not search.cancelled():
            search.exception()  # read, so that asyncio does not log the error of a search that came too late

    def _find(self, query: str) -> tuple[SearchResult, float]:
        began = time.perf_counter()
        retrieved = self.retriever.search(query, self.config.k)
        return retrieved, (time.perf_counter() - began) * 1000

    def _response(self, retrieved: SearchResult, took_ms: float) -> Response:
        ids = tuple(hit.id for hit in retrieved.hits)
        return Response(
            contexts=tuple(self._texts[i] for i in ids[: self.config.contexts]),
            retrieved_doc_ids=ids,
            retrieved_scores=tuple(hit.score for hit in retrieved.hits),
            retrieval_latency_ms=took_ms,
            latency_ms=took_ms,
            doc_ids_before_reranking=retrieved.before,
        )

    async def _answered(self, sample: Sample, response: Response) -> Response:
        if self._answerer is None:
            return response
        left_s = self.config.timeout_s - (response.latency_ms or 0.0) / 1000
        try:
            async with asyncio.timeout(left_s):
                answer = await self._answerer.answer(sample, response.contexts or ())
        except TimeoutError:
            return response.model_copy(update={"latency_ms": None, "error": self._late("nothing was answered")})
        except (BadSettings, ProviderDown):
            raise
        except (BadInput, Unavailable) as error:
            return response.model_copy(update={"latency_ms": None, "error": reason_from(error)})
        whole = None if answer.latency_ms is None else (response.latency_ms or 0.0) + answer.latency_ms
        return response.model_copy(
            update={
                "answer": answer.text,
                "model": answer.model,
                "input_tokens": answer.input_tokens,
                "output_tokens": answer.output_tokens,
                "cost_usd": answer.cost_usd,
                "generation_latency_ms": answer.latency_ms,
                "latency_ms": whole,
            }
        )

    def _late(self, what: str) -> str:
        return f"{what} within {self.config.timeout_s:g} s"
