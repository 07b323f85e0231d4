"""What went wrong with an attempt to reach a model: an exception of LiteLLM's, read as one of our errors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ragassay.core.errors import (
    AssayError,
    BadInput,
    BadSettings,
    RateLimited,
    TimedOut,
    TooLarge,
    Unavailable,
    reason_from,
)
from ragassay.core.settings import secrets, without
from ragassay.llm.replies import without_surrogates

_RETRYABLE = frozenset({408, 409, 429})
_TIMEOUTS = frozenset({"TimeoutError", "APITimeoutError", "Timeout"})
_WHOLE_RUN = {
    401: ("rejected the key", "check the key"),
    402: ("requires payment", "add credit to the account behind the key"),
    404: ("does not have this model or address", "check the model's name and api_base"),
}
_KEYLIKE = re.compile(r"\b(?:(?:sk|pk|rk|gsk|xai|hf|nvapi)[-_]|AIza)[\w*.-]{8,}|\bbearer\s+\S+", re.IGNORECASE)
_SECRET = re.compile(r"[\dA-Z*_=]|\w\.\w")  # in what looks like a key; none of these is in words with a hyphen
_LITELLM_HEAD = re.compile(r"^.{0,120}?\w+Exception - |^(?:(?:litellm\.)?\w*(?:Error|Timeout|Exception)\b:? ?)+")
_RECEIVED = " received_args="  # behind it LiteLLM quotes the whole response
_FORMAT_WORDS = re.compile(
    r"response_?format|json_schema|json_object|json mode|structured output|grammar|guided|tool_choice|\btools?\b|function call",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"context (?:length|window|size)|too many (?:input )?tokens|prompt is too long", re.IGNORECASE)
_REFUSES = re.compile(
    r"unsupported|not? (?:longer )?support|n't support|unknown|unrecogni[sz]ed|unexpected|invalid|deprecated|forbidden"
    r"|not (?:permitted|allowed|accepted|available|valid|compatible)|only the default|extra (?:inputs|fields)|must be|should be",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Failure:
    """One attempt's end. ``error`` is what is raised when no further attempt is made.

    ``uncertain``: it may have been paid. ``format_refused``: the provider says that it does not take the form of the reply
    that was asked for. ``parameter``: it says that it does not take this one.
    """

    error: AssayError
    uncertain: bool = False
    format_refused: bool = False
    parameter: str | None = None

    @property
    def wait(self) -> float | None:
        """Seconds that the provider asks to wait."""
        return self.error.retry_after if isinstance(self.error, Unavailable) else None


def diagnose(
    exception: BaseException, model: str, *, key: str | None, hint: str, timeout_s: float, sent: Iterable[str] = ()
) -> Failure:
    """Read an exception; ``hint`` is what to do about a missing or wrong ``key``, which no message ever shows.

    ``sent``: names of the parameters that the request had.
    """
    headers = _headers(exception)
    status = getattr(exception, "status_code", None)
    text = message(exception, key)
    if headers is None and {cls.__name__ for cls in type(exception).__mro__} & _TIMEOUTS:
        late = TimedOut(f"no answer within {timeout_s:g} s", where=model, hint="raise the timeout or try later")
        return Failure(late, uncertain=True)
    if not isinstance(status, int) or (status >= 500 and headers is None):
        silent = Unavailable(f"no usable answer: {text}", where=model, hint="is the address right and the server up?")
        return Failure(silent, uncertain=not _never_sent(exception))
    if "ContextWindowExceeded" in type(exception).__name__ or (status != 429 and _TOO_LONG.search(text)):
        return Failure(TooLarge(f"the request is longer than the model reads: {text}", where=model))
    if status == 429 and "insufficient_quota" in f"{_raw(exception)} {getattr(exception, 'body', '')}":
        return Failure(BadSettings(f"the account has no credit left: {text}", where=model))
    if status in _RETRYABLE or status >= 500:
        wait = retry_after(headers or {})
        if status == 429:
            return Failure(RateLimited(f"the provider limits the rate of calls: {text}", where=model, retry_after=wait))
        failed = Unavailable(f"the provider failed ({status}): {text}", where=model, retry_after=wait)
        return Failure(failed, format_refused=_FORMAT_WORDS.search(text) is not None)
    if status == 403:  # some providers refuse a single prompt so, which their moderation flagged
        what = f"the provider denied access (403): {text}"
        return Failure(BadInput(what, where=model, hint="check what the key may do"))
    if status in _WHOLE_RUN:
        what, todo = _WHOLE_RUN[status]
        refused = f"the provider {what} ({status}): {text}"
        return Failure(BadSettings(refused, where=model, hint=hint if status == 401 else todo))
    return Failure(
        BadInput(f"the provider refused the request ({status}): {text}", where=model),
        format_refused=_FORMAT_WORDS.search(text) is not None,
        parameter=_refused_parameter(exception, sent),
    )


def _refused_parameter(exception: BaseException, sent: Iterable[str]) -> str | None:
    """Which of the parameters the provider says that it does not take; its words may be the only sign."""
    body = getattr(exception, "body", None)
    param = body.get("param") if isinstance(body, Mapping) else None
    raw = _raw(exception)
    for name in sent:
        named = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", raw) and _REFUSES.search(raw)
        if param == name or named:
            return name
    return None


def message(exception: BaseException, key: str | None) -> str:
    """The provider's message: one short line, without LiteLLM's preamble, without any key and without paths."""
    text = _LITELLM_HEAD.sub("", without_surrogates(_raw(exception).partition(_RECEIVED)[0]).strip())
    return reason_from(redact(text, key)) if text else type(exception).__name__


def redact(text: str, key: str | None) -> str:
    """``text`` without the given key, the keys of this process's environment, and what looks like one."""
    return _KEYLIKE.sub(_masked, without_keys(text, key, shortest=6))


