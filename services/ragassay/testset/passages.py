"""Passages of documents: of a corpus as it is, of Markdown and text files by their headings and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ragassay.core.errors import BadInput, NotFound
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.datasets.source import text_lines

_TEXTS = (".md", ".markdown", ".txt")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ID = re.compile(r"\{#([\w.:-]+)\}")
_LONGEST = 200  # words of a passage, unless a paragraph is longer


def read_passages(path: Path) -> Corpus:
    """The passages of a corpus (JSON Lines with ``id`` and ``text``), of a Markdown or text file, or of a folder of them.

    A passage is what stands under a heading, cut between paragraphs where it is longer than 200 words. Its id is the
    heading's own (``{#id}``), else the file's name with a number: ``guide-3``. Raises NotFound, BadInput, BadData.
    """
    if not path.exists():
        raise NotFound("there is no such file or folder", where=str(path))
    if path.is_file() and path.suffix not in _TEXTS:
        return Corpus.read(path)
    files = sorted(file for file in path.rglob("*") if file.suffix in _TEXTS) if path.is_dir() else [path]
    if not files:
        raise BadInput(
            "holds no document", where=str(path), hint=f"documents are {', '.join(_TEXTS)}, or a corpus.jsonl"
        )
    root = path if path.is_dir() else path.parent
    return Corpus.of(passage for file in files for passage in _passages(file, root))


def _passages(file: Path, root: Path) -> Iterator[Passage]:
    stem = "-".join(file.relative_to(root).with_suffix("").parts)
    number = 0
    for name, title, paragraphs in _sections(file):
        for part, text in enumerate(_cut(paragraphs)):
            number += 1
            given = f"{name}-{part + 1}" if name and part else name
            yield Passage(id=given or f"{stem}-{number}", title=title, text=text)


def _sections(file: Path) -> Iterator[tuple[str | None, str, list[str]]]:
    """Own id, title and paragraphs of what stands under each heading."""
    document, heading, name = "", "", None
    lines: list[str] = []

    def section() -> tuple[str | None, str, list[str]]:
        title = ": ".join(part for part in (document, heading) if part)
        paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n", "\n".join(lines)) if text.strip()]
        return name, title, paragraphs

    in_code = False
    for _, line in text_lines(file):
        in_code ^= line.lstrip().startswith(("```", "~~~"))
        found = _HEADING.match(line.strip()) if file.suffix != ".txt" and not in_code else None
        if found is None:
            lines.append(line.rstrip())
            continue
        if any(line.strip() for line in lines):
            yield section()
        title, opening, own_id = found[2].rstrip("#").rstrip().rpartition("{#")
        if named := _ID.fullmatch(opening + own_id):
            lines, name, title = [], named[1], title.rstrip()
        else:
            lines, name, title = [], None, title + opening + own_id
        document, heading = (title, "") if len(found[1]) == 1 else (document, title)
    if any(line.strip() for line in lines):
        yield section()


def _cut(paragraphs: list[str]) -> Iterator[str]:
    """Paragraphs joined while they are short enough together."""
    held: list[str] = []
    for paragraph in paragraphs:
        if held and sum(len(text.split()) for text in held) + len(paragraph.split()) > _LONGEST:
            yield "\n\n".join(held)
            held = []
        held.append(paragraph)
    if held:
        yield "\n\n".join(held)
