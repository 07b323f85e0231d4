"""A document as lines of text, for a terminal and for ``str()``."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill, shorten

from ragassay.core.formatting import printable
from ragassay.reporting.document import Block, Cards, Document, Facts, MeanTable, Sentences
from ragassay.reporting.tables import Table, table, width

MOST_CARDS, LONGEST_TEXT = 8, 240


def text_lines(document: Document) -> Iterator[tuple[str, bool]]:
    """The lines without details and charts, each with whether it is a title."""
    yield from ((sentence, False) for sentence in document.answer)
    yield from ((f"{name}: {sentence}", False) for name, sentence in document.headlines)
    yield from ((f"warning: {note}", False) for note in document.notes)
    for block in document.blocks:
        if lines := list(_block(block)):
            yield from (("", False), (block.title, True))
            yield from ((line, False) for line in lines)


def as_text(document: Document) -> str:
    """The lines as one text; control characters are shown, not sent."""
    return printable("\n".join(line for line, _ in text_lines(document)))


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table | MeanTable):
        shown = block.table() if isinstance(block, MeanTable) else block
        if shown.rows:
            yield from table(shown.columns, shown.rows, least=shown.least)
        yield from ([shown.note] if shown.note else [])
    elif isinstance(block, Sentences):
        yield from block.lines
    elif isinstance(block, Facts):
        yield from (f"{name}: {value}" for name, value in block.facts)
    elif isinstance(block, Cards):
        for card in block.cards[:MOST_CARDS]:
            yield _paragraph(f"{card.about}: {card.title}", "")
            for label, text in card.texts:
                if text:
                    yield _paragraph(f"{label}: {shorten(text, LONGEST_TEXT, placeholder=' ...')}", "  ")
        if (more := len(block.cards) - MOST_CARDS) > 0:
            yield f"... and {more} more queries: -o FILE.md or --json has all"


def _paragraph(text: str, indent: str) -> str:
    return fill(text, width(), initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False)
