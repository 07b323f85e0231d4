"""Systems under test that ragassay runs itself: they retrieve, answer with sentences or a language model, and measure both."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from ragassay.core.aio import together
from ragassay.core.errors import BadInput, BadSettings, ProviderDown, Unavailable, reason_from
from ragassay.core.models import Response, Sample
from ragassay.core.prompts import load
from ragassay.core.protocols import Call, Journal, Reply, digest
from ragassay.core.report import Built, Source
from ragassay.core.text import content, sentences
from ragassay.datasets.corpus import Corpus
from ragassay.llm import LLM
from ragassay.systems.options import SystemConfig
from ragassay.systems.retrieval import Retriever

SENTENCES = 2  # of an extracted answer
LATER_CONTEXT = 0.9  # what a sentence of the next context counts, of one in the context before
NEW_SHARE = 0.2  # of the query's weight that a further sentence must add


class Answerer(Protocol):
    """Answers a query from contexts."""

    @property
    def models(self) -> tuple[str, ...]:
        """What answers, and the version of its prompt; kept in the report."""

    def warm_up(self) -> None:
        """Import and load what the first answer would have to wait for; makes no request."""

    async def answer(self, sample: Sample, contexts: Sequence[str]) -> Response:
        """An answer with its tokens, cost and ``generation_latency_ms``.

        Raises BadInput and Unavailable if this query can't be answered, BadSettings if none can.
        """


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

    def __init__(self, name: str, config: SystemConfig, retriever: Retriever, answerer: Answerer | None = None) -> None:
        self._name, self.config, self.retriever, self._answerer = name, config, retriever, answerer
        self._texts = {passage.id: passage.full for passage in retriever.corpus.passages}
        self._slots = asyncio.Semaphore(config.concurrency)
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

        The first query is alone, since it also opens connections.
        """
        async with self._slots:
            async with self._first:
                if not self._started:
                    self._started = True
                    await asyncio.to_thread(self.retriever.warm_up)
                    if self._answerer is not None:
                        await asyncio.to_thread(self._answerer.warm_up)
                    return await self._respond(sample)
            return await self._respond(sample)

    async def query_all(self, samples: Iterable[Sample], keep: Callable[[Sample, Response], object]) -> None:
        """Respond to all of these; ``keep`` is called with each response as it comes."""
        rows = iter(samples)

        async def answer() -> None:
            for sample in rows:
                keep(sample, await self.respond(sample))

        await together([answer() for _ in range(self.config.concurrency)])

    async def close(self) -> None:
        """Nothing to close."""

    async def _respond(self, sample: Sample) -> Response:
        await self._retrieving.acquire()
        search = asyncio.ensure_future(asyncio.to_thread(self._retrieved, sample.query))
        search.add_done_callback(self._searched)
        try:
            async with asyncio.timeout(self.config.timeout_s):
                response = await asyncio.shield(search)
        except TimeoutError:
            return Response(retrieved_doc_ids=(), error=f"nothing was retrieved within {self.config.timeout_s:g} s")
        return response if self._answerer is None else await self._answered(sample, response, self._answerer)

    def _searched(self, search: asyncio.Future[Response]) -> None:
        """Let the next search begin. A thread can't be stopped, so a search that is too late keeps its turn until it ends."""
        self._retrieving.release()
        if not search.cancelled():
            search.exception()  # read, so that asyncio does not log the error of a search that came too late

    def _retrieved(self, query: str) -> Response:
        began = time.perf_counter()
        result = self.retriever.search(query, self.config.k)
        took_ms = (time.perf_counter() - began) * 1000
        ids = tuple(hit.id for hit in result.hits)
        return Response(
            contexts=tuple(self._texts[i] for i in ids[: self.config.contexts]),
            retrieved_doc_ids=ids,
            retrieved_scores=tuple(hit.score for hit in result.hits),
            retrieval_latency_ms=took_ms,
            latency_ms=took_ms,
            doc_ids_before_reranking=result.before,
        )

    async def _answered(self, sample: Sample, response: Response, answerer: Answerer) -> Response:
        retrieval_ms = response.latency_ms or 0.0
        try:
            async with asyncio.timeout(self.config.timeout_s - retrieval_ms / 1000):
                answer = await answerer.answer(sample, response.contexts or ())
        except TimeoutError:
            error = f"nothing was answered within {self.config.timeout_s:g} s"
        except (BadSettings, ProviderDown):
            raise
        except (BadInput, Unavailable) as failure:
            error = reason_from(failure)
        else:
            took_ms = answer.generation_latency_ms
            whole = None if took_ms is None else retrieval_ms + took_ms
            return response.model_copy(update={**answer.model_dump(exclude_unset=True), "latency_ms": whole})
        return response.model_copy(update={"latency_ms": None, "error": error})


