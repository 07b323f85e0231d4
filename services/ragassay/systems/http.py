"""Systems that answer over HTTP: how they are asked, where a reply has what, and a short form for APIs like OpenAI's."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import cached_property, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, field_validator

from ragassay import observability
from ragassay.core.addresses import check_bare_address
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.formatting import cut
from ragassay.core.models import Response, Sample
from ragassay.core.settings import VARIABLE, with_variables, without_values
from ragassay.core.validation import shown
from ragassay.datasets.guesses import guesses
from ragassay.llm.errors import retry_after
from ragassay.llm.rate_limit import backoff
from ragassay.systems.base import LiveOptions, RequestTimer, response_from

if TYPE_CHECKING:
    import httpx
    from jsonpath import CompoundJSONPath, JSONPath

logger = logging.getLogger("ragassay.systems")

_Path: TypeAlias = "JSONPath | CompoundJSONPath"
StreamFormat = Literal["sse", "ndjson"]
ReplyField = Literal[
    "answer", "contexts", "retrieved_doc_ids", "retrieved_scores", "model", "input_tokens", "output_tokens",
    "cost_usd", "retrieval_latency_ms", "generation_latency_ms", "route", "error",
]  # fmt: skip
MAX_BYTES = 10_000_000  # of a reply; a longer one is not read to its end
_GUESSED: tuple[ReplyField, ...] = ("answer", "contexts")
_PASSAGES = frozenset(("contexts", "retrieved_doc_ids"))
_LISTS = frozenset(("contexts", "retrieved_doc_ids", "retrieved_scores"))
_BUSY = frozenset((429, 503))
_MISUNDERSTOOD = frozenset((400, 422))
_HEAD, _SAID = 500, 160  # bytes of a refusal that are read, characters that are shown
_LAST_BYTES_S = 0.05
_SECRET = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)
_PLACE = re.compile(r"\{(query|query_id|history|conversation_id|category|difficulty|metadata\.[^{}]+)\}")
_HISTORY = "{history}"
_SEVERAL = re.compile(r"""'[^']*'|"[^"]*"|(\[[*?]|\.\.|\.\*)""")  # the group: from here on a path may match more values
_USUAL: dict[ReplyField, str] = {
    "answer": "$.answer",
    "contexts": "$.contexts[*]",
    "retrieved_doc_ids": "$.retrieved_doc_ids[*]",
}
_dumped = partial(json.dumps, ensure_ascii=False)
_CHAT_ANSWER = "$.choices[0].message.content"
_OF_CHAT: dict[ReplyField, str] = {
    "model": "$.model",
    "input_tokens": "$.usage.prompt_tokens",
    "output_tokens": "$.usage.completion_tokens",
    "error": "$.error",
}


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
    if not _PLACE.search(_dumped(request)):
        raise ValueError("each row would be asked the same: write {query} where its text belongs")
    return request


Address = Annotated[
    str, Field(pattern=r"^https?://[^\s/]+\S*$"), AfterValidator(check_bare_address), AfterValidator(_address)
]
ReplyPaths = Annotated[dict[ReplyField, str], AfterValidator(_paths)]


