"""Where a model hesitated: the tokens that it might have written, read from the log-probabilities of a reply."""

from __future__ import annotations

import math
from typing import Any

from ragassay.llm.text import without_surrogates

CERTAIN = 0.999  # of a token's probability; what is as likely is not kept


def alternatives(choice: Any, text: str) -> tuple[tuple[int, dict[str, float]], ...] | None:
    """By its place in ``text``, in characters, each token that was not certain: its probability first, then those of the others.

    None where the reply has no log-probabilities, or where its tokens do not make up the text.
    """
    tokens = getattr(getattr(choice, "logprobs", None), "content", None)
    if not tokens or not all(isinstance(getattr(token, "token", None), str) for token in tokens):
        return None
    start = "".join(token.token for token in tokens).find(text)
    if start < 0 or not text:
        return None
    place, hesitant = -start, []
    for token in tokens:
        others = {without_surrogates(each.token): _probability(each.logprob) for each in token.top_logprobs or ()}
        own = without_surrogates(token.token)
        likely = {own: _probability(token.logprob), **others}
        if likely[own] < CERTAIN and 0 <= place < len(text):
            hesitant.append((place, likely))
        place += len(token.token)
    return tuple(hesitant)


def _probability(logprob: float | None) -> float:
    return round(math.exp(min(0.0, logprob)), 6) if logprob is not None and not math.isnan(logprob) else 0.0
