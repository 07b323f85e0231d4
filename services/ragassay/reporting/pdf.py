"""Reports and comparisons as PDF, by typst; every text goes to it as data, none of it as markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from ragassay.analysis.models import Comparison
from ragassay.core.formatting import xml_text
from ragassay.core.report import ReportWithResults
from ragassay.reporting.charts import Chart
from ragassay.reporting.comparison import of_comparison
from ragassay.reporting.document import Document
from ragassay.reporting.page import TEMPLATES, environment
from ragassay.reporting.report import of_report

_LONG_WORD = re.compile(r"[^\s\u200b]{25}(?=[^\s\u200b])")  # a line can't be broken in it
_FONT_PACKAGES = "fontpkg.family"  # the group of entry points of packages that hold a family each
_CJK_PACKAGE = "noto_cjk_sans_otc"
_FAMILIES = ("Noto Sans", "Noto Sans Arabic", "Noto Sans Thai")  # then that of Han characters, then any other
_HANGUL, _KANA = re.compile("[\u1100-\u11ff\uac00-\ud7a3]"), re.compile("[\u3040-\u30ff]")


def export(report: ReportWithResults, fields: Sequence[str] = ()) -> Iterator[bytes]:
    """The report on pages of A4; ``fields``: of the rows too, as a table."""
    yield _pages(of_report(report, fields))


def compared(comparison: Comparison) -> Iterator[bytes]:
    """The comparison on pages of A4."""
    yield _pages(of_comparison(comparison))


def _pages(document: Document) -> bytes:
    import typst

    drawing = environment().get_template("chart.svg")
    blocks = [
        {"kind": type(block).__name__.lower(), **_breakable(asdict(block))}
        | ({"svg": drawing.render(one=block)} if isinstance(block, Chart) else {})
        for block in (*document.blocks, *document.details)
    ]
    data = {**_breakable(asdict(replace(document, blocks=(), details=()))), "blocks": blocks}
    data["created"] = document.created and document.created.strftime("%Y-%m-%d")
    data["fonts"] = [*_FAMILIES, _han_family(orjson.dumps(data).decode())]
    made: bytes = typst.compile(
        str(TEMPLATES / "document.typ"),
        root=str(TEMPLATES),
        font_paths=_font_folders(),
        sys_inputs={"data": orjson.dumps(data).decode()},
        timestamp=int(document.created.replace(tzinfo=UTC).timestamp()) if document.created else 0,
    )
    return made


def _han_family(text: str) -> str:
    """The family with the forms of Han characters of the language that the other characters of a text show."""
    return f"Noto Sans CJK {'KR' if _HANGUL.search(text) else 'JP' if _KANA.search(text) else 'SC'}"


def _font_folders() -> list[str]:
    """Where installed packages have fonts."""
    names = [point.value.partition(":")[0] for point in entry_points(group=_FONT_PACKAGES)]
    found = [find_spec(name) for name in (*names, _CJK_PACKAGE)]
    return [str(Path(spec.origin).parent) for spec in found if spec is not None and spec.origin]


def _breakable(value: Any) -> Any:
    """The value with a place for a line break in each long word, and without characters that are no text."""
    if isinstance(value, str):
        return _LONG_WORD.sub("\\g<0>\u200b", xml_text(value))
    if isinstance(value, dict):
        return {key: _breakable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_breakable(one) for one in value]
    return value