class HttpConfig(LiveOptions):
    """A system that answers over HTTP, one request a query."""

    kind: Literal["http"] = Field("http", description="a system that answers over HTTP")
    url: Address = Field(description="where a query is posted to, as JSON")
    headers: dict[str, str] = Field(
        {}, description="sent with each request; `${NAME}` is the value of that environment variable"
    )
    request: Annotated[dict[str, Any], AfterValidator(_differs_by_row)] = Field(
        {"query": "{query}"},
        description="the body; `{query}`, `{query_id}`, `{conversation_id}`, `{category}`, `{difficulty}` and "
        "`{metadata.KEY}` in its texts are those of the row, `{history}` the earlier turns: as a whole value a list of "
        "`{role, content}`, as an entry of a list its entries, inside a text lines",
    )
    reply: ReplyPaths = Field(_USUAL, min_length=1, description="where the reply has what, as JSONPath")
    stream: StreamFormat | None = Field(
        None,
        description="the reply is a stream: `sse`, server-sent events whose data is JSON, or `ndjson`, lines of JSON; "
        "`reply` is where an event has what",
    )
    stream_end: str | None = Field(
        None,
        description="what ends the stream: an event's text, such as `[DONE]`, or a JSONPath that matches true in it, such "
        "as `$.done`; without it a stream has broken off. Default: that it is closed",
    )
    attempts: int = Field(
        1,
        ge=1,
        le=10,
        description="how often a query is sent in all when the system is busy (429, 503) or can't be reached; as "
        "`Retry-After` says, within `timeout_s`. Latency counts from the first attempt",
    )

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

    kind: Literal["openai"] = Field(description="a system with an API like OpenAI's chat completions")
    url: Address = Field(
        description="the API's address, to which `/chat/completions` is added, such as `http://127.0.0.1:8000/v1`"
    )
    model: str = Field(min_length=1, description="which model is asked for")
    api_key: str | None = Field(
        None, description="`${NAME}`: the environment variable whose value is sent as the key. Default: none is sent"
    )
    system: str | None = Field(None, description="the system prompt; it has the same places as `prompt`")
    prompt: str = Field(
        "{query}", min_length=1, description="the user's message; it has the places that a `request` of kind `http` has"
    )
    stream: bool = Field(False, description="is the answer streamed? Then the time to its first token is measured")
    parameters: dict[str, Any] = Field({}, description="what else the body has, such as `temperature` or `max_tokens`")
    reply: ReplyPaths = Field(
        {}, description="where the reply has what an OpenAI reply does not have, as JSONPath: such as `contexts`"
    )
    attempts: int = Field(1, ge=1, le=10, description=HttpConfig.model_fields["attempts"].description)

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
            reply={"answer": "$.choices[0].delta.content" if self.stream else _CHAT_ANSWER, **_OF_CHAT, **self.reply},
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
        import jsonpath

        self._config, self._where = config, where
        end = config.stream_end or ""
        self._end = jsonpath.compile(end) if end.startswith("$") else None
        # of each field, and for a list whose path says so, of what holds its entries
        self._paths: dict[ReplyField, tuple[_Path, list[_Path]]] = {
            field: (jsonpath.compile(path), [*map(jsonpath.compile, _holders(path) if field in _LISTS else ())])
            for field, path in config.reply.items()
        }
        self._unseen = {field for field in config.reply if field in _PASSAGES}  # in no reply so far
        self._last: Any = None
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

        _ = self._client
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
        """Close the connections. Warn of the lists that no reply had, if they were to be there or stand elsewhere."""
        hint = self._hint(self._last)
        if self._unseen and self._last is not None and (hint or self._config.reply != _USUAL):
            missed = " and ".join(f"{field} at {self._config.reply[field]}" for field in sorted(self._unseen))
            logger.warning("%s: no reply has %s%s", self._where, missed, hint)
        self._last = None
        if client := self.__dict__.pop("_client", None):
            await client.aclose()

    async def _attempt(self, body: Any, clock: RequestTimer) -> Response:
        import httpx

        begun, headers = False, {**observability.headers(), **self._headers}
        try:
            async with self._client.stream("POST", self._config.url, json=body, headers=headers) as reply:
                begun = True
                if reply.is_redirect:
                    location = shown(self._redacted(reply.headers.get("location", "nowhere")))
                    raise BadInput(
                        f"the system redirects ({reply.status_code}) to {location}; redirects are not followed"
                    )
                if not reply.is_success:
                    raise await self._refusal(reply, clock, body)
                return await self._response(reply, clock)
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.ConnectError as error:
            raise _Busy(f"no reply: {error or type(error).__name__}") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            why = error or type(error).__name__
            raise BadInput(
                f"the reply breaks off: {why}"
                if begun
                else f"no reply: {why} (it was sent {shown(body)}; `request` of the system changes that)"
            ) from None

    async def _response(self, reply: httpx.Response, clock: RequestTimer) -> Response:
        """What the events of a stream say together, or the one of a whole reply. Raises BadInput."""
        form = self._config.stream
        end = self._config.stream_end if form else None
        values, text, ended, event = list[dict[str, Any]](), "", end is None, None
        async with aclosing(_pieces(reply, clock)) as arriving, aclosing(_events(arriving, form)) as events:
            async for raw in events:
                text = self._redacted(raw)
                if text == end:
                    ended = True
                    break
                try:
                    event = json.loads(text)
                except (ValueError, RecursionError):
                    what = f"event {len(values) + 1} of the stream" if form else "the reply"
                    raise BadInput(f"{what} is not JSON: {shown(text)}") from None
                values.append(self._values(event))
                if form and values[-1].get("answer"):
                    clock.answering()
                elif form and not _PASSAGES.isdisjoint(values[-1]):
                    clock.retrieved()
                if end and self._end and any(self._end.findall(event)):
                    ended = True
                    break
            clock.ended()
            await _drain(arriving)
        if not values:
            kind = shown(reply.headers.get("content-type", "without a content type"))
            raise BadInput(f"the reply is no stream of events but {kind}")
        if not ended:
            raise BadInput(f"the stream breaks off: {end!r} did not come after its {len(values)} events")
        joined = _joined(values)
        if "answer" in self._paths and "answer" not in joined:
            where = self._config.reply["answer"]
            if form:
                what = f"no event of the stream has a part of the answer at {where}; the last one: {shown(text)}"
                raise BadInput(what)
            hint = self._hint(event) or "; " + self._option("reply", 'answer: "$.KEY"')
            raise BadInput(f"the reply has no answer at {where}: it is {shown(event)}{hint}")
        try:
            response = response_from(joined)
        except BadInput as error:
            raise BadInput(f"{error.message}{self._hint(event)}") from None
        self._last = event
        self._unseen -= response.model_fields_set
        return response

    def _hint(self, reply: Any) -> str:
        """What to write to read the answer and the contexts of such a reply, where that is not what is written."""
        import jsonpath

        if self._config.stream or not isinstance(reply, dict):
            return ""
        found = guesses([reply], _GUESSED, of_reply=True)
        paths = {field: [_json_path(place) for place in places] for field, places in found.items()}
        if "answer" not in found:
            configured = self._config.reply.get("answer")
            usual = (configured, _CHAT_ANSWER)
            answer = next((path for path in usual if path and jsonpath.findall(path, reply)), configured and "$.KEY")
            paths = {"answer": [answer], **paths} if answer else paths
        if all(self._config.reply.get(field) in paths[field] for field in _GUESSED if field in paths):
            return ""
        quoted = {field: " or ".join(map(_dumped, guessed)) for field, guessed in paths.items()}
        line = ", ".join(f"{field}: {guessed}" for field, guessed in quoted.items())
        return f"; {self._option('reply', cut(line, _SAID))}"

    def _option(self, key: str, value: str) -> str:
        """What sets a key of the system, which may also stand in the configuration's file."""
        return f"--set {shlex.quote(f'{self._where}.{key}={{{value}}}')}"

    async def _refusal(self, reply: httpx.Response, clock: RequestTimer, body: Any) -> BadInput:
        """What a status that is no success becomes, with the beginning of what the reply says."""
        head = bytearray()
        try:
            async with aclosing(_pieces(reply, clock)) as arriving:
                async for piece in arriving:
                    head += piece
                    if len(head) >= _HEAD:
                        break
            text = repr(cut(self._redacted(head.decode("utf-8", "replace"))[:_HEAD], _SAID))
        except BadInput as error:  # what can't be read: the status counts all the same
            text = str(error)
        message = f"the system replied {reply.status_code}: {text}"
        if reply.status_code in _MISUNDERSTOOD:
            option = self._option("request", 'KEY: "{query}"')
            message += f"; it was sent {shown(body)}; for another body: {option}"
        return _Busy(message, retry_after(reply.headers)) if reply.status_code in _BUSY else BadInput(message)

    def _redacted(self, text: str) -> str:
        """What the system said, without the keys that it was sent."""
        return without_values(text, *self._config.headers.values())

    def _values(self, reply: Any) -> dict[str, Any]:
        """The values at the paths that match; an empty list if what holds its entries is there, and empty."""
        values: dict[str, Any] = {}
        for field, (path, holders) in self._paths.items():
            matches, filtered = path.findall(reply), "?" in self._config.reply[field]
            if field not in _LISTS:
                values |= {field: matches[0]} if matches else {}
            elif matches or any(_is_empty(holder.findall(reply), filtered=filtered) for holder in holders):
                values[field] = matches[0] if len(matches) == 1 and isinstance(matches[0], list) else matches
        if (error := values.pop("error", None)) is not None:
            text = error if isinstance(error, str) else _dumped(error)
            raise BadInput(f"the system replied with an error: {shown(text)}")
        if not isinstance(answer := values.get("answer"), str | None):
            raise BadInput(f"the answer should be text, is {shown(answer)}{self._hint(reply)}")
        return {field: value for field, value in values.items() if value is not None}

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        import httpx

        connections = self._config.concurrency
        return httpx.AsyncClient(
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            timeout=self._config.timeout_s,
            headers={"Accept-Encoding": "identity"},  # a small reply can't unpack into a large one
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # no query may depend on an earlier one
            trust_env=False,
        )


