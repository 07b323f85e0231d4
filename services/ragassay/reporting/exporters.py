"""Documents as files: what writes which format, and what a format needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ragassay.core.errors import BadSettings, MissingExtra, UnknownName
from ragassay.core.files import check_output, write_whole
from ragassay.core.plugins import Registry
from ragassay.reporting.document import Document
from ragassay.reporting.markdown import to_markdown
from ragassay.reporting.page import to_html
from ragassay.reporting.pdf import to_pdf

_Document = TypeVar("_Document")
Write = Callable[..., bytes | Iterable[bytes]]


def of_document(kind: str, build: Callable[[Any], Document]) -> dict[str, Write]:
    """What writes the document that ``build`` makes, as Markdown, HTML and PDF."""
    return {
        "md": lambda source: to_markdown(build(source), kind),
        "html": lambda source: to_html(build(source)),
        "pdf": lambda source: to_pdf(build(source)),
    }


class Exporters(Registry[Write], Generic[_Document]):
    """What writes one kind of document, whole or in parts, by the extension of the file, which is the format.

    One that takes ``fields`` writes these columns of the rows, in this order. A format that has no place for a summary has
    it in a file beside it, in the format ``summary.EXTENSION``. ``modules``: what a format of ours needs, of the extra of its name.
    """

    modules: ClassVar = {"parquet": "pyarrow", "pdf": "typst", "xlsx": "xlsxwriter"}

    def get(self, name: str) -> Write:
        """What writes that format; raises UnknownName with the near matches, and MissingExtra."""
        write, form = super().get(name), name.lower()
        is_ours = getattr(write, "__module__", "").startswith("ragassay.reporting.")
        if is_ours and form in self.modules and find_spec(self.modules[form]) is None:
            raise MissingExtra(f"the format {form}", form)
        return write

    def for_file(self, path: Path, form: str | None = None) -> Write:
        """What writes the file, in its extension's format where no other is named.

        Raises UnknownName, MissingExtra, and BadSettings where no file can be written.
        """
        extension = form or self._extension(path)
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

    def write(self, document: _Document, path: Path, *, form: str | None = None, fields: Sequence[str] = ()) -> None:
        """Write the document to a file, which is whole or absent and its owner's alone: it holds questions and answers.

        Where its format has no place for a summary, that is a second file.
        """
        content, beside = _made(self.for_file(path, form), document, fields), f"summary.{form or self._extension(path)}"
        if beside in self:
            second = path.with_name(f"{path.stem if path.suffix else path.name}.{beside}")
            write_whole(second, self.for_file(second, beside)(document), private=True)
        write_whole(path, content, private=True)

    def _extension(self, path: Path) -> str:
        two = "".join(path.suffixes[-2:]).removeprefix(".")
        return two if two in self else path.suffix.removeprefix(".")


def _made(write: Write, document: object, fields: Sequence[str]) -> bytes | Iterable[bytes]:
    if not fields:
        return write(document)
    if "fields" not in signature(write).parameters:
        raise BadSettings("this format has no fields to choose from", where="fields", hint="leave them out")
    return write(document, fields=fields)
