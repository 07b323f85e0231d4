"""The only importer of LiteLLM, on first use: it takes three seconds and 160 MB."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

_LOADED_LATE = (
    "openai.resources.chat",
    "openai.resources.responses",
    "litellm._service_logger",
    "litellm.proxy._types",
)
_CLOSERS: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = WeakKeyDictionary()


@cache
def litellm() -> Any:
    """The library, kept from the network and from printing."""
    # Without this, importing LiteLLM fetches its price table.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm as library

    library.suppress_debug_info = True  # else it prints a banner to stdout on errors
    return library


def warm_up() -> None:
    """Import LiteLLM and what it loads with the first call; takes seconds, starts nothing and sends nothing.

    For the start of a long run, a worker's parent process before it forks, and benches that leave imports out. All
    that is in memory by then is set apart from garbage collection, which else costs every call two milliseconds.
    """
    litellm()
    for module in _LOADED_LATE:
        with suppress(ImportError):  # LiteLLM's own rooms; another version may have moved them
            import_module(module)
    gc.freeze()


@cache
def provider_errors() -> tuple[type[Exception], ...]:
    """What a call can raise. LiteLLM lets errors of many kinds through where a server's reply has an odd form."""
    from openai import OpenAIError

    return (OpenAIError, ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def takes(provider: str, model: str, name: str, value: object) -> bool:
    """Does the provider take this parameter? LiteLLM drops what it knows the provider to refuse."""
    from litellm.utils import get_optional_params

    without = get_optional_params(model=model, custom_llm_provider=provider, drop_params=True)
    given = get_optional_params(model=model, custom_llm_provider=provider, drop_params=True, **{name: value})
    return bool(given != without)


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
