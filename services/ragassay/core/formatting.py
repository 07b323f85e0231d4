"""How numbers, intervals, lists, documents and foreign text are written, wherever ragassay shows them.

Imports little: every command line passes through ``printable``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ragassay.core.errors import BadSettings, MissingExtra, UnknownName
from ragassay.core.plugins import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import BaseModel

    from ragassay.core.statistics import Interval

MOST_LISTED = 4
MOST_LINES = 20
MOST_CHARACTERS = 2000
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_XML = re.compile("[\ufffe\uffff]")
_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>|#~"})
_MENTION = re.compile(r"(?<![\w@])@(?=\w)")
_Document = TypeVar("_Document")


def printable(text: str) -> str:
    r"""Text that no terminal acts on: control characters become ``\u001b``, so JSON stays the same document.

    That is C0 without newline and tab, DEL, C1, what overrides the direction of text, and half surrogate pairs.
    """
    return _ACTS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def bounded(text: str, most: int = MOST_CHARACTERS) -> str:
    """Text that no terminal acts on, of so many characters at the most: what comes from elsewhere may be long."""
    text = printable(text)
    return text if len(text) <= most else f"{text[:most]} ..."


def number(value: float | None, digits: int = 3, *, sign: str = "", beside: float | None = None) -> str:
    """``digits`` decimals; as many significant digits below 0.01; ``none``.

    ``sign``: ``+`` shows it also where it is positive. ``beside``: more digits where they are needed to tell the
    number from this one.
    """
    if value is None:
        return "none"
    text = f"{value:{sign}.{digits}f}" if abs(value) >= 0.01 or value == 0 else f"{value:{sign}.{digits}g}"
    if beside is not None and value != beside and text == number(beside, digits, sign=sign):
        return f"{value:{sign}.6g}"
    return text


def signed(value: float) -> str:
    """A difference of scores: ``+0.24``, ``-0.0057``."""
    return number(value, 2, sign="+")


def p_value(p: float) -> str:
    """``0.012``, ``<0.0001``."""
    return "<0.0001" if p < 0.0001 else f"{p:.2g}"


def quantity(value: float, digits: int = 3, *, sign: str = "") -> str:
    """A measurement in its own unit: ``digits`` significant digits, and never fewer than stand before the point."""
    return f"{value:{sign}.0f}" if abs(value) >= 100 else f"{value:{sign}.{digits}g}"


def interval(ends: Interval, write: Callable[[float], str] = number, form: str = "{}..{}") -> str:
    """``0.110..0.360``, ``unbounded`` above where it is, or why there is none. ``form``: such as ``[{}, {}]``."""
    if ends.low is None:
        return f"no interval: {ends.reason}"
    return form.format(write(ends.low), "unbounded" if ends.high is None else write(ends.high))


def percent(share: float) -> str:
    """``95 %``."""
    return f"{100 * share:.3g} %"


def listed(names: Iterable[str], most: int = MOST_LISTED) -> str:
    """``a, b and c``; a list that is longer than ``most`` by two or more is cut and the rest counted."""
    every = list(names)
    if len(every) > most + 1:
        every = [*every[:most], f"{len(every) - most} more"]
    return " and ".join([", ".join(every[:-1]), every[-1]] if len(every) > 1 else every)


def cut(text: str, most: int) -> str:
    """Text on one line, of ``most`` characters at the most: a longer one ends in ``...``."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def shortlist(lines: Sequence[str], most: int = MOST_LINES) -> list[str]:
    """The first ``most`` and, where there are more, a line that counts the rest."""
    more = len(lines) - most
    return [*lines[:most], *([f"... and {more} more"] if more > 0 else [])]


def json_document(document: object) -> bytes:
    """A model, or what JSON has types for, as indented JSON; text in it that a terminal would act on is escaped."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return printable(orjson.dumps(document, default=_plain, option=options).decode()).encode()


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json")


def xml_text(text: str) -> str:
    """Text without the characters that XML forbids."""
    return _NOT_XML.sub("\ufffd", printable(text))


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, on one line; ``@name`` gets a space of no width, so that nobody is notified."""
    return _MENTION.sub("@\u200b", printable(" ".join(text.split()))).translate(_MARKDOWN)


