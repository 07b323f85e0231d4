"""Tables of reports and comparisons as text for a terminal, and as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from ragassay.render import printable


class ShownTable(NamedTuple):
    """A titled table: its heads, its rows, and a line below it."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def as_text(lines: Iterable[str], tables: Iterable[ShownTable]) -> str:
    """The lines, then the tables with their columns aligned; control characters are shown, not sent."""
    parts = ["\n".join(lines)]
    for table in tables:
        cells = [table.heads, *table.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        parts.append("\n".join([table.title, *rows, *([table.note] if table.note else [])]))
    return printable("\n\n".join(part for part in parts if part))


def as_html(lines: Iterable[str], tables: Iterable[ShownTable]) -> str:
    """The same as HTML in which no text from data is markup."""
    parts = [f"<p>{_escaped(line)}</p>" for line in lines]
    for table in tables:
        heads = "".join(f"<th>{_escaped(head)}</th>" for head in table.heads)
        rows = ("".join(f"<td>{_escaped(cell)}</td>" for cell in row) for row in table.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"<caption>{_escaped(table.title)}</caption>"
        parts.append(f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")
        parts += [f"<p>{_escaped(table.note)}</p>"] if table.note else []
    return f'<div class="ragassay">{"".join(parts)}</div>'


def _escaped(text: str) -> str:
    return escape(printable(text))
