"""What went wrong with an attempt to reach a model: an exception of LiteLLM's, read as one of our errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragassay.errors import AssayError, BadInput, BadSettings, RateLimited, TimedOut, TooLarge, Unavailable
from ragassay.llm.pacing import retry_after

_AGAIN = frozenset({408, 409, 429})
_WHOLE_RUN = {
    401: ("refused the key", "check the key"),
    402: ("wants to be paid first", "add credit to the account behind the key"),
    403: ("forbids it", "check what the key may do"),
    404: ("knows no such model or address", "check the model's name and --api-base"),
}
_KEYLIKE = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|AIza)[-_]?[\w*.-]{8,}|\bBearer\s+\S+", re.IGNORECASE)
_KEY_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_LITELLM_HEAD = re.compile(r"^.{0,120}?\w+Exception - |^(?:(?:litellm\.)?\w*(?:Error|Timeout|Exception)\b:? ?)+")
_FORMAT_WORDS = re.compile(r"response_format|json_schema|json_object|structured output|grammar|guided", re.IGNORECASE)


@dataclass(frozen=True)
class Failure:
    """One attempt's end. ``error`` is what is raised when no further attempt is made.

    ``again``: worth another attempt. ``uncertain``: it may have been paid. ``limited``: the provider asked to slow
    down. ``fatal``: every other call would fail the same way. ``of_format``: it is the answer's format that is refused.
    """

    error: AssayError
    again: bool = False
    uncertain: bool = False
    limited: bool = False
    fatal: bool = False
    of_format: bool = False
    wait: float | None = None


def diagnose(exception: BaseException, model: str, *, key: str | None, hint: str, timeout_s: float) -> Failure:
    """Read an exception; ``hint`` is what to do about a missing or wrong ``key``, which no message ever shows."""
    headers = _headers(exception)
    status = getattr(exception, "status_code", None)
    said = message(exception, key)
    if _timed_out(exception) and headers is None:
        late = TimedOut(f"no answer within {timeout_s:g} s", where=model, hint="raise the timeout or try later")
        return Failure(late, again=True, uncertain=True)
    if not isinstance(status, int) or (status >= 500 and headers is None):
        silent = Unavailable(f"no usable answer: {said}", where=model, hint="is the address right and the server up?")
        return Failure(silent, again=True, uncertain=not _never_sent(exception))
    if status == 429 and _out_of_credit(exception):
        return Failure(BadSettings(f"the account has no credit left: {said}", where=model), fatal=True)
    if status in _AGAIN or status >= 500:
        wait = retry_after(headers or {})
        if status == 429:
            limited = RateLimited(f"the provider asks to slow down: {said}", where=model, retry_after=wait)
            return Failure(limited, again=True, limited=True, wait=wait)
        failed = Unavailable(f"the provider failed ({status}): {said}", where=model, retry_after=wait)
        return Failure(failed, again=True, wait=wait)
    if status in _WHOLE_RUN:
        what, todo = _WHOLE_RUN[status]
        return Failure(
            BadSettings(f"the provider {what} ({status}): {said}", where=model, hint=hint if status == 401 else todo),
            fatal=True,
        )
    if "ContextWindowExceeded" in type(exception).__name__:
        return Failure(TooLarge(f"the request is longer than the model reads: {said}", where=model))
    error = BadInput(f"the provider refused the request ({status}): {said}", where=model)
    return Failure(error, of_format=_FORMAT_WORDS.search(said) is not None)


def message(exception: BaseException, key: str | None) -> str:
    """What the other side said: one short line, without LiteLLM's preamble and without any key."""
    text = _LITELLM_HEAD.sub("", " ".join(_raw(exception).split()))
    return redact(text, key)[:300] or type(exception).__name__


def redact(text: str, key: str | None) -> str:
    """``text`` without the given key, the keys of this process's environment, and what looks like one."""
    # Some providers send a wrong key back in full; the variables are theirs to name, so all that hold keys are covered.
    secrets = [value for name, value in os.environ.items() if _KEY_VARIABLE.search(name)] + [key or ""]
    for secret in sorted((s for s in secrets if len(s) >= 6), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _KEYLIKE.sub("***", text)


def _raw(exception: BaseException) -> str:
    return str(getattr(exception, "message", "") or exception)


def _out_of_credit(exception: BaseException) -> bool:
    return "insufficient_quota" in f"{_raw(exception)} {getattr(exception, 'body', '')}"


def _headers(exception: BaseException) -> Mapping[str, str] | None:
    """The response's headers, names in lower case; None where there was no response."""
    for holder in (exception, getattr(exception, "response", None)):
        for name in ("litellm_response_headers", "headers"):
            headers = getattr(holder, name, None)
            if isinstance(headers, Mapping) and headers:
                return {str(key).lower(): str(value) for key, value in headers.items()}
    return None


def _chain(exception: BaseException | None) -> Iterator[BaseException]:
    seen = 0
    while exception is not None and seen < 20:
        yield exception
        exception, seen = exception.__cause__ or exception.__context__, seen + 1


def _timed_out(exception: BaseException) -> bool:
    names = {cls.__name__ for cls in type(exception).__mro__}
    return bool(names & {"TimeoutError", "APITimeoutError", "Timeout"})


def _never_sent(exception: BaseException) -> bool:
    """No connection was made, so nothing can have been paid."""
    return any(
        type(link).__name__ in ("ConnectError", "ClientConnectorError", "gaierror") for link in _chain(exception)
    )