def markdown_code(text: str) -> str:
    """Text as code within a line of Markdown."""
    return f"`{printable(' '.join(text.split())).replace('`', chr(39))}`"


def markdown_row(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def check_output(path: Path) -> None:
    """Raise BadSettings where no file can be written: at a folder, or below what is none. Missing folders are made later."""
    if path.is_dir():
        raise BadSettings(f"output {str(path)!r} is a folder", hint="name a file")
    there = next((above for above in path.parents if above.exists()), None)
    if there is not None and not there.is_dir():
        raise BadSettings(f"output {str(path)!r}: {str(there)!r} is no folder", hint="name another place")


class Exporters(Registry[Callable[..., bytes | Iterable[bytes]]], Generic[_Document]):
    """What writes one kind of document, whole or in parts, by the extension of the file, which is the format.

    One that takes ``fields`` writes these columns of the rows, in this order. A format that has no place for a summary has
    it in a file beside it, in the format ``summary.EXTENSION``. ``modules``: what a format of ours needs, of the extra of its name.
    """

    modules: ClassVar = {"parquet": "pyarrow", "pdf": "typst", "xlsx": "xlsxwriter"}

    def get(self, name: str) -> Callable[..., bytes | Iterable[bytes]]:
        """What writes that format; raises UnknownName with the near matches, and MissingExtra."""
        from importlib.util import find_spec

        write = super().get(name)
        module = self.modules.get(name.lower())
        if module is not None and name.lower() not in self._things and find_spec(module) is None:
            raise MissingExtra(f"the format {name.lower()}", name.lower())
        return write

    def for_file(self, path: Path, form: str | None = None) -> Callable[..., bytes | Iterable[bytes]]:
        """What writes the file, in its extension's format where no other is named.

        Raises UnknownName, MissingExtra, and BadSettings where no file can be written.
        """
        extension = (form or self._extension(path)).removeprefix(".")
        if not extension:
            raise BadSettings(f"output {str(path)!r} has no extension", hint=f"one of: {', '.join(self.names())}")
        check_output(path)
        if extension not in self:
            raise UnknownName(self.kind, extension, self.names(), where=f"output {str(path)!r}")
        return self.get(extension)

    def check(self, paths: Iterable[Path]) -> None:
        """Raise what ``for_file`` raises of any of them."""
        for path in paths:
            self.for_file(path)

    def make(self, document: _Document, form: str, fields: Sequence[str] = ()) -> bytes | Iterable[bytes]:
        """The document in a format; raises UnknownName, MissingExtra, and BadSettings where the format has no fields."""
        return _made(self.get(form), document, fields)

    def whole(self, document: _Document, form: str, fields: Sequence[str] = ()) -> bytes:
        """As ``make``, all of it at once."""
        made = self.make(document, form, fields)
        return made if isinstance(made, bytes) else b"".join(made)

    def write(
        self, document: _Document, path: Path, *, form: str | None = None, fields: Sequence[str] = ()
    ) -> list[Path]:
        """Write the document to a file, which is whole or absent and its owner's alone: it holds questions and answers.

        Returns the files: that one and, where its format has no place for a summary, the one with the summary.
        """
        from ragassay.core.files import write_whole

        content = _made(self.for_file(path, form), document, fields)
        written, beside = [path], f"summary.{form or self._extension(path)}"
        if beside in self:
            written.append(path.with_name(f"{path.stem if path.suffix else path.name}.{beside}"))
            write_whole(written[-1], self.for_file(written[-1], beside)(document), private=True)
        write_whole(path, content, private=True)
        return written

    def _extension(self, path: Path) -> str:
        two = "".join(path.suffixes[-2:]).removeprefix(".")
        return two if two in self else path.suffix.removeprefix(".")


def _made(
    write: Callable[..., bytes | Iterable[bytes]], document: object, fields: Sequence[str]
) -> bytes | Iterable[bytes]:
    if not fields:
        return write(document)
    from inspect import signature

    if "fields" not in signature(write).parameters:
        raise BadSettings("this format has no fields to choose from", where="fields", hint="leave them out")
    return write(document, fields=fields)
