"""Tables of reports and comparisons as text for a terminal, and as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ragassay.core.formatting import printable
from ragassay.reporting.tables import Table, table


def as_text(lines: Iterable[str], tables: Iterable[Table], *notes: Iterable[str]) -> str:
    """The lines, the tables as wide as the terminal, then each group of notes; control characters are shown, not sent."""
    parts = ["\n".join(lines)]
    for one in tables:
        rows = table(one.columns, one.rows, least=one.least)
        parts.append("\n".join([one.title, *rows, *([one.note] if one.note else [])]))
    parts += map("\n".join, notes)
    return printable("\n\n".join(part for part in parts if part))


def as_html(lines: Iterable[str], tables: Iterable[Table], *notes: Iterable[str]) -> str:
    """The same as HTML in which no text from data is markup."""
    parts = [f"<p>{_escaped(line)}</p>" for line in lines]
    for one in tables:
        heads = "".join(f"<th>{_escaped(head)}</th>" for head in one.columns)
        rows = ("".join(f"<td>{_escaped(cell)}</td>" for cell in row) for row in one.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"<caption>{_escaped(one.title)}</caption>"
        parts.append(f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")
        parts += [f"<p>{_escaped(one.note)}</p>"] if one.note else []
    parts += [f"<p>{_escaped(note)}</p>" for group in notes for note in group]
    return f'<div class="ragassay">{"".join(parts)}</div>'


def _escaped(text: str) -> str:
    return escape(printable(text))
