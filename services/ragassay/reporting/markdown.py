"""A document as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragassay.core.formatting import printable
from ragassay.reporting.charts import Chart
from ragassay.reporting.document import Block, Cards, Document, Passages, Table

_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>|#~"})
_MENTION = re.compile(r"(?<![\w@])@(?=\w)")


def to_markdown(document: Document, kind: str) -> bytes:
    """The document without its charts. The first line is a hidden marker, by which a later comment can replace this one."""
    lines = [f"<!-- ragassay {kind} -->", *_lines(document)]
    return ("\n".join(lines) + "\n").encode()


def _lines(document: Document) -> Iterator[str]:
    yield f"# {markdown_text(document.title)}".rstrip()
    if document.about:
        yield from ("", markdown_text(document.about))
    if document.answer:
        yield from ("", *(f"{markdown_text(sentence)}  " for sentence in document.answer))
    if document.headlines:
        yield from ("", *(f"- **{markdown_text(name)}**: {markdown_text(said)}" for name, said in document.headlines))
    if document.notes:
        yield from ("", *(f"- {markdown_text(note)}" for note in document.notes))
    for block in (*document.blocks, *document.details):
        if not isinstance(block, Chart):
            yield from ("", f"## {markdown_text(block.title)}", "", *_block(block))


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        if block.rows:
            rows = [block.columns, ["---"] * len(block.columns), *block.texts()]
            for n, row in enumerate(rows):
                yield f"| {' | '.join(row if n == 1 else map(markdown_text, row))} |"
        if block.note:
            yield from (*([""] if block.rows else []), markdown_text(block.note))
    elif isinstance(block, Cards):
        for card in block.cards:
            yield f"- **{markdown_text(card.about)}** {markdown_text(card.title)}"
            yield from (f"  - {markdown_text(label)}: {markdown_text(text)}" for label, text in card.texts if text)
    elif isinstance(block, Passages):
        for passage in block.passages:
            yield f"- {markdown_text(str(passage))}"
            yield from (f"  - {markdown_text(str(one))}" for one in passage.evidence)
        yield from (["", markdown_text(block.note)] if block.note else [])
    elif not isinstance(block, Chart):
        yield from (f"- {markdown_text(line)}" for line in block.lines)


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, on one line; ``@name`` gets a space of no width, so that nobody is notified."""
    return _MENTION.sub("@\u200b", printable(" ".join(text.split()))).translate(_MARKDOWN)
