"""What an option may say of the address that requests go to, and of what is sent there beside our own fields."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

LARGEST_BODY = 10_000  # characters of what a request's body holds beside our own fields
_OURS = frozenset(
    """model models fallbacks messages prompt input stream n response_format tools tool_choice functions function_call
    max_tokens max_completion_tokens temperature top_p top_k frequency_penalty presence_penalty reasoning_effort seed
    """.split()
)
_ADDRESS_OR_KEY = re.compile(
    r"(?:key|token|secret|password|credentials?|authorization|headers?|url|api_?base|endpoint|host)$", re.IGNORECASE
)


def is_address(text: str | None) -> bool:
    """True for an address that can be connected to, and for none; ValueError where its host or port can't be read."""
    try:
        urlsplit(text if "://" in (text or "") else f"//{text}").port  # noqa: B018 - it raises
    except ValueError:  # whose text may hold a part of the password
        raise ValueError("no address: write http://HOST:PORT, the port a number up to 65535") from None
    return True


def is_url(value: object) -> bool:
    """Is it the address of an endpoint, rather than a path?"""
    return isinstance(value, str) and value.lower().startswith(("http://", "https://"))


def is_bare_address(text: str | None) -> bool:
    """True for an address that may be shown, and for none; ValueError also where it holds a user or a password."""
    if is_address(text) and text and "@" in urlsplit(text if "://" in text else f"//{text}").netloc:
        raise ValueError("it holds a user or a password, and reports name it: a key has a variable of its own")
    return True


def is_extra(body: Mapping[str, Any]) -> bool:
    """True for an ``extra_body``; ValueError where it changes what or who is asked, or holds a key: reports print it."""
    if taken := sorted(body.keys() & _OURS):
        raise ValueError(f"it can't set {', '.join(taken)}: that is set elsewhere or not at all")
    todo: list[Any] = [body]
    while todo:
        part = todo.pop()
        inner = list(part.values()) if isinstance(part, dict) else part if isinstance(part, list) else ()
        todo += inner
        for name in part if isinstance(part, dict) else ():
            if _ADDRESS_OR_KEY.search(name):
                raise ValueError(
                    f"it can't set {name}: addresses and keys are variables of the environment, and never here"
                )
    if len(json.dumps(body)) > LARGEST_BODY:
        raise ValueError(f"it should be at most {LARGEST_BODY:,} characters of JSON")
    return True
