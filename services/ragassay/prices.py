"""What a model's tokens cost: LiteLLM's bundled table, with the configuration's prices on top."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from ragassay.specification import Price


class Prices:
    """Looks prices up by model name; a model without a price has an unknown cost, never zero."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._overrides = dict(overrides or {})

    def of(self, model: str) -> Price | None:
        """The model's price; names are tried as given, then without their provider prefix."""
        for name in (model, model.partition("/")[2]):
            if name in self._overrides:
                return self._overrides[name]
        for name in (model, model.partition("/")[2]):
            row = model_table().get(name) if name else None
            if row and "input_cost_per_token" in row and "output_cost_per_token" in row:
                costs = (row["input_cost_per_token"] or 0.0, row["output_cost_per_token"] or 0.0)
                return Price(input_per_1m=costs[0] * 1e6, output_per_1m=costs[1] * 1e6)
        return None

    def context_window(self, model: str) -> int | None:
        """Tokens that a model of LiteLLM's table reads; None for any other."""
        for name in (model, model.partition("/")[2]):
            if isinstance(tokens := model_table().get(name, {}).get("max_input_tokens"), int):
                return tokens
        return None

    def cost(
        self, model: str | None, input_tokens: int | None, output_tokens: int | None, cached_tokens: int = 0
    ) -> float | None:
        """Cost in USD; None when the model, its price or its tokens are unknown.

        ``cached_tokens``: those of the input that came from the provider's prompt cache, which have a price of their own.
        """
        price = self.of(model) if model else None
        if model is None or price is None or input_tokens is None or output_tokens is None:
            return None
        full = (input_tokens * price.input_per_1m + output_tokens * price.output_per_1m) / 1e6
        row = model_table().get(model) or model_table().get(model.partition("/")[2]) or {}
        listed, reduced = row.get("input_cost_per_token"), row.get("cache_read_input_token_cost")
        if not cached_tokens or reduced is None or listed is None or abs(listed * 1e6 - price.input_per_1m) > 1e-9:
            return full  # no reduced price is known, or the configuration set its own
        return float(full - min(cached_tokens, input_tokens) * (listed - reduced))


@cache
def model_table() -> Mapping[str, Mapping[str, Any]]:
    """LiteLLM's table, read from its file: importing the library takes seconds, the file milliseconds."""
    spec = find_spec("litellm")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    file = folder / "model_prices_and_context_window_backup.json" if folder else None
    table: Mapping[str, Mapping[str, Any]] = orjson.loads(file.read_bytes()) if file and file.exists() else {}
    return table
