"""Systems that answer over HTTP: how they are asked, where a reply has what, and a short form for APIs like OpenAI's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from ragassay import observability
from ragassay.core.addresses import check_bare_address
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.models import Response, Sample
from ragassay.core.settings import VARIABLE, with_variables, without_values
from ragassay.core.validation import shown
from ragassay.llm.rate_limit import backoff, retry_after
from ragassay.systems.base import (
    LISTS,
    USUAL_REPLY,
    LiveOptions,
    ReplyField,
    RequestTimer,
    StreamedResponse,
    response_from,
)
from ragassay.systems.streaming import PACKED, Events, StreamFormat, pieces, text_of

if TYPE_CHECKING:
    import httpx
    from jsonpath import CompoundJSONPath, JSONPath


_BUSY = frozenset((429, 503))
_HEAD = 500  # bytes of a reply that are shown
_LAST_BYTES_S = 0.05
_SECRET = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)
_PLACE = re.compile(r"\{(query|query_id|history|conversation_id|category|difficulty|metadata\.[^{}]+)\}")
_HISTORY = "{history}"
_SEVERAL = re.compile(r"\[[*?]|\.\.|\.\*")  # from here on a path may match several values


def _address(url: str) -> str:
    import httpx

    try:
        host = httpx.URL(url).host
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"{url!r} is not an address: {error}") from None
    if not host:
        raise ValueError(f"{url!r} names no host")
    return url


def _paths(paths: dict[str, str]) -> dict[str, str]:
    import jsonpath

    for field, path in paths.items():
        try:
            jsonpath.compile(path)
        except jsonpath.JSONPathError as error:
            raise ValueError(f"{field}: {path!r} is not a JSONPath: {str(error).splitlines()[0]}") from None
    return paths


def _differs_by_row(request: dict[str, Any]) -> dict[str, Any]:
    if not _PLACE.search(json.dumps(request, ensure_ascii=False)):
        raise ValueError("each row would be asked the same: write {query} where its text belongs")
    return request


Address = Annotated[
    str, Field(pattern=r"^https?://[^\s/]+\S*$"), AfterValidator(check_bare_address), AfterValidator(_address)
]
ReplyPaths = Annotated[dict[ReplyField, str], AfterValidator(_paths)]


_USAGE: dict[ReplyField, str] = {
    "model": "$.model",
    "input_tokens": "$.usage.prompt_tokens",
    "output_tokens": "$.usage.completion_tokens",
    "error": "$.error",
}
_WHOLE: dict[ReplyField, str] = {"answer": "$.choices[0].message.content", **_USAGE}
_STREAMED: dict[ReplyField, str] = {"answer": "$.choices[0].delta.content", **_USAGE}


class HttpConfig(LiveOptions):
    """A system that answers over HTTP, one request a query."""

    kind: Annotated[Literal["http"], Field(description="a system that answers over HTTP")]
    url: Annotated[Address, Field(description="where a query is posted to, as JSON")]
    headers: Annotated[
        dict[str, str],
        Field(description="sent with each request; `${NAME}` is the value of that environment variable"),
    ] = {}  # noqa: RUF012 - a default of a model
    request: Annotated[
        dict[str, Any],
        Field(
            description="the body; `{query}`, `{query_id}`, `{conversation_id}`, `{category}`, `{difficulty}` and "
            "`{metadata.KEY}` in its texts are those of the row, `{history}` the earlier turns: as a whole value a list of "
            "`{role, content}`, as an entry of a list its entries, inside a text lines"
        ),
        AfterValidator(_differs_by_row),
    ] = {"query": "{query}"}  # noqa: RUF012
    reply: Annotated[
        ReplyPaths,
        Field(min_length=1, description="where the reply has what, as JSONPath"),
    ] = USUAL_REPLY
    stream: Annotated[
        StreamFormat | None,
        Field(
            description="the reply is a stream: `sse`, server-sent events whose data is JSON, or `ndjson`, lines of JSON; "
            "`reply` is where an event has what"
        ),
    ] = None
    stream_end: Annotated[
        str | None,
        Field(
            description="what ends the stream: an event's text, such as `[DONE]`, or a JSONPath that matches true in it, such "
            "as `$.done`; without it a stream has broken off. Default: that it is closed"
        ),
    ] = None
    attempts: Annotated[
        int,
        Field(
            ge=1,
            le=10,
            description="how often a query is sent in all when the system is busy (429, 503) or can't be reached; as "
            "`Retry-After` says, within `timeout_s`. Latency counts from the first attempt",
        ),
    ] = 1

    @field_validator("headers")
    @classmethod
    def _no_keys(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if _SECRET.search(name) and not VARIABLE.search(value):
                raise ValueError(
                    f"{name}: write ${{NAME}} and set that environment variable: runs keep their configuration"
                )
        return headers

    @field_validator("stream_end")
    @classmethod
    def _end_can_be_read(cls, end: str | None) -> str | None:
        if end and end.startswith("$"):
            _paths({"the end": end})
        return end


class OpenAIConfig(LiveOptions):
    """A system that answers as OpenAI's chat completions do, one request a query, which the earlier turns precede."""

    kind: Annotated[Literal["openai"], Field(description="a system with an API like OpenAI's chat completions")]
    url: Annotated[
        Address,
        Field(
            description="the API's address, to which `/chat/completions` is added, such as `http://127.0.0.1:8000/v1`"
        ),
    ]
    model: Annotated[str, Field(min_length=1, description="which model is asked for")]
    api_key: Annotated[
        str | None,
        Field(description="`${NAME}`: the environment variable whose value is sent as the key. Default: none is sent"),
    ] = None
    system: Annotated[str | None, Field(description="the system prompt; it has the same places as `prompt`")] = None
    prompt: Annotated[
        str,
        Field(min_length=1, description="the user's message; it has the places that a `request` of kind `http` has"),
    ] = "{query}"
    stream: Annotated[
        bool, Field(description="is the answer streamed? Then the time to its first token is measured")
    ] = False
    parameters: Annotated[
        dict[str, Any], Field(description="what else the body has, such as `temperature` or `max_tokens`")
    ] = {}  # noqa: RUF012 - a default of a model
    reply: Annotated[
        ReplyPaths,
        Field(description="where the reply has what an OpenAI reply does not have, as JSONPath: such as `contexts`"),
    ] = {}  # noqa: RUF012
    attempts: Annotated[int, Field(ge=1, le=10, description=HttpConfig.model_fields["attempts"].description)] = 1

    @field_validator("api_key")
    @classmethod
    def _no_key(cls, key: str | None) -> str | None:
        if key is not None and not VARIABLE.fullmatch(key):
            raise ValueError("write ${NAME} and set that environment variable: runs keep their configuration")
        return key

    @property
    def over_http(self) -> HttpConfig:
        """The same system, as one that is asked over HTTP."""
        instructions = [] if self.system is None else [{"role": "system", "content": self.system}]
        messages = [*instructions, _HISTORY, {"role": "user", "content": self.prompt}]
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if self.stream else {}
        return HttpConfig(
            kind="http",
            url=f"{self.url.rstrip('/')}/chat/completions",
            headers={"Authorization": f"Bearer {self.api_key}"} if self.api_key else {},
            request={"model": self.model, "messages": messages, **streaming, **self.parameters},
            reply={**(_STREAMED if self.stream else _WHOLE), **self.reply},
            stream="sse" if self.stream else None,
            stream_end="[DONE]" if self.stream else None,
            attempts=self.attempts,
            **self.model_dump(include=set(LiveOptions.model_fields)),
        )