class Extractive:
    """Answers with unchanged sentences of the contexts: needs no key, costs nothing, and invents nothing.

    A sentence's score is the weight of the query's stems in it, each weighted by its rarity among all the sentences
    (ln(1 + sentences / sentences with it)), less a tenth for each context that was ranked before its own. The best
    sentence is the answer; another one follows if it adds at least a fifth of the query's weight. They are in the order
    of the contexts. If no sentence shares a stem with the query, the answer says that nothing was found.
    """

    models = ("extractive",)

    def warm_up(self) -> None:
        """Build the patterns that cut sentences."""
        extract("warm up", ["Warm up."])

    async def answer(self, sample: Sample, contexts: Sequence[str]) -> Response:
        """The answer, and the time that it took."""
        began = time.perf_counter()
        text = extract(sample.query, contexts)
        took_ms = (time.perf_counter() - began) * 1000
        return Response(answer=text, generation_latency_ms=took_ms, input_tokens=0, output_tokens=0, cost_usd=0.0)


NOTHING = "The passages do not answer this."


def extract(query: str, contexts: Sequence[str]) -> str:
    """The sentences of ``contexts`` that best match the query; see ``Extractive``."""
    pool = [(rank, text) for rank, context in enumerate(contexts) for text in dict.fromkeys(sentences(context))]
    stems = [content(text) for _, text in pool]
    wanted = content(query)
    frequency = Counter(stem for one in stems for stem in one & wanted)
    weight = {stem: math.log1p(len(pool) / n) for stem, n in frequency.items()}
    total, covered, chosen = sum(weight[stem] for stem in sorted(weight)), set[str](), list[int]()
    while len(chosen) < min(SENTENCES, len(pool)):
        gains = [
            round(sum(weight[s] for s in sorted((one & wanted) - covered)) * LATER_CONTEXT ** pool[n][0], 9)
            for n, one in enumerate(stems)
        ]
        best = max(range(len(pool)), key=lambda n: (gains[n], -n))
        if gains[best] <= 0 or (chosen and gains[best] < NEW_SHARE * total):
            break
        chosen.append(best)
        covered |= stems[best] & wanted
    return " ".join(pool[n][1] for n in sorted(chosen)) or NOTHING


class Generative:
    """Answers with a language model. What it spends is the system's own money: never mixed with the judge's."""

    def __init__(self, llm: LLM, journal: Journal, max_tokens: int) -> None:
        self._llm, self._journal, self._max_tokens = llm, journal, max_tokens
        self._prompt = load("answer/grounded")

    @property
    def models(self) -> tuple[str, ...]:
        """The model and the version of the prompt."""
        return (f"{self._llm.model} (prompt {self._prompt.name} {self._prompt.version})",)

    def warm_up(self) -> None:
        """Import what the first call needs; raises BadSettings where the model is unknown or has no key."""
        self._llm.warm_up()

    async def answer(self, sample: Sample, contexts: Sequence[str]) -> Response:
        """The answer with tokens, cost and the time of the call; taken from the journal where it was paid before."""
        passages = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(contexts, 1)) or "(none)"
        messages = [
            {"role": "system", "content": self._prompt.text},
            {"role": "user", "content": f"Passages:\n\n{passages}\n\nQuestion: {sample.query}"},
        ]
        call_content = [self._llm.endpoint, dict(self._llm.settings), self._prompt.version, messages, self._max_tokens]
        reply, text = await self._llm.complete(
            messages,
            schema=None,
            schema_name="answer",
            max_tokens=self._max_tokens,
            call=Call.about(sample.query_id, "answer", call_content),
            journal=self._journal,
            read=_text,
        )
        if text is None:
            raise BadInput(f"the model gave no answer ({reply.finish_reason})")
        spent = reply.usage
        return Response(
            answer=text,
            generation_latency_ms=spent.latency_ms,
            model=self._llm.model,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_usd=spent.cost_usd,
        )


def _text(reply: Reply) -> str | None:
    """The answer in a reply; None where the provider cut it off or withheld it before its first word."""
    text = reply.text.strip()
    return text if text or reply.finish_reason == "stop" else None
