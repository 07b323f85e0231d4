"""A system under test behind an API like OpenAI's chat completions: a short way to write down how it is asked over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from ragassay.core.settings import VARIABLE
from ragassay.systems.http import Address, HttpConfig, ReplyPaths
from ragassay.systems.live import LiveOptions
from ragassay.systems.pieces import ReplyField

_USAGE: dict[ReplyField, str] = {
    "model": "$.model",
    "input_tokens": "$.usage.prompt_tokens",
    "output_tokens": "$.usage.completion_tokens",
    "error": "$.error",
}
_WHOLE: dict[ReplyField, str] = {"answer": "$.choices[0].message.content", **_USAGE}
_STREAMED: dict[ReplyField, str] = {"answer": "$.choices[0].delta.content", **_USAGE}


class OpenAIConfig(LiveOptions):
    """A system that answers as OpenAI's chat completions do, one request a query."""

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
        roles = {"system": self.system, "user": self.prompt}
        messages = [{"role": role, "content": content} for role, content in roles.items() if content is not None]
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
