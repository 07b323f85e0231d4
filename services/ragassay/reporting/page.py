"""A document as HTML: one file whose style is inside and that loads and runs nothing, or a part of a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragassay.core.formatting import printable
from ragassay.reporting.document import Document

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
STYLE = HERE / "static" / "style.css"


def to_html(document: Document) -> bytes:
    """The document as a file."""
    from markupsafe import Markup

    style = Markup(STYLE.read_text())  # noqa: S704 - ours
    return _rendered("document.html", document, style=style).encode()


def as_html(document: Document) -> str:
    """The document for a notebook: without details and charts."""
    return _rendered("notebook.html", document)


def environment(*folders: Path) -> Environment:
    """Templates of these folders, and ours; text in them is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["kind"] = lambda block: type(block).__name__
    made.filters["unbroken"] = lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%")
    return made


def _rendered(template: str, document: Document, **more: str) -> str:
    return printable(environment().get_template(template).render(document=document, **more))