def _masked(found: re.Match[str]) -> str:
    """``***`` for a key; words such as "sk-learn-compatible" or "bearer token" stay as they are."""
    text = found[0]
    secret = text.split(maxsplit=1)[1] if text[:6].lower() == "bearer" else text
    return "***" if _SECRET.search(secret) else text


def without_keys(text: str, key: str | None, *, shortest: int = 12) -> str:
    """``text`` without the given key and those of this process's environment that have so many characters."""
    # Some providers send a wrong key back in full; the variables are theirs to name, so all that hold keys are covered.
    return without(text, (*secrets(), key or ""), shortest=shortest)


def _raw(exception: BaseException) -> str:
    return str(getattr(exception, "message", "") or exception)


def _headers(exception: BaseException) -> Mapping[str, str] | None:
    """The response's headers, names in lower case; None where there was no response."""
    for holder in (exception, getattr(exception, "response", None)):
        for name in ("litellm_response_headers", "headers"):
            headers = getattr(holder, name, None)
            if isinstance(headers, Mapping) and headers:
                return {str(key).lower(): str(value) for key, value in headers.items()}
    return None


def _never_sent(exception: BaseException | None) -> bool:
    for _ in range(20):
        if type(exception).__name__ in ("ConnectError", "ClientConnectorError", "gaierror"):
            return True
        exception = exception and (exception.__cause__ or exception.__context__)
    return False


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait (``Retry-After``: seconds or an HTTP date); None where it doesn't say.

    ``retry-after-ms`` is what some providers add for finer steps. Names of ``headers`` are in lower case.
    """
    seconds: float | None = None
    try:
        if milliseconds := headers.get("retry-after-ms"):
            seconds = float(milliseconds) / 1000
        elif text := headers.get("retry-after"):
            seconds = float(text) if text.strip()[:1].isdigit() else _until(text)
    except ValueError:
        return None
    return max(seconds, 0.0) if seconds is not None and math.isfinite(seconds) else None


def _until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
