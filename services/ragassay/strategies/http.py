"""A system under test that answers over HTTP: how it is asked, and where its reply has what."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Predicate
from pydantic import Field, field_validator

from ragassay.errors import BadInput, BadSettings
from ragassay.models import Response, Sample
from ragassay.options import is_address
from ragassay.settings import VARIABLE, with_variables
from ragassay.strategies.live import LiveOptions, response_from
from ragassay.validation import shown

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


class HttpConfig(LiveOptions):
    """A system that answers over HTTP, one request a query."""

    kind: Annotated[Literal["http"], Field(description="a system that answers over HTTP")]
    url: Annotated[
        str,
        Field(pattern=r"^https?://[^\s/]+\S*$", description="where a query is posted to, as JSON"),
        Predicate(is_address),
    ]
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


class HttpAsks:
    """Posts queries to an address. Raises BadSettings where an environment variable is not set; ``where`` names the system."""

    def __init__(self, config: HttpConfig, where: str) -> None:
        self._config = config
        try:
            self._headers = {key: with_variables(value) for key, value in config.headers.items()}
        except KeyError as missing:
            what = f"the environment variable {missing.args[0]} is not set"
            raise BadSettings(what, where=f"{where}.headers") from None

    async def warm_up(self) -> None:
        """Make the client, and import what a first request needs."""
        import anyio

        _ = self._client, self._paths
        await anyio.sleep(0)  # it loads what it needs of the event loop

    async def ask(self, sample: Sample) -> Response:
        """What the reply has, where its paths say; raises BadInput with what is wrong with it."""
        reply = await self._exchange(_filled(self._config.request, sample))
        values: dict[str, Any] = {}
        for field, path in self._paths.items():
            matches = path.findall(reply)
            if field in _LISTS:
                whole = matches[0] if len(matches) == 1 and isinstance(matches[0], list) else matches
                values[field] = tuple(whole)
            elif matches:
                values[field] = matches[0]
        if "answer" in self._paths and values.get("answer") is None:
            where = self._config.reply["answer"]
            raise BadInput(f"the reply has no answer at {where}: {shown(json.dumps(reply, ensure_ascii=False))}")
        return response_from(values)

    async def close(self) -> None:
        """Close the connections."""
        if client := self.__dict__.pop("_client", None):
            await client.aclose()

    async def _exchange(self, body: Any) -> Any:
        """The reply's JSON."""
        import httpx

        try:
            async with self._client.stream("POST", self._config.url, json=body, headers=self._headers) as reply:
                if reply.is_redirect:
                    there = shown(reply.headers.get("location", "nowhere"))
                    raise BadInput(f"the system redirects ({reply.status_code}) to {there}; redirects are not followed")
                raw = bytearray()
                async for piece in reply.aiter_bytes():
                    raw += piece
                    if len(raw) > MOST_BYTES:
                        raise BadInput(f"the reply is longer than {MOST_BYTES // 1_000_000} MB")
        except httpx.TimeoutException:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise BadInput(f"no reply: {error or type(error).__name__}") from None
        text = raw.decode("utf-8", "replace")
        if not reply.is_success:
            raise BadInput(f"the system replied {reply.status_code}: {shown(text)}")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise BadInput(f"the reply is not JSON: {shown(text)}") from None

    @cached_property
    def _paths(self) -> Mapping[str, JSONPath | CompoundJSONPath]:
        import jsonpath

        return {field: jsonpath.compile(path) for field, path in self._config.reply.items()}

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        import httpx

        limits = httpx.Limits(max_connections=self._config.in_flight)
        return httpx.AsyncClient(timeout=self._config.timeout_s, limits=limits, follow_redirects=False)


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