class _Busy(BadInput):
    """The system did not take the query, and may take it later; ``wait_s``: when it said so."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class HttpClient:
    """Posts queries to an address. Raises BadSettings where an environment variable is not set; ``where`` names the system."""

    def __init__(self, config: HttpConfig, where: str) -> None:
        self._config = config
        try:
            self._headers = {key: with_variables(value) for key, value in config.headers.items()}
        except KeyError as missing:
            what = f"the environment variable {missing.args[0]} is not set"
            raise BadSettings(what, where=f"{where}.headers") from None
        for name, value in self._headers.items():
            if not (name + value).isascii() or not (name + value).isprintable():
                what = f"{shown(name)}: a header can't have line breaks, control characters or letters beyond ASCII"
                raise BadSettings(what, where=f"{where}.headers")

    async def warm_up(self) -> None:
        """Make the client, and import what a first request needs."""
        import anyio

        _ = self._client, self._paths
        await anyio.sleep(0)  # it loads what it needs of the event loop

    async def ask(self, sample: Sample, clock: RequestTimer) -> Response:
        """What the reply has, where its paths say; raises BadInput with what is wrong with it."""
        body = _filled(self._config.request, sample)
        while True:
            try:
                return await self._attempt(body, clock)
            except _Busy as busy:
                if clock.attempts == self._config.attempts:
                    again = f" ({clock.attempts} attempts)" if clock.attempts > 1 else ""
                    raise BadInput(f"{busy.message}{again}") from None
                wait_s = backoff(clock.attempts) if busy.wait_s is None else busy.wait_s
                if wait_s >= clock.left_s:
                    what = (
                        f"{busy.message}; the wait of {wait_s:.3g} s before another attempt is longer than what is left"
                    )
                    raise BadInput(f"{what} of {self._config.timeout_s:g} s") from None
            await asyncio.sleep(wait_s)
            clock.attempts += 1

    async def close(self) -> None:
        """Close the connections."""
        if client := self.__dict__.pop("_client", None):
            await client.aclose()

    async def _attempt(self, body: Any, clock: RequestTimer) -> Response:
        import httpx

        begun = False
        try:
            async with self._client.stream(
                "POST", self._config.url, json=body, headers={**observability.headers(), **self._headers}
            ) as reply:
                begun = True
                if reply.is_redirect:
                    there = shown(self._redacted(reply.headers.get("location", "nowhere")))
                    raise BadInput(f"the system redirects ({reply.status_code}) to {there}; redirects are not followed")
                if not reply.is_success:
                    raise await self._refusal(reply, clock)
                if self._config.stream:
                    return await self._streamed(reply, self._config.stream, clock)
                raw = bytearray()
                async for piece in pieces(reply, clock):
                    raw += piece
                clock.ended()
                return self._whole(self._redacted(text_of(raw)))
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.ConnectError as error:
            raise _Busy(f"no reply: {error or type(error).__name__}") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            why = error or type(error).__name__
            raise BadInput(
                f"the reply breaks off: {why}" if begun else f"no reply: {why} (it was sent {shown(body)})"
            ) from None

    def _whole(self, text: str) -> Response:
        try:
            reply = json.loads(text)
        except (ValueError, RecursionError):
            raise BadInput(f"the reply is not JSON: {shown(text)}") from None
        values = self._values(reply)
        if "answer" in self._paths and values.get("answer") is None:
            where = self._config.reply["answer"]
            raise BadInput(f"the reply has no answer at {where}: {shown(json.dumps(reply, ensure_ascii=False))}")
        return response_from(values)

    async def _streamed(self, reply: httpx.Response, form: StreamFormat, clock: RequestTimer) -> Response:
        events, joined, number, text = Events(form), StreamedResponse(clock), 0, ""
        matched, ended = set[str](), self._config.stream_end is None
        async with aclosing(pieces(reply, clock)) as arriving:
            async with aclosing(events.of(arriving)) as texts:
                async for said in texts:
                    text = self._redacted(said)
                    if text == self._config.stream_end:
                        ended = True
                        break
                    number += 1
                    event = _event(text, number)
                    values = self._values(event)
                    joined.add(values)
                    matched |= set(values)
                    if self._end and any(self._end.findall(event)):
                        ended = True
                        break
            clock.ended()
            await _drain(arriving)
        if not number:
            kind = shown(reply.headers.get("content-type", "without a content type"))
            head = shown(self._redacted(events.head.decode("utf-8", "replace")))
            raise BadInput(f"the reply is no stream of events but {kind}: {head}")
        if not ended:
            raise BadInput(f"the stream breaks off: {self._config.stream_end!r} did not come after its {number} events")
        if "answer" in self._paths and "answer" not in matched:
            where = self._config.reply["answer"]
            raise BadInput(f"no event of the stream has a part of the answer at {where}; the last one: {shown(text)}")
        return joined.response()

    async def _refusal(self, reply: httpx.Response, clock: RequestTimer) -> BadInput:
        """What a status that is no success becomes, with the beginning of what the reply says."""
        head = bytearray()
        async with aclosing(pieces(reply, clock)) as arriving:
            async for piece in arriving:
                head += piece
                if len(head) >= _HEAD:
                    break
        said = shown(self._redacted(head.decode("utf-8", "replace"))[:_HEAD])
        message = f"the system replied {reply.status_code}: {said}"
        return _Busy(message, retry_after(reply.headers)) if reply.status_code in _BUSY else BadInput(message)

    def _redacted(self, text: str) -> str:
        """What the system said, without the keys that it was sent."""
        return without_values(text, *self._config.headers.values())

    def _values(self, reply: Any) -> dict[str, Any]:
        """What stands at the paths that match; an empty list where what holds its entries is there, and empty."""
        values: dict[str, Any] = {}
        for field, path in self._paths.items():
            matches = path.findall(reply)
            if field in LISTS:
                if matches or (
                    field in self._holders and any(h is not None for h in self._holders[field].findall(reply))
                ):
                    whole = matches[0] if len(matches) == 1 and isinstance(matches[0], list) else matches
                    values[field] = tuple(whole)
            elif matches:
                values[field] = matches[0]
        if (error := values.pop("error", None)) is not None:
            text = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
            raise BadInput(f"the system replied with an error: {shown(text)}")
        return values

    @cached_property
    def _paths(self) -> Mapping[str, JSONPath | CompoundJSONPath]:
        import jsonpath

        return {field: jsonpath.compile(path) for field, path in self._config.reply.items()}

    @cached_property
    def _holders(self) -> Mapping[str, JSONPath | CompoundJSONPath]:
        """For a list, the path to what holds its entries, where its own path says."""
        import jsonpath

        parts = {field: _SEVERAL.split(path)[0] for field, path in self._config.reply.items() if field in LISTS}
        return {field: jsonpath.compile(part) for field, part in parts.items() if part != self._config.reply[field]}

    @cached_property
    def _end(self) -> JSONPath | CompoundJSONPath | None:
        import jsonpath

        end = self._config.stream_end
        return jsonpath.compile(end) if end and end.startswith("$") else None

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        import httpx

        connections = self._config.concurrency
        return httpx.AsyncClient(
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            timeout=self._config.timeout_s,
            headers={"Accept-Encoding": PACKED},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # each query stands alone
            trust_env=False,
        )


async def _drain(arriving: AsyncIterator[bytes]) -> None:
    """Read what is left of a reply that is whole, if it comes at once: only then the connection can be used again."""
    import httpx

    with suppress(TimeoutError, BadInput, httpx.HTTPError):
        async with asyncio.timeout(_LAST_BYTES_S):
            async for _ in arriving:
                pass


def _event(text: str, number: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"event {number} of the stream is not JSON: {shown(text)}") from None


def _filled(template: Any, sample: Sample) -> Any:
    """The template with the row's values in its texts; a text that is nothing but a place takes the value as it is."""
    if isinstance(template, dict):
        return {key: _filled(value, sample) for key, value in template.items()}
    if isinstance(template, list):
        filled: list[Any] = []
        for entry in template:
            value = _filled(entry, sample)
            filled += value if entry == _HISTORY else [value]
        return filled
    if not isinstance(template, str):
        return template
    if whole := _PLACE.fullmatch(template):
        return _value(whole[1], sample)
    return _PLACE.sub(lambda place: _as_text(_value(place[1], sample)), template)


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(f"{turn['role']}: {turn['content']}" for turn in value)
    return "" if value is None else str(value)


def _value(name: str, sample: Sample) -> Any:
    if name == "history":
        return [turn.model_dump() for turn in sample.history]
    key = name.removeprefix("metadata.")
    return getattr(sample, name) if key == name else sample.metadata.get(key)
