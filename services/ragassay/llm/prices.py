"""What a model's tokens cost: LiteLLM's table and its rules, with the configuration's prices on top."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragassay.core.eval_config import Price
from ragassay.llm.resolve import litellm, model_table, provider_errors

_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


class Prices:
    """Looks prices up by model name; a model without a price has an unknown cost, never zero."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._overrides = dict(overrides or {})

    def of(self, model: str) -> Price | None:
        """The model's price; names are tried as given, then without their provider prefix."""
        if price := self._override(model):
            return price
        _, row = listed(model)
        if "input_cost_per_token" not in row or "output_cost_per_token" not in row:
            return None
        costs = (row["input_cost_per_token"] or 0.0, row["output_cost_per_token"] or 0.0)
        return Price(input_per_1m=costs[0] * 1e6, output_per_1m=costs[1] * 1e6)

    def cost(
        self,
        model: str | None,
        input_tokens: int | None,
        output_tokens: int | None,
        *,
        cached_tokens: int = 0,
        written_tokens: int = 0,
    ) -> float | None:
        """Cost in USD; None when the model, its price or its tokens are unknown, or LiteLLM can't price them.

        ``cached_tokens`` and ``written_tokens``: those of the input that the provider's prompt cache held, and that were
        written to it. They have prices of their own, as very long inputs do; a price of the configuration is for all tokens.
        """
        price = self.of(model) if model else None
        if model is None or price is None or input_tokens is None or output_tokens is None:
            return None
        name, row = listed(model)
        tiers = [1000 * int(tier[1]) for key in row if (tier := _ABOVE.fullmatch(key))]
        is_plain = not (cached_tokens or written_tokens or any(input_tokens > tier for tier in tiers))
        if is_plain or self._override(model):  # LiteLLM, which takes seconds to import, would say the same
            return (input_tokens * price.input_per_1m + output_tokens * price.output_per_1m) / 1e6
        cached = min(cached_tokens, input_tokens)
        try:
            costs = litellm().cost_per_token(
                model=name,
                prompt_tokens=input_tokens,
                completion_tokens=output_tokens,
                cache_read_input_tokens=cached,
                cache_creation_input_tokens=min(written_tokens, input_tokens - cached),
            )
        except provider_errors():
            return None
        return float(sum(costs))

    def _override(self, model: str) -> Price | None:
        return self._overrides.get(model) or self._overrides.get(model.partition("/")[2])


def listed(model: str) -> tuple[str, Mapping[str, Any]]:
    """A model's name in LiteLLM's table, as given or without its provider, and its row there; empty for any other."""
    for name in (model, model.partition("/")[2]):
        if row := model_table().get(name):
            return name, row
    return model, {}
