"""Answerers: they answer from passages, with sentences taken from them or with a language model."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence

from ragassay.core.errors import BadInput
from ragassay.core.models import Sample
from ragassay.core.prompts import load
from ragassay.core.protocols import Call, Ledger, Reply
from ragassay.core.text import content, sentences
from ragassay.llm import ChatModel
from ragassay.systems.builtin import Answer

SENTENCES = 2  # of an extracted answer
LATER_CONTEXT = 0.9  # what a sentence of the next context counts, of one in the context before
NEW_SHARE = 0.2  # of the query's weight that a further sentence must add


class Extractive:
    """Answers with sentences of the contexts, as they stand: needs no key, costs nothing, and invents nothing.

    A sentence's score is the weight of the query's stems in it, each weighted by its rarity among all the sentences
    (ln(1 + sentences / sentences with it)), less a tenth for each context that was ranked before its own. The best
    sentence is the answer; another one follows where it adds at least a fifth of the query's weight. They stand in the
    order of the contexts. Where no sentence shares a stem with the query, the answer says that nothing was found.
    """

    models = ("extractive",)

    def warm_up(self) -> None:
        """Build the patterns that cut sentences."""
        extract("warm up", ["Warm up."])

    async def answer(self, sample: Sample, contexts: Sequence[str]) -> Answer:
        """The answer, and the time that it took."""
        began = time.perf_counter()
        text = extract(sample.query, contexts)
        return Answer(
            text, latency_ms=(time.perf_counter() - began) * 1000, input_tokens=0, output_tokens=0, cost_usd=0.0
        )


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

    def __init__(self, llm: ChatModel, ledger: Ledger, max_tokens: int) -> None:
        self._llm, self._ledger, self._max_tokens = llm, ledger, max_tokens
        self._prompt = load("answer/grounded")

    @property
    def models(self) -> tuple[str, ...]:
        """The model and the version of the prompt."""
        return (f"{self._llm.model} (prompt {self._prompt.name} {self._prompt.version})",)

    def warm_up(self) -> None:
        """Import what the first call needs; raises BadSettings where the model is unknown or has no key."""
        self._llm.warm_up()

    async def answer(self, sample: Sample, contexts: Sequence[str]) -> Answer:
        """The answer with tokens, cost and the time of the call; taken from the ledger where it was paid before."""
        passages = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(contexts, 1)) or "(none)"
        messages = [
            {"role": "system", "content": self._prompt.text},
            {"role": "user", "content": f"Passages:\n\n{passages}\n\nQuestion: {sample.query}"},
        ]
        asked = [self._llm.endpoint, dict(self._llm.settings), self._prompt.version, messages, self._max_tokens]
        reply = await self._llm.complete(
            messages,
            schema=None,
            schema_name="answer",
            max_tokens=self._max_tokens,
            call=Call.about(sample.query_id, "answer", asked),
            ledger=self._ledger,
            read=_text,
        )
        text = _text(reply)
        if text is None:
            raise BadInput(f"the model gave no answer ({reply.finish_reason})")
        spent = reply.usage
        return Answer(
            text,
            latency_ms=spent.latency_ms,
            model=self._llm.model,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            cost_usd=spent.cost_usd,
        )


def _text(reply: Reply) -> str | None:
    """The answer in a reply; None where the provider cut it off or withheld it before its first word."""
    text = reply.text.strip()
    return text if text or reply.finish_reason == "stop" else None
