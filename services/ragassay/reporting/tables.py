"""Tables for a terminal, whose width they fit by leaving columns out, and say which."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

_GAP, _LEAST_LABEL = 2, 30
_PIECES = re.compile(r"[^\s\-_#/]*[\-_#/]+|[^\s\-_#/]+")  # where the heading of a column may be broken


@dataclass(frozen=True)
class Table:
    """A titled table, and a line below it. ``least`` are the columns that may be left out, the first of them first."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    least: tuple[str, ...] = ()


def width() -> int:
    """Columns of the terminal, or of ``COLUMNS``; 100 where there is neither."""
    return shutil.get_terminal_size((100, 24)).columns


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, least: Sequence[str] = (), within: int | None = None
) -> list[str]:
    """The lines of a table within so many columns, the terminal's by default; no word is cut.

    Where it is too wide, headings are broken between words, columns that ``least`` names are left out, the first of
    them first, which the last line says, and the first column is wrapped; what is still too wide goes on below, beside
    the first column again.
    """
    within = within or width()
    kept, left_out = list(range(len(columns))), list(least)
    dropped: list[str] = []
    while True:
        for broken in (False, True):
            widths = [_width(columns, rows, n, broken=broken) for n in kept]
            if sum(widths) + _GAP * (len(widths) - 1) <= within:
                return [*_lines(columns, rows, kept, widths), *_say(dropped, columns, within)]
        if not left_out:
            widths[0] = max(_LEAST_LABEL, within - sum(widths[1:]) - _GAP * (len(widths) - 1))
            if len(kept) > 1 and sum(widths) + _GAP * (len(widths) - 1) <= within:
                return [*_lines(columns, rows, kept, widths), *_say(dropped, columns, within)]
            return [*_in_parts(columns, rows, kept, within), *_say(dropped, columns, within)]
        if (name := left_out.pop(0)) in columns:
            dropped.append(name)
            kept.remove(list(columns).index(name))


def _say(dropped: Sequence[str], columns: Sequence[str], within: int) -> list[str]:
    if not dropped:
        return []
    names = ", ".join(name for name in columns if name in dropped)
    return [f"left out to fit {within} columns: {names}"]


def _in_parts(columns: Sequence[str], rows: Sequence[Sequence[str]], kept: Sequence[int], within: int) -> list[str]:
    lines: list[str] = []
    first, *others = kept
    while others:
        widths = [min(_width(columns, rows, first, broken=True), max(_LEAST_LABEL, within // 2))]
        part = [first]
        while others:
            more = _width(columns, rows, others[0], broken=True)
            if len(part) > 1 and sum(widths) + _GAP * len(widths) + more > within:
                break
            part.append(others.pop(0))
            widths.append(more)
        lines += [*([""] if lines else []), *_lines(columns, rows, part, widths)]
    return lines or [row[first] for row in rows]


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]], column: int, *, broken: bool) -> int:
    pieces = _PIECES.findall(columns[column]) if broken else [columns[column]]
    return max(map(_cells, [*pieces, *(row[column] for row in rows)]), default=0)


def _lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], kept: Sequence[int], widths: Sequence[int]
) -> list[str]:
    headings = [_broken(columns[n], width) for n, width in zip(kept, widths, strict=True)]
    height = max(map(len, headings))
    above = [
        [heading[len(heading) - height + n] if n >= height - len(heading) else "" for heading in headings]
        for n in range(height)
    ]
    texts = [*above, *(line for row in rows for line in _wrapped([row[n] for n in kept], widths[0]))]
    return [
        (" " * _GAP)
        .join(text + " " * (width - _cells(text)) for text, width in zip(line, widths, strict=True))
        .rstrip()
        for line in texts
    ]


def _wrapped(row: list[str], width: int) -> list[list[str]]:
    """A row whose first cell goes on below, one step further in, where it is too long."""
    label, *others = row
    if _cells(label) <= width:
        return [row]
    indent = " " * (len(label) - len(label.lstrip()) + 2)
    first, *more = wrap(label, width, subsequent_indent=indent, break_long_words=False, drop_whitespace=True)
    return [[first, *others], *([line, *("" for _ in others)] for line in more)]


def _broken(heading: str, width: int) -> list[str]:
    """A heading on as many lines as it takes, broken after spaces and the signs that part words."""
    if _cells(heading) <= width:
        return [heading]
    lines = [""]
    for match in _PIECES.finditer(heading):
        gap = " " if lines[-1] and heading[match.start() - 1].isspace() else ""
        if lines[-1] and _cells(lines[-1] + gap + match[0]) > width:
            lines.append(match[0])
        else:
            lines[-1] += gap + match[0]
    return lines


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
