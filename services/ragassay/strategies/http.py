"""A system under test that answers over HTTP: how it is asked, where its reply has what, and what it takes, measured here."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from pydantic import Field, ValidationError, field_validator

from ragassay.errors import BadInput, BadSettings
from ragassay.models import FrozenModel, Response, Sample, Usage
from ragassay.protocols import Call, Ledger, Reply
from ragassay.settings import VARIABLE, with_variables
from ragassay.validation import problems, shown

if TYPE_CHECKING:
    import httpx
    from jsonpath import CompoundJSONPath, JSONPath

ReplyField = Literal[
    "answer", "contexts", "retrieved_doc_ids", "retrieved_scores", "model", "input_tokens", "output_tokens",
    "cost_usd", "retrieval_latency_ms", "generation_latency_ms", "route",
]  # fmt: skip
MOST_BYTES = 10_000_000  # of a reply; a longer one is not read to its end
_LISTS = frozenset(("contexts", "retrieved_doc_ids", "retrieved_scores"))
_SECRET = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)
_PLACE = re.compile(r"\{(query|query_id|category|difficulty|metadata\.[^{}]+)\}")


class HttpConfig(FrozenModel):
    """A system that answers over HTTP, one request a query."""

    kind: Annotated[Literal["http"], Field(description="a system that answers over HTTP")]
    url: Annotated[str, Field(pattern=r"^https?://[^\s/]+\S*$", description="where a query is posted to, as JSON")]
    headers: Annotated[
        dict[str, str],
        Field(description="sent with each request; `${NAME}` is the value of that environment variable"),
    ] = {}  # noqa: RUF012 - a default of a model
    request: Annotated[
        dict[str, Any],
        Field(
            description="the body; `{query}`, `{query_id}`, `{category}`, `{difficulty}` and `{metadata.KEY}` in its texts "
            "are those of the row"
        ),
    ] = {"query": "{query}"}  # noqa: RUF012
    reply: Annotated[
        dict[ReplyField, str],
        Field(min_length=1, description="where the reply has what, as JSONPath"),
    ] = {  # noqa: RUF012
        "answer": "$.answer",
        "contexts": "$.contexts[*]",
        "retrieved_doc_ids": "$.retrieved_doc_ids[*]",
    }
    in_flight: Annotated[int, Field(ge=1, le=256, description="requests at once")] = 4
    rate: Annotated[
        float | None,
        Field(
            gt=0,
            le=10_000,
            description="requests per second, begun at even distances whatever the system takes; latency counts from when "
            "a request was due. Default: the next one begins when one of `in_flight` has ended",
        ),
    ] = None
    timeout_s: Annotated[float, Field(gt=0, le=3600, description="seconds that one request may take")] = 30.0

    @field_validator("headers")
    @classmethod
    def _no_keys(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if _SECRET.search(name) and not VARIABLE.search(value):
                raise ValueError(
                    f"{name}: write ${{NAME}} and set that environment variable: runs keep their configuration"
                )
        return headers

    @field_validator("reply")
    @classmethod
    def _paths_can_be_read(cls, reply: dict[ReplyField, str]) -> dict[ReplyField, str]:
        import jsonpath

        for field, path in reply.items():
            try:
                jsonpath.compile(path)
            except jsonpath.JSONPathError as error:
                raise ValueError(f"{field}: {path!r} is not a JSONPath: {str(error).splitlines()[0]}") from None
        return reply


class HttpSystem:
    """Asks an endpoint, once for each query of a run: what has answered is in the ledger, so a resumed run does not ask again.

    Latency is measured here, from the request's beginning (under a ``rate``, from when it was due) to the reply's last
    byte. What is wrong with a reply is the error of that response. ``run`` tells apart the calls of two runs. Raises
    BadSettings where an environment variable is not set.
    """

    def __init__(self, name: str, config: HttpConfig, ledger: Ledger, *, run: str) -> None:
        self._name, self.config, self._ledger, self._run = name, config, ledger, run
        self._in_flight = asyncio.Semaphore(config.in_flight)
        self._next_due = 0.0
        try:
            self._headers = {key: with_variables(value) for key, value in config.headers.items()}
        except KeyError as missing:
            what = f"the environment variable {missing.args[0]} is not set"
            raise BadSettings(what, where=f"systems.{name}.headers") from None

    @property
    def name(self) -> str:
        """The system's name in reports."""
        return self._name

    async def respond(self, sample: Sample) -> Response:
        """The system's response, or its error."""
        body = _filled(self.config.request, sample)
        call = Call.about(sample.query_id, "answer", [self._run, self.config.url, body])
        settled = await self._ledger.reserve(call, Usage(calls=1))
        if settled is not None:
            return Response.model_validate_json(settled.text) if settled.text else Response()
        response = Response(error="the request was broken off")
        try:
            response = await self._ask(body)
        finally:
            if response.error is None:
                await self._ledger.settle(call, Reply(text=response.model_dump_json(exclude_defaults=True)))
            else:
                await self._ledger.release(call, Usage())
        return response

    async def close(self) -> None:
        """Close the connections."""
        if client := self.__dict__.pop("_client", None):
            await client.aclose()

    async def _ask(self, body: Any) -> Response:
        client = self._client  # made before the clock starts, as is what it imports: that is not the system's latency
        await anyio.sleep(0)
        due = await self._turn()
        async with self._in_flight:
            began = time.perf_counter() if due is None else due
            try:
                # The time that it waited for a turn is not the request's.
                async with asyncio.timeout(self.config.timeout_s):
                    read = await self._exchange(client, body)
            except TimeoutError:
                return Response(error=f"no answer within {self.config.timeout_s:g} s")
            except BadInput as error:
                return Response(error=error.message)
            took_ms = (time.perf_counter() - began) * 1000
        try:
            return self._read(read, took_ms)
        except BadInput as error:
            return Response(error=error.message)

    async def _turn(self) -> float | None:
        """Wait until the next request is due; None where no rate is asked for."""
        if self.config.rate is None:
            return None
        now = time.perf_counter()
        due = max(self._next_due, now)  # later than now while earlier queries wait for their turn
        self._next_due = due + 1 / self.config.rate
        await asyncio.sleep(due - now)
        return due

    async def _exchange(self, client: httpx.AsyncClient, body: Any) -> Any:
        """The reply's JSON. Raises BadInput with what is wrong with it."""
        import httpx

        try:
            async with client.stream("POST", self.config.url, json=body, headers=self._headers) as reply:
                if reply.is_redirect:
                    there = shown(reply.headers.get("location", "nowhere"))
                    raise BadInput(f"the system redirects ({reply.status_code}) to {there}; redirects are not followed")
                raw = bytearray()
                async for piece in reply.aiter_bytes():
                    raw += piece
                    if len(raw) > MOST_BYTES:
                        raise BadInput(f"the reply is longer than {MOST_BYTES // 1_000_000} MB")
        except httpx.HTTPError as error:
            raise BadInput(f"no reply: {error or type(error).__name__}") from None
        text = raw.decode("utf-8", "replace")
        if not reply.is_success:
            raise BadInput(f"the system replied {reply.status_code}: {shown(text)}")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise BadInput(f"the reply is not JSON: {shown(text)}") from None

    def _read(self, reply: Any, took_ms: float) -> Response:
        values: dict[str, Any] = {"latency_ms": took_ms}
        for field, path in self._paths.items():
            matches = path.findall(reply)
            if field in _LISTS:
                whole = matches[0] if len(matches) == 1 and isinstance(matches[0], list) else matches
                values[field] = tuple(whole)
            elif matches:
                values[field] = matches[0]
        if "answer" in self._paths and values.get("answer") is None:
            where = self.config.reply["answer"]
            raise BadInput(f"the reply has no answer at {where}: {shown(json.dumps(reply, ensure_ascii=False))}")
        try:
            return Response.model_validate(values)
        except ValidationError as error:
            raise BadInput(f"the reply can't be used: {problems(error)[0]}") from None

    @cached_property
    def _paths(self) -> Mapping[str, JSONPath | CompoundJSONPath]:
        import jsonpath

        return {field: jsonpath.compile(path) for field, path in self.config.reply.items()}

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        import httpx

        limits = httpx.Limits(max_connections=self.config.in_flight)
        return httpx.AsyncClient(timeout=self.config.timeout_s, limits=limits, follow_redirects=False)


def _filled(template: Any, sample: Sample) -> Any:
    """The template with the row's values in its texts; a text that is nothing but a place takes the value as it is."""
    if isinstance(template, dict):
        return {key: _filled(value, sample) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, sample) for value in template]
    if not isinstance(template, str):
        return template
    if whole := _PLACE.fullmatch(template):
        return _value(whole[1], sample)
    return _PLACE.sub(lambda place: str(_value(place[1], sample) or ""), template)


def _value(name: str, sample: Sample) -> Any:
    key = name.removeprefix("metadata.")
    return getattr(sample, name) if key == name else sample.metadata.get(key)
