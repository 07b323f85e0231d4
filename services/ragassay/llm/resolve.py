"""The only importer of LiteLLM, on first use: it takes three seconds and 160 MB.

From a model's name to its provider here too: what LiteLLM calls it, which parameters it takes, its key and its prices.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from ragassay.core.errors import BadSettings
from ragassay.core.eval_config import Price
from ragassay.core.settings import provider_address

_PLACEHOLDER_KEY = "no-key-needed"
_THINKING_TOKENS = 4096
_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_LOADED_LATE = (
    "openai.resources.chat",
    "openai.resources.responses",
    "litellm._service_logger",
    "litellm.proxy._types",
)
_CALLBACKS = (  # at its first call LiteLLM moves those that are async to the last two
    "callbacks",
    "success_callback",
    "failure_callback",
    "_async_success_callback",
    "_async_failure_callback",
)
_CLOSERS: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = WeakKeyDictionary()


@cache
def litellm() -> Any:
    """The library, kept from the network and from printing, with what it else loads during the first call.

    Imports are no latency of a provider's, or of a system under test.
    """
    # Without this, importing LiteLLM reads a .env of a folder above, which may name the address that a key is sent to.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    # Without this, importing LiteLLM fetches its price table.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm as library

    library.suppress_debug_info = True  # else it prints a banner to stdout on errors
    for module in _LOADED_LATE:
        with suppress(ImportError):  # LiteLLM's own modules; another version may have moved them
            import_module(module)
    return library


def warm_up() -> None:
    """Load LiteLLM and its table of models, for the start of a long run, a worker's parent before it forks, and benches
    that leave imports out.

    All that is in memory by then is set apart from garbage collection, which else costs every call two milliseconds.
    """
    litellm()
    model_table()
    gc.freeze()


@cache
def model_table() -> Mapping[str, Mapping[str, Any]]:
    """LiteLLM's table of models, read from its file: importing the library takes seconds, the file milliseconds.

    Raises BadSettings where this version of LiteLLM has no such file: no cost would be known.
    """
    spec = find_spec("litellm")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder is None:
        return {}
    file = folder / "model_prices_and_context_window_backup.json"
    if not file.exists():
        raise BadSettings(
            "LiteLLM's table of prices is not there", where=str(file), hint="install another LiteLLM version"
        )
    table: Mapping[str, Mapping[str, Any]] = orjson.loads(file.read_bytes())
    return table


@cache
def provider_errors() -> tuple[type[Exception], ...]:
    """What a call can raise. LiteLLM lets errors of many kinds through where a server's reply has an odd form."""
    from openai import OpenAIError

    return (OpenAIError, ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep LiteLLM from making a log record of each call, which takes a millisecond, where no callback of the user's reads it."""
    library = litellm()
    try:
        is_internal_call = import_module("litellm._internal_context").is_internal_call
    except (ImportError, AttributeError):  # another version may have moved it
        yield
        return
    token = is_internal_call.set(not any(getattr(library, name, ()) for name in _CALLBACKS))
    try:
        yield
    finally:
        is_internal_call.reset(token)


async def close_with_loop() -> None:
    """See to it that LiteLLM's connections of this loop are closed with it: a loop closes its open generators."""
    loop = asyncio.get_running_loop()
    if loop not in _CLOSERS:
        _CLOSERS[loop] = _connections()
        await anext(_CLOSERS[loop])


async def _connections() -> AsyncGenerator[None, None]:
    mine = f"-{id(asyncio.get_running_loop())}"
    try:
        yield
    finally:
        clients = litellm().in_memory_llm_clients_cache
        for key in [key for key in clients.cache_dict if key.endswith(mine)]:
            client = clients.cache_dict[key]
            clients.delete_cache(key)
            with suppress(OSError, RuntimeError):
                await client.close()
        await asyncio.sleep(0)


@dataclass(frozen=True)
class ResolvedModel:
    """How LiteLLM reaches a model. ``sent`` are the parameters that the provider takes, ``left_out`` the others.

    ``key`` None leaves it to LiteLLM to read the provider's environment variable; ``key_hint`` says what to do about a
    missing or wrong one. ``thinking_tokens`` are allowed on top of the reply's, where the model thinks at length.
    ``first_form``: the strictest form of a reply that is worth asking for.
    """

    name: str
    provider: str
    endpoint: str
    sent: Mapping[str, Any]
    left_out: tuple[str, ...]
    key: str | None
    key_hint: str
    thinking_tokens: int
    first_form: str


def resolve_model(
    model: str, api_base: str | None, api_key: str | None, parameters: Mapping[str, Any]
) -> ResolvedModel:
    """How to reach a model; raises BadSettings where the name has no provider, or the key is known to be missing."""
    library = litellm()
    own_server = api_base and model.partition("/")[0] not in library.provider_list
    name = f"openai/{model}" if own_server else model
    try:
        bare, provider, _, its_address = library.get_llm_provider(name, api_base=api_base)
    except library.BadRequestError:
        hint = "write provider/model, such as openai/gpt-4o-mini, or set api_base"
        raise BadSettings(f"unknown model {name!r}", hint=hint) from None
    missing = missing_keys(name)
    if provider == "openai" and missing and not api_key and not api_base:
        # LiteLLM would report this one as a failure of the server.
        raise BadSettings("there is no key for this model", where=name, hint=f"set {missing[0]}")
    taken = [key for key, value in parameters.items() if _takes(provider, bare, key, value)]
    thinks = library.supports_reasoning(model=bare, custom_llm_provider=provider) and "claude" not in bare
    return ResolvedModel(
        name=name,
        provider=provider,
        endpoint=normalised(api_base or its_address or provider_address(provider) or ""),
        sent={key: parameters[key] for key in taken},
        left_out=tuple(key for key in parameters if key not in taken),
        key=api_key or (_PLACEHOLDER_KEY if api_base and missing else None),
        key_hint=f"set {missing[0]}" if missing and not api_key else "check the key",
        thinking_tokens=_THINKING_TOKENS if thinks else 0,
        first_form=_first_form(provider, bare, hosted=not api_base),
    )


def normalised(address: str) -> str:
    """The address without credentials, query and closing slash; scheme and host in lower case, no usual port."""
    import httpx

    try:
        url = httpx.URL(address if "://" in address else f"http://{address}")
    except httpx.InvalidURL:
        return address.rpartition("@")[2].rstrip("/")
    if not url.host:
        return ""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None)).rstrip("/")


