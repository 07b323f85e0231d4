"""Documents as HTML for a notebook: plain tables, in which no text from data is markup."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ragassay.core.formatting import printable
from ragassay.reporting.document import Block, Cards, Document, Facts, MeanTable, Sentences
from ragassay.reporting.tables import Table


def as_html(document: Document) -> str:
    """The document without its details and charts."""
    return f'<div class="ragassay">{"".join(_parts(document))}</div>'


def _parts(document: Document) -> Iterator[str]:
    lines = [*document.answer, *(f"{name}: {sentence}" for name, sentence in document.headlines)]
    yield from (f"<p>{_escaped(line)}</p>" for line in (*lines, *document.notes))
    for block in document.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table | MeanTable):
        table = block.table() if isinstance(block, MeanTable) else block
        heads = "".join(f"<th>{_escaped(head)}</th>" for head in table.columns)
        rows = ("".join(f"<td>{_escaped(cell)}</td>" for cell in row) for row in table.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"<caption>{_escaped(table.title)}</caption>"
        yield f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        yield f"<p>{_escaped(table.note)}</p>" if table.note else ""
    elif isinstance(block, Cards):
        yield f"<p>{_escaped(block.title)}</p>"
        for card in block.cards:
            texts = "".join(f"<br>{_escaped(label)}: {_escaped(text)}" for label, text in card.texts if text)
            yield f"<p>{_escaped(card.about)}: {_escaped(card.title)}{texts}</p>"
    elif isinstance(block, Sentences):
        yield "".join(f"<p>{_escaped(line)}</p>" for line in block.lines)
    elif isinstance(block, Facts):
        yield f"<p>{_escaped(block.title)}</p>"
        yield "".join(f"<p>{_escaped(name)}: {_escaped(value)}</p>" for name, value in block.facts)


def _escaped(text: str) -> str:
    return escape(printable(text))
