"""Reports and comparisons as PDF, by typst; every text goes to it as data, none of it as markup."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any

import orjson

from ragassay.compare.models import Comparison
from ragassay.documents import Report
from ragassay.exporters import fonts
from ragassay.exporters.charts import Chart
from ragassay.exporters.outline import Outline, of_comparison, of_report
from ragassay.exporters.page import TEMPLATES, environment
from ragassay.render import listed, xml_text

logger = logging.getLogger("ragassay.exporters.pdf")
_LONG_WORD = re.compile(r"[^\s\u200b]{25}(?=[^\s\u200b])")  # a line can't be broken in it
_MOST_NAMED = 8


def export(report: Report, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The report on pages of A4; ``fields``: of the rows too, as a table. Characters that no font has are logged and listed."""
    yield _pages(of_report(report, fields))


def compared(comparison: Comparison) -> Iterator[bytes]:
    """The comparison on pages of A4."""
    yield _pages(of_comparison(comparison))


def _pages(outline: Outline) -> bytes:
    import typst

    drawing = environment().get_template("chart.svg")
    parts = [
        {"kind": type(part).__name__.lower(), **_breakable(asdict(part)), "svg": drawing.render(one=part)}
        if isinstance(part, Chart)
        else {"kind": type(part).__name__.lower(), **_breakable(asdict(part))}
        for part in outline.parts
    ]
    document = {**_breakable(asdict(outline)), "parts": parts, "lacking": ""}
    document["created"] = outline.created and outline.created.strftime("%Y-%m-%d")
    chosen = fonts.choose(orjson.dumps(document).decode())
    if chosen.lacking:
        document["lacking"] = _told(chosen.lacking)
        logger.warning(
            "the PDF lacks characters that no installed font has: %s; install a font that has them", document["lacking"]
        )
    document["fonts"] = chosen.families or ["Libertinus Serif"]  # typst's own
    made: bytes = typst.compile(
        str(TEMPLATES / "document.typ"),
        root=str(TEMPLATES),
        font_paths=list(chosen.folders),
        ignore_system_fonts=not chosen.system,
        sys_inputs={"data": orjson.dumps(document).decode()},
        timestamp=int(outline.created.replace(tzinfo=UTC).timestamp()) if outline.created else 0,
    )
    return made


def _breakable(value: Any) -> Any:
    """The value with a place for a line break in each long word, and without characters that are no text."""
    if isinstance(value, str):
        return _LONG_WORD.sub("\\g<0>\u200b", xml_text(value))
    if isinstance(value, dict):
        return {key: _breakable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_breakable(one) for one in value]
    return value


def _told(characters: str) -> str:
    named = [f"{one} (U+{ord(one):04X} {unicodedata.name(one, 'unnamed').lower()})" for one in characters]
    return listed(named, _MOST_NAMED)
