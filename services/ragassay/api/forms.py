"""Reads a form that brings a file: its fields into memory, a few short ones, and the file onto the disk as it comes."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ragassay.core.errors import BadInput
from ragassay.core.files import open_private

MOST_PARTS, LONGEST_FIELD = 200, 10_000  # bytes
LONGEST_BOUNDARY = 70  # RFC 2046
_AGAIN = "send it again from the page"


class Form:
    """What a browser sends as multipart/form-data, while it comes; a context that closes the file.

    ``fields``: the last value of each. ``filename``: how the file is called there; empty where none was chosen.
    ``write`` and ``end`` raise BadInput for what is no such form.
    """

    def __init__(self, content_type: str, path: Path) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 0 < len(boundary) <= LONGEST_BOUNDARY:
            raise BadInput("the form is not sent as multipart/form-data", hint=_AGAIN)
        self.fields: dict[str, str] = {}
        self.filename = ""
        self._parts, self._whole, self._is_file = 0, False, False
        self._key, self._value, self._headers = bytearray(), bytearray(), dict[bytes, bytes]()
        self._name, self._text = "", bytearray()
        self._parser = MultipartParser(
            boundary,
            {
                "on_header_field": lambda data, start, end: self._key.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._header_ended,
                "on_headers_finished": self._part_began,
                "on_part_data": self._part_goes_on,
                "on_part_end": self._part_ended,
                "on_end": self._ended,
            },
        )
        self._file = open(path, "wb", opener=open_private)  # noqa: SIM115 - this is the context

    def __enter__(self) -> Form:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def write(self, content: bytes | bytearray) -> None:
        """Take the next bytes."""
        try:
            self._parser.write(bytes(content))
        except FormParserError as error:
            raise BadInput(f"the form can't be read ({error})", hint=_AGAIN) from None

    def end(self) -> None:
        """There are no more."""
        if not self._whole:
            raise BadInput("the form can't be read (its end is missing)", hint=_AGAIN)

    def _header_ended(self) -> None:
        self._headers[bytes(self._key).lower()] = bytes(self._value)
        self._key.clear()
        self._value.clear()

    def _part_began(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise BadInput(f"the form has more than {MOST_PARTS} fields")
        _, options = parse_options_header(self._headers.pop(b"content-disposition", b""))
        self._headers.clear()
        self._name, self._is_file = _text(options.get(b"name", b"")), b"filename" in options
        if called := options.get(b"filename"):
            if self.filename:
                raise BadInput("the form brings more than one file", hint="send one at a time")
            self.filename = _text(called)

    def _part_goes_on(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._file.write(data[start:end])
        elif len(self._text) + end - start > LONGEST_FIELD:
            raise BadInput(f"is longer than {LONGEST_FIELD:,} bytes", where=self._name[:100])
        else:
            self._text += data[start:end]

    def _part_ended(self) -> None:
        if not self._is_file:
            self.fields[self._name] = _text(self._text)
        self._text.clear()

    def _ended(self) -> None:
        self._whole = True


def _text(content: bytes | bytearray) -> str:
    return content.decode("utf-8", "replace")