def _joined(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What events say together, by field: parts of the answer and of lists are joined, of anything else the last one counts."""
    joined = {name: value for event in events for name, value in event.items()}
    for name in joined.keys() & {"answer", *_LISTS}:
        parts = [event[name] for event in events if name in event]
        if name == "answer":
            joined[name] = "".join(parts)
        else:
            joined[name] = [entry for part in parts for entry in (part if isinstance(part, list) else [part])]
    return joined


async def _pieces(reply: httpx.Response, clock: RequestTimer) -> AsyncGenerator[bytes, None]:
    """The reply's bytes as they arrive; raises BadInput beyond ``MAX_BYTES``, and for packed ones.

    The clock notes when they arrived, before any task makes anything of them: many replies may come at once.
    """
    packing = reply.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity"):
        raise BadInput(f"the reply is packed as {shown(packing)}, which was not asked for")
    length = 0
    async for piece in reply.aiter_raw():
        clock.arrived()
        await asyncio.sleep(0)
        length += len(piece)
        if length > MAX_BYTES:
            raise BadInput(f"the reply is longer than {MAX_BYTES // 1_000_000} MB")
        yield piece


async def _events(arriving: AsyncIterator[bytes], form: StreamFormat | None) -> AsyncGenerator[str, None]:
    """The data of each event as soon as it is whole: of server-sent events, lines of JSON, or all as one."""
    if form is None:
        yield _text_of(b"".join([piece async for piece in arriving]))
        return
    data: list[str] = []
    async with aclosing(_lines(arriving)) as lines:
        async for line in lines:
            if form == "ndjson":
                if line.strip():
                    yield line
            elif line.startswith("data:"):  # other fields, and comments that keep the connection open, carry no data
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield "\n".join(data)
                data = []


async def _lines(arriving: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    line = bytearray()
    async for piece in arriving:
        *ended, rest = piece.split(b"\n")
        for part in ended:
            line += part
            yield _text_of(line).rstrip("\r")
            line.clear()
        line += rest
    yield _text_of(line).rstrip("\r")
    yield ""  # the blank line after the last event may be missing


def _holders(path: str) -> list[str]:
    """The path up to each step that may match several values; up to the first if it filters."""
    holders = [path[: step.start()] for step in _SEVERAL.finditer(path) if step[1]]
    return holders[:1] if "?" in path else holders


def _is_empty(found: list[Any], *, filtered: bool) -> bool:
    """Is there what would hold entries, without any? Entries without what a path names are another thing."""
    return bool(found) and all(entries is not None and (filtered or not entries) for entries in found)


def _json_path(place: str) -> str:
    """A place of a guess as JSONPath."""
    steps = [(step.removesuffix("[]"), "[*]" if step.endswith("[]") else "") for step in place.split(".")]
    return "$" + "".join((f".{key}" if key.isidentifier() else f"[{key!r}]") + each for key, each in steps)


def _text_of(raw: bytes | bytearray) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = shown(raw.decode("utf-8", "replace"))
        raise BadInput(f"the reply is not UTF-8 from byte {error.start}: {text}") from None


async def _drain(arriving: AsyncIterator[bytes]) -> None:
    """Read what is left of a reply that is whole, if it comes at once: only then the connection can be used again."""
    import httpx

    with suppress(TimeoutError, BadInput, httpx.HTTPError):
        async with asyncio.timeout(_LAST_BYTES_S):
            async for _ in arriving:
                pass


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
    return _PLACE.sub(lambda place: _text_of_place(place[1], sample), template)


def _text_of_place(name: str, sample: Sample) -> str:
    if name == "history":
        return "\n".join(f"{turn.role}: {turn.content}" for turn in sample.history)
    value = _value(name, sample)
    if isinstance(value, list | dict):
        return _dumped(value)
    return "" if value is None else str(value)


def _value(name: str, sample: Sample) -> Any:
    if name == "history":
        return [turn.model_dump() for turn in sample.history]
    key = name.removeprefix("metadata.")
    return getattr(sample, name) if key == name else sample.metadata.get(key)