def missing_keys(model: str) -> list[str]:
    """Environment variables for a key that the model's provider wants and that are not set; none for local servers."""
    missing = litellm().validate_environment(model)["missing_keys"]
    return [variable for variable in missing if variable.endswith(("_KEY", "_TOKEN"))]


def _first_form(provider: str, model: str, *, hosted: bool) -> str:
    """``json_schema``, unless LiteLLM says that the model does not take it; its table knows hosted models alone."""
    library = litellm()
    if "response_format" not in (library.get_supported_openai_params(model, custom_llm_provider=provider) or ()):
        return "prompt"
    row = model_table().get(f"{provider}/{model}") or model_table().get(model) or {}
    if not hosted or not row.get("input_cost_per_token"):  # without a price it is a server of the user's own
        return "json_schema"
    taken = library.supports_response_schema(model=model, custom_llm_provider=provider)
    return "json_schema" if taken else "json_object"


def _takes(provider: str, model: str, name: str, value: object) -> bool:
    """Does the provider take this parameter? LiteLLM drops what it knows the provider to refuse."""
    from litellm.utils import get_optional_params

    without = get_optional_params(model=model, custom_llm_provider=provider, drop_params=True)
    given = get_optional_params(model=model, custom_llm_provider=provider, drop_params=True, **{name: value})
    return bool(given != without)


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
