"""Reads a request's body: within the limit, in time, and only JSON that means the same to every reader."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from typing import Any, TypeVar

import orjson
from anyio import to_thread
from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from ragassay.api.problems import Refused
from ragassay.core.errors import BadData, TooLarge, UnknownName
from ragassay.core.models import FrozenModel
from ragassay.core.validation import problems, shown
from ragassay.dashboard.site import limited
from ragassay.datasets.cells import plain
from ragassay.datasets.source import NotJson, ValueProblem, object_of, parse

MAX_BYTES = 2_000_000
LONGEST_S = 60.0
MAX_CONTAINERS = 200_000  # more take seconds of the interpreter, which other requests need too
_AS_DATASET = (
    "keep the rows as a dataset: ragassay data import FILE --name NAME, then ragassay evaluate NAME --server URL"
)
_Body = TypeVar("_Body", bound=FrozenModel)


def json_body(kind: type[_Body]) -> Any:
    """A dependency: the body as ``kind``. Raises what ``read_json``, ``check_json`` and ``read_as`` raise."""

    async def read(request: Request) -> _Body:
        body = await read_json(request)
        return await to_thread.run_sync(lambda: read_as(kind, check_json(body)))

    return Depends(read)


async def read_json(request: Request) -> bytes:
    """The bytes of a JSON body. Raise Refused if its headers say otherwise, or what ``arriving`` raises."""
    hint = "send the header: Content-Type: application/json"
    media_type(request, ("application/json",), "should be JSON in UTF-8, but ", hint)
    hint = f"{_AS_DATASET}; or evaluate the file: ragassay evaluate FILE"
    return b"".join([piece async for piece in arriving(request, MAX_BYTES, LONGEST_S, hint)])


async def arriving(request: Request, limit: int, within_s: float, hint: str) -> AsyncGenerator[bytes, None]:
    """The pieces of the body, ``limited``; raises TooLarge, and Refused for a body that is too slow or breaks off."""
    try:
        async for piece in limited(request, limit, within_s, hint):
            yield piece
    except TimeoutError:
        what = f"the body did not arrive within {within_s:.0f} s"
        raise Refused(408, "body_too_slow", what, hint="send it again") from None
    except ClientDisconnect:
        raise Refused(400, "gone", "the client disconnected before the body was complete") from None


def media_type(
    request: Request, known: Collection[str], wanted: str, hint: str, *, encodings: Collection[str] = ("identity",)
) -> str:
    """The body's, by its headers; refuses one that is not ``known``, another charset than UTF-8, and another encoding."""
    content_type = request.headers.get("content-type", "")
    kind, _, parameters = content_type.partition(";")
    kind, charset = kind.strip().lower(), parameters.strip().lower().replace('"', "")
    if kind not in known or charset not in ("", "charset=utf-8"):
        what = f"its Content-Type is {shown(content_type)}" if content_type else "it has no Content-Type"
        raise Refused(415, "unsupported_media_type", f"the body {wanted}{what}", where="Content-Type", hint=hint)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() not in encodings:
        what, hint = f"the body is encoded as {shown(encoding)}", f"send it as {' or '.join(encodings)}"
        raise Refused(415, "unsupported_media_type", what, where="Content-Encoding", hint=hint)
    return kind


def check_json(body: bytes) -> dict[str, Any]:
    """The object in the body. Refuses what parsers read differently or can't hold.

    That is NaN and infinity, whole numbers beyond 64 bits, half surrogate pairs, keys given twice, more than 64 levels, and
    more than 200,000 lists and objects. It takes up to a second: call it in a thread.
    """
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:
        raise TooLarge(f"the body has more than {MAX_CONTAINERS:,} lists and objects", hint=_AS_DATASET)
    try:
        document = object_of(parse(body))
        plain(document)
    except NotJson as error:
        raise Refused(400, "bad_json", f"body: line {error.line}, {error.what}") from None
    except ValueProblem as error:
        raise Refused(400, "bad_json", f"{error.at.lstrip('.') or 'body'}: {error.what}") from None
    return document


def read_as(kind: type[_Body], document: dict[str, Any]) -> _Body:
    """A body as ``kind``; raises UnknownName for a key that it has not, BadData with a line for each bad value."""
    for key in document:
        if key not in kind.model_fields:
            raise UnknownName("key", key[:100], kind.model_fields)
    try:
        return kind.model_validate_json(orjson.dumps(document), strict=True)
    except ValidationError as error:
        raise BadData([str(problem) for problem in problems(error, kind)]) from None
