"""Which formats there are, and which of them a file has. A BEIR folder is known by what lies in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragassay.core.errors import BadData, BadInput, NotFound, NothingToEvaluate, UnknownName
from ragassay.datasets.json import begins_with_a_span, jsonl_rows, read_json, read_traces
from ragassay.datasets.qrels import beir_folder, read_beir, read_trec
from ragassay.datasets.raw import NumberedRow, RawRows
from ragassay.datasets.tables import csv_rows, parquet_rows, tsv_rows
from ragassay.datasets.values import open_cells

_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}(?:/.*)?")  # an address without its http://


@dataclass(frozen=True)
class Format:
    """A file format: its extensions, in lower case, and what reads it, whole or row by row."""

    name: str
    extensions: tuple[str, ...]
    whole: Callable[[Path], RawRows] | None = None
    rows: Callable[[RawRows], Iterator[NumberedRow]] | None = None
    is_text: bool = True


FORMATS = {
    each.name: each
    for each in (
        Format("json", (".json",), read_json),
        Format("jsonl", (".jsonl", ".ndjson"), rows=jsonl_rows),
        Format("csv", (".csv",), rows=csv_rows),
        Format("tsv", (".tsv", ".tab"), rows=tsv_rows),
        Format("parquet", (".parquet", ".pq"), rows=parquet_rows, is_text=False),
        Format("trec", (".qrels", ".run", ".trec", ".txt"), read_trec),
        Format("traces", (), read_traces),
    )
}
_HEAD = 4096
_NOT_TEXT = (
    (b"PAR1", "is a Parquet file", "--format parquet"),
    (b"\x1f\x8b", "is compressed with gzip", "unpack it first"),
    (b"(\xb5/\xfd", "is compressed with zstandard", "unpack it first"),
    (b"PK\x03\x04", "is a zip archive or a spreadsheet", "unpack it, or save the sheet as CSV"),
    (b"\xff\xfe", "is UTF-16 text", "save the file as UTF-8"),
    (b"\xfe\xff", "is UTF-16 text", "save the file as UTF-8"),
)


def read(path: Path, name: str = "auto") -> RawRows:
    """The rows of a file in the format of that name, or of a BEIR folder; ``auto`` goes by the extension.

    Raises NotFound, UnknownName (no such format), BadInput (a folder, an unknown extension, no permission),
    NothingToEvaluate (no byte or no row in it) or BadData (malformed as a whole).
    """
    folder = _folder(path, name)
    with _reading(path):
        raw = _whole(_format(path, name), path) if folder is None else read_beir(folder, path)
    if not raw.rows and not raw.refused:
        raise NothingToEvaluate("the file holds no rows", where=str(path))
    return raw


def _whole(chosen: Format, path: Path) -> RawRows:
    if chosen.whole:
        return chosen.whole(path)
    raw = RawRows(path)
    raw.rows = list(chosen.rows(raw) if chosen.rows else ())
    return raw


def stream(path: Path, name: str = "auto") -> tuple[RawRows, Iterator[NumberedRow]]:
    """As ``read``, with the rows still to come: one by one from JSON Lines, CSV, TSV and Parquet.

    The other formats are read whole. What can't be read is noted in the first part as the rows go by.
    """
    folder = _folder(path, name)
    with _reading(path):
        chosen = _format(path, name) if folder is None else None
        rows = chosen.rows if chosen else None
    if rows is None:
        raw = read(path, name)
        return raw, raw.drain()
    raw = RawRows(path)
    return raw, _opened(raw, rows(raw))


def comes_row_by_row(path: Path, name: str = "auto") -> bool:
    """Does ``stream`` give the rows one by one? Raises as ``read`` does."""
    folder = _folder(path, name)
    with _reading(path):
        return folder is None and _format(path, name).rows is not None


def _opened(raw: RawRows, rows: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
    with _reading(raw.path):
        for number, values in rows:
            if raw.cells:
                open_cells(values)
            yield number, values


def _folder(path: Path, name: str) -> Path | None:
    """The BEIR folder that is meant; None for a file. Raises UnknownName and BadInput."""
    if name != "auto" and name not in FORMATS:
        raise UnknownName("format", name, ["auto", *FORMATS], where="--format")
    folder = beir_folder(path) if path.is_dir() or name in ("auto", "trec") else None
    if path.is_dir() and folder is None:
        raise BadInput("is a folder, not a file", where=str(path), hint=f"supported are {_supported()}")
    return folder


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """The system's errors of reading as ours."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound("there is no such file", where=str(path)) from None
    except OSError as error:
        raise BadInput(f"can't be read: {error.strerror or error}", where=str(path)) from None


def _format(path: Path, name: str) -> Format:
    """The format of a file that is not empty and may have it."""
    chosen = FORMATS[name] if name != "auto" else _by_extension(path)
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if len(head) < _HEAD and not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise NothingToEvaluate("the file is empty", where=str(path))
    if chosen.is_text:
        _refuse_binary(path, head)
    is_jsonl = name == "auto" and chosen.name == "jsonl"
    return FORMATS["traces"] if is_jsonl and begins_with_a_span(path) else chosen


def _by_extension(path: Path) -> Format:
    extension = path.suffix.lower()
    for each in FORMATS.values():
        if extension in each.extensions:
            return each
    if not path.exists():
        hint = f"did you mean http://{path}?" if _HOST_AND_PORT.fullmatch(str(path)) else None
        raise NotFound("there is no such file", where=str(path), hint=hint)
    what = f"the extension {extension!r} names no supported format" if extension else "the file has no extension"
    raise BadInput(what, where=str(path), hint=f"supported are {_supported()}; --format names the format")


def _supported() -> str:
    files = ", ".join(f"{each.name} ({' '.join(each.extensions)})" for each in FORMATS.values() if each.extensions)
    return f"{files}, and BEIR folders"


def _refuse_binary(path: Path, head: bytes) -> None:
    for magic, what, hint in _NOT_TEXT:
        if head.startswith(magic):
            raise BadData([f"{path}: {what}"], hint=hint)
    if b"\x00" in head:
        raise BadData([f"{path}: is not text: byte {head.index(0) + 1} is zero"], hint=f"supported are {_supported()}")
