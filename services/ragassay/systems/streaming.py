"""What comes over the wire as a reply: pieces of bytes, unpacked within bounds, and the events that they carry."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import TYPE_CHECKING, Literal

from ragassay.core.errors import BadInput
from ragassay.core.validation import shown

if TYPE_CHECKING:
    import httpx

    from ragassay.systems.base import RequestTimer

StreamFormat = Literal["sse", "ndjson"]
PACKED = "gzip, deflate"  # what can be unpacked within bounds, as ``Accept-Encoding`` says it
MOST_BYTES = 10_000_000  # of a reply, unpacked; a longer one is not read to its end
_HEAD = 500  # bytes
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


async def pieces(reply: httpx.Response, clock: RequestTimer) -> AsyncGenerator[bytes, None]:
    """The reply's bytes as they arrive; raises BadInput beyond ``MOST_BYTES``, however small they were packed.

    The clock notes when they arrived, before any task makes anything of them: many replies may come at once.
    """
    packing = reply.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise BadInput(f"the reply is packed as {shown(packing)}; {PACKED} or nothing was asked for")
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB) if packing not in ("", "identity") else None
    length, begun = 0, False
    async for piece in reply.aiter_raw():
        clock.arrived()
        await asyncio.sleep(0)
        begun = True
        try:
            unpacked = unpacker.decompress(piece, MOST_BYTES + 1 - length) if unpacker else piece
        except zlib.error:
            raise BadInput(f"the reply is not {packing}, although it says so") from None
        length += len(unpacked)
        if length > MOST_BYTES:
            raise BadInput(f"the reply is longer than {MOST_BYTES // 1_000_000} MB")
        yield unpacked
    if unpacker and begun and not unpacker.eof:
        raise BadInput(f"the reply breaks off: its {packing} is not whole")


def text_of(raw: bytes | bytearray) -> str:
    """The bytes as text; raises BadInput where they are not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"the reply is not UTF-8 from byte {error.start}: {shown(raw.decode('utf-8', 'replace'))}"
        ) from None


class Events:
    """The data of each event of a stream: of server-sent events, or each line of JSON that is not blank."""

    def __init__(self, form: StreamFormat) -> None:
        self._form = form
        self._line = bytearray()
        self._data: list[str] = []
        self.head = b""  # of the stream, to be shown where it is none

    async def of(self, arriving: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
        """Each event as soon as it is whole."""
        async for piece in arriving:
            self.head += piece[: _HEAD - len(self.head)] if len(self.head) < _HEAD else b""
            for text in self._feed(piece):
                yield text
        # the line break or blank line after an event may be missing
        for text in (*self._take_line(), *self._dispatch()):
            yield text

    def _feed(self, piece: bytes) -> Iterator[str]:
        *ended, rest = piece.split(b"\n")
        for line in ended:
            self._line += line
            yield from self._take_line()
        self._line += rest

    def _take_line(self) -> Iterator[str]:
        line = text_of(self._line).rstrip("\r")
        self._line.clear()
        if self._form == "ndjson":
            if line.strip():
                yield line
        elif not line:
            yield from self._dispatch()
        elif line.startswith("data:"):  # other fields, and comments that keep the connection open, carry no data
            self._data.append(line[5:].removeprefix(" "))

    def _dispatch(self) -> Iterator[str]:
        if self._data:
            yield "\n".join(self._data)
            self._data = []
