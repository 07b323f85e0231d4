"""A provider's response, read: its text, where the model hesitated, and the tokens that it bills."""

from __future__ import annotations

import math
from typing import Any

CERTAIN = 0.999  # of a token's probability; what is as likely is not kept
Alternatives = tuple[tuple[int, dict[str, float]], ...]


def text_of(message: Any) -> str:
    """The text of a message; empty where it has none."""
    text = getattr(message, "content", "")
    return without_surrogates(text) if isinstance(text, str) else ""


def billed(usage: Any) -> tuple[int, int] | None:
    """Input and output tokens that the provider reports; None where it reports none, or no numbers of tokens."""
    sent, written = (tokens_of(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    return None if not sent or written is None else (sent, written)


def tokens_of(counts: Any, name: str) -> int | None:
    """A number of tokens that a provider reports, 0 where it reports none; None where that is no such number."""
    value = getattr(counts, name, 0) or 0
    return int(value) if isinstance(value, int | float) and 0 <= value < math.inf else None


def alternatives(choice: Any, text: str) -> Alternatives | None:
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


def without_surrogates(text: str) -> str:
    """``text`` with each lone surrogate, which JSON allows and UTF-8 does not, replaced by U+FFFD; whole pairs stay."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def readable(value: Any) -> Any:
    """A value of a JSON document, all of its texts without lone surrogates."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [readable(each) for each in value]
    if isinstance(value, dict):
        return {without_surrogates(key): readable(each) for key, each in value.items()}
    return value
