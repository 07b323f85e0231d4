"""Reports and comparisons as one HTML file: its style is inside, nothing is loaded, and no script is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragassay.analysis.models import Comparison
from ragassay.core.formatting import printable
from ragassay.core.report import ReportWithResults
from ragassay.reporting.comparison import of_comparison
from ragassay.reporting.document import Document
from ragassay.reporting.report import of_report

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
STYLE = HERE / "static" / "style.css"


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The report as a page; ``fields``: of the rows too, as a table."""
    yield _page(of_report(report, fields))


def compared(comparison: Comparison) -> Iterator[bytes]:
    """The comparison as a page."""
    yield _page(of_comparison(comparison))


def environment(*folders: Path) -> Environment:
    """Templates of these folders, and ours; text in them is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _page(document: Document) -> bytes:
    from markupsafe import Markup

    style = Markup(STYLE.read_text())  # noqa: S704 - ours
    parts = [(type(part).__name__.lower(), part) for part in (*document.blocks, *document.details)]
    page = environment().get_template("document.html").render(document=document, parts=parts, style=style)
    return printable(page).encode()
