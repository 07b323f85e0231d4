"""Reads a request's body: within the limit, in time, and only JSON that means the same to every reader."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from ragassay.api.problems import Refused
from ragassay.core.errors import BadData, TooLarge, UnknownName
from ragassay.core.models import FrozenModel
from ragassay.core.settings import Settings
from ragassay.core.validation import problems, shown
from ragassay.datasets.cells import plain
from ragassay.datasets.source import ValueProblem
from ragassay.datasets.strict_json import NotJson, object_of, parse

LONGEST_S = 60.0
MOST_CONTAINERS = 200_000  # more take seconds of the interpreter, which other requests need too
_Body = TypeVar("_Body", bound=FrozenModel)


async def json_body(request: Request) -> bytes:
    """The body's bytes, as they are. Refuses what is not JSON by its headers, too large or too slow.

    The limit holds while the body arrives, whatever Content-Length announces.
    """
    hint = "send the header: Content-Type: application/json"
    media_type(request, ("application/json",), "should be JSON in UTF-8, but ", hint)
    settings: Settings = request.app.state.settings
    try:
        async with asyncio.timeout(LONGEST_S):
            return await _read(request, settings.max_body_bytes)
    except TimeoutError:
        what = f"the body did not arrive within {LONGEST_S:.0f} s"
        raise Refused(408, "body_too_slow", what, hint="send it again") from None
    except ClientDisconnect:
        raise Refused(400, "gone", "the client disconnected before the body was complete") from None


async def _read(request: Request, limit: int) -> bytes:
    if announced(request) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def announced(request: Request) -> float:
    """How many bytes Content-Length says; 0 where it says nothing."""
    length = request.headers.get("content-length", "0")
    return float(length) if length.isdecimal() else 0.0


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is larger than {limit:,} bytes",
        hint="keep the rows as a dataset: ragassay data import FILE --name NAME, then ragassay evaluate NAME --server URL; "
        "or evaluate the file: ragassay evaluate FILE",
    )


def media_type(request: Request, known: Collection[str], wanted: str, hint: str) -> str:
    """The body's, by its headers; refuses one that is not ``known``, another charset than UTF-8, and a body that is packed."""
    content_type = request.headers.get("content-type", "")
    kind, _, parameters = content_type.partition(";")
    kind, charset = kind.strip().lower(), parameters.strip().lower().replace('"', "")
    if kind not in known or charset not in ("", "charset=utf-8"):
        what = f"its Content-Type is {shown(content_type)}" if content_type else "it has no Content-Type"
        raise Refused(415, "unsupported_media_type", f"the body {wanted}{what}", where="Content-Type", hint=hint)
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        what = f"the body is encoded as {shown(encoding)}"
        raise Refused(415, "unsupported_media_type", what, where="Content-Encoding", hint="send it as it is")
    return kind


def check_json(body: bytes) -> dict[str, Any]:
    """The object in the body. Refuses what parsers read differently or can't hold.

    That is NaN and infinity, whole numbers beyond 64 bits, half surrogate pairs, keys given twice, more than 64 levels, and
    more than 200,000 lists and objects. It takes up to a second: call it in a thread.
    """
    if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS:
        hint = "keep the rows as a dataset: ragassay data import FILE --name NAME, then ragassay evaluate NAME --server URL"
        raise TooLarge(f"the body has more than {MOST_CONTAINERS:,} lists and objects", hint=hint)
    try:
        document = object_of(parse(body.decode()))
        plain(document)
    except UnicodeDecodeError as error:
        what = f"is not UTF-8: byte 0x{body[error.start]:02x} at offset {error.start}"
        raise Refused(400, "bad_json", f"body: {what}") from None
    except NotJson as error:
        what = f"body: line {error.line}, column {error.column}: {error.what}"
        raise Refused(400, "bad_json", what) from None
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
