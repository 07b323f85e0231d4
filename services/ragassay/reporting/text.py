"""A document as lines of text, for a terminal and for ``str()``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from textwrap import fill, shorten

from ragassay.core.formatting import printable
from ragassay.reporting.document import Block, Cards, Document, Passages, Sentences, Table

MAX_CARDS, LONGEST_TEXT = 8, 240
_GAP, _WIDEST = 2, 40  # a wider column is wrapped before a table is divided


def text_lines(document: Document) -> Iterator[tuple[str, bool]]:
    """The lines without details and charts, each with whether it is a title."""
    yield from ((sentence, False) for sentence in (*document.answer, document.about) if sentence)
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
    if isinstance(block, Table):
        if block.rows:
            yield from table(block.columns, list(block.texts()), least=block.least)
        yield from ([block.note] if block.note else [])
    elif isinstance(block, Sentences):
        yield from block.lines
    elif isinstance(block, Passages):
        for passage in block.passages:
            yield _paragraph(str(passage), "")
            yield from (_paragraph(str(one), "  ") for one in passage.evidence)
        yield from ([_paragraph(block.note, "")] if block.note else [])
    elif isinstance(block, Cards):
        for card in block.cards[:MAX_CARDS]:
            yield _paragraph(f"{card.about}: {card.title}", "")
            for label, text in card.texts:
                if text:
                    yield _paragraph(f"{label}: {shorten(text, LONGEST_TEXT, placeholder=' ...')}", "  ")
        if (more := len(block.cards) - MAX_CARDS) > 0:
            yield f"... and {more} more queries: -o FILE.md or --json has all"


def _paragraph(text: str, indent: str, within: int | None = None) -> str:
    return fill(text, within or width(), initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False)


def width() -> int:
    """Columns of the terminal, or of ``COLUMNS``; 100 where there is neither."""
    return shutil.get_terminal_size((100, 24)).columns


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, least: Sequence[str] = (), within: int | None = None
) -> list[str]:
    """The lines of a table within so many columns, the terminal's by default.

    If it is too wide, columns of ``least`` are left out, the first of them first, and the last line names them; then
    long texts are wrapped; if it is still too wide, a table of texts is a list of cells for each row, and any other goes on
    below, beside the first column again.
    """
    from rich.cells import cell_len

    within = within or width()
    widths = [max(map(cell_len, (name, *(row[n] for row in rows)))) for n, name in enumerate(columns)]
    kept, dropped = list(range(len(columns))), list[str]()

    def fits(some: Sequence[int], widest: int) -> bool:
        return sum(min(widths[n], widest) + _GAP for n in some) - _GAP <= within

    for name in least:
        if not fits(kept, within) and name in columns:
            kept.remove(list(columns).index(name))
            dropped.append(name)
    if not fits(kept, _WIDEST) and sum(each > _WIDEST for each in widths[1:]) > 1:
        lists = ((row[0], *(f"{columns[n]}: {row[n]}" for n in kept[1:] if row[n])) for row in rows)
        lines = [_paragraph(printable(text), "  " * (n > 0), within) for texts in lists for n, text in enumerate(texts)]
    else:
        groups = [kept[:1]]
        for n in kept[1:]:
            if len(groups[-1]) > 1 and not fits([*groups[-1], n], _WIDEST):
                groups.append(kept[:1])
            groups[-1].append(n)
        lines = [line for group in groups for line in ("", *_laid_out(columns, rows, group, within))][1:]
    names = ", ".join(name for name in columns if name in dropped)
    return [*lines, f"left out to fit {within} columns: {names}"] if dropped else lines


def _laid_out(columns: Sequence[str], rows: Sequence[Sequence[str]], kept: Sequence[int], within: int) -> Iterator[str]:
    from rich.console import Console
    from rich.table import Table as Layout
    from rich.text import Text

    layout = Layout(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="")
    for n in kept:
        layout.add_column(Text(columns[n]), overflow="fold")
    for row in rows:
        layout.add_row(*(Text(printable(row[n])) for n in kept))
    console = Console(width=within, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(layout)
    yield from (line.rstrip() for line in captured.get().splitlines())
