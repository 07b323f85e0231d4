"""From a model's name to the provider: what LiteLLM calls it, which parameters it takes, its key and its price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragassay.errors import BadSettings
from ragassay.llm.library import litellm, takes
from ragassay.prices import Prices

_PLACEHOLDER_KEY = "no-key-needed"
_THINKING_TOKENS = 4096


@dataclass(frozen=True)
class Route:
    """How LiteLLM reaches a model. ``sent`` are the parameters that the provider takes, ``left_out`` the others.

    ``key`` None leaves it to LiteLLM to read the provider's environment variable; ``key_hint`` says what to do about a
    missing or wrong one. ``thinking_tokens`` are allowed on top of the reply's, where the model thinks at length.
    """

    name: str
    sent: Mapping[str, Any]
    left_out: tuple[str, ...]
    key: str | None
    key_hint: str
    thinking_tokens: int


def find_route(model: str, api_base: str | None, api_key: str | None, parameters: Mapping[str, Any]) -> Route:
    """The route to a model; raises BadSettings where the name says no provider, or the key is known to be missing."""
    library = litellm()
    own_server = api_base and model.partition("/")[0] not in library.provider_list
    name = f"openai/{model}" if own_server else model
    try:
        bare, provider, _, _ = library.get_llm_provider(name, api_base=api_base)
    except library.BadRequestError:
        hint = "write provider/model, such as openai/gpt-4o-mini, or give --api-base"
        raise BadSettings(f"unknown model {name!r}", hint=hint) from None
    missing = [v for v in library.validate_environment(name)["missing_keys"] if v.endswith(("_KEY", "_TOKEN"))]
    if provider == "openai" and missing and not api_key and not api_base:
        # LiteLLM would report this one as a failure of the server.
        raise BadSettings("there is no key for this model", where=name, hint=f"set {missing[0]}")
    taken = [key for key, value in parameters.items() if takes(provider, bare, key, value)]
    thinks = library.supports_reasoning(model=bare, custom_llm_provider=provider) and "claude" not in bare
    return Route(
        name=name,
        sent={key: parameters[key] for key in taken},
        left_out=tuple(key for key in parameters if key not in taken),
        key=api_key or (_PLACEHOLDER_KEY if api_base and missing else None),
        key_hint=f"set {missing[0]}" if missing and not api_key else "check the key",
        thinking_tokens=_THINKING_TOKENS if thinks else 0,
    )


def cost(prices: Prices, model: str, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float | None:
    """Price in USD; None where it is unknown. Tokens from the provider's prompt cache have a price of their own."""
    whole, price = prices.cost(model, input_tokens, output_tokens), prices.of(model)
    if whole is None or price is None or not cached_tokens:
        return whole
    table = litellm().model_cost
    row = table.get(model) or table.get(model.partition("/")[2]) or {}
    listed, reduced = row.get("input_cost_per_token"), row.get("cache_read_input_token_cost")
    if reduced is None or listed is None or abs(listed * 1e6 - price.input_per_1m) > 1e-9:
        return whole  # no reduced price is known, or the configuration set its own
    return float(whole - min(cached_tokens, input_tokens) * (listed - reduced))
