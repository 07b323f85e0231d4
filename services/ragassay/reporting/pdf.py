"""A document as PDF, by typst; every text goes to it as data, none of it as markup."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from datetime import UTC
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from ragassay.core.formatting import xml_text
from ragassay.reporting.charts import Chart
from ragassay.reporting.document import Document, Link, Table
from ragassay.reporting.page import TEMPLATES, environment

_LONG_WORD = re.compile(r"[^\s\u200b]{25}(?=[^\s\u200b])")  # a line can't be broken in it
_FONT_PACKAGES = ("fontpkg_noto_sans", "fontpkg_noto_sans_arabic", "fontpkg_noto_sans_thai", "noto_cjk_sans_otc")
_FAMILIES = (
    "Noto Sans",
    "Noto Sans Arabic",
    "Noto Sans Thai",
    "Noto Sans CJK SC",
)  # then any other that has a character


def to_pdf(document: Document) -> bytes:
    """The document on pages of A4."""
    import typst

    drawing = environment().get_template("chart.svg")
    data = _plain(replace(document, blocks=(), details=()))
    data["blocks"] = [
        {"kind": type(block).__name__, **_plain(block)}
        | ({"svg": xml_text(drawing.render(one=block))} if isinstance(block, Chart) else {})
        | ({"drawn": block.drawn} if isinstance(block, Table) else {})
        for block in (*document.blocks, *document.details)
    ]
    data["created"] = document.created and document.created.strftime("%Y-%m-%d")
    data["fonts"] = _FAMILIES
    made: bytes = typst.compile(
        str(TEMPLATES / "document.typ"),
        root=str(TEMPLATES),
        font_paths=[str(Path(spec.origin).parent) for spec in map(find_spec, _FONT_PACKAGES) if spec and spec.origin],
        sys_inputs={"data": orjson.dumps(data).decode()},
        timestamp=int(document.created.replace(tzinfo=UTC).timestamp()) if document.created else 0,
    )
    return made


def _plain(value: Any) -> Any:
    """The value as JSON has it: links as their text, and text with a place for a line break in each long word."""
    if isinstance(value, Link):
        return _plain(value.text)
    if isinstance(value, str):
        return _LONG_WORD.sub("\\g<0>\u200b", xml_text(value))
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
