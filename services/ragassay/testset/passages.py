"""Passages of documents: of a corpus as it is, of Markdown and text files by their headings and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ragassay.core.errors import BadInput, NotFound
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.datasets.source import text_lines

_TEXTS = (".md", ".markdown", ".txt")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*(?:\{#[\w.:-]+\})?\s*")
_LONGEST = 200  # words of a passage, unless a paragraph is longer


def read_passages(path: Path) -> Corpus:
    """The passages of a corpus (JSON Lines with ``id`` and ``text``), of a Markdown or text file, or of a folder of them.

    A passage is what stands under a heading, cut between paragraphs where it is longer than 200 words. Its id is the
    file's name with a number: ``guide-3``. Raises NotFound, BadInput, BadData.
    """
    if not path.exists():
        raise NotFound("there is no such file or folder", where=str(path))
    if path.is_file() and path.suffix not in _TEXTS:
        return Corpus.read(path)
    files = sorted(file for file in path.rglob("*") if file.suffix in _TEXTS) if path.is_dir() else [path]
    if not files:
        hint = f"documents are {', '.join(_TEXTS)}, or a corpus.jsonl"
        raise BadInput("holds no document", where=str(path), hint=hint)
    root = path if path.is_dir() else path.parent
    passages = [passage for file in files for passage in _passages(file, root)]
    if not passages:
        raise BadInput("has no text", where=str(path), hint="write paragraphs, under headings or without")
    return Corpus.of(passages)


def _passages(file: Path, root: Path) -> Iterator[Passage]:
    stem = "-".join(file.relative_to(root).with_suffix("").parts)
    texts = ((title, text) for title, lines in _sections(file) for text in _cut(lines))
    for number, (title, text) in enumerate(texts, 1):
        yield Passage(id=f"{stem}-{number}", title=title, text=text)


def _sections(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Title and lines of what stands under each heading; a ``#`` in code is none."""
    document, title, in_code = "", "", False
    lines: list[str] = []
    for _, line in text_lines(file):
        in_code ^= line.lstrip().startswith(("```", "~~~"))
        heading = _HEADING.fullmatch(line.strip()) if file.suffix != ".txt" and not in_code else None
        if heading is None:
            lines.append(line.rstrip())
            continue
        yield title, lines
        lines = []
        document = heading[2] if len(heading[1]) == 1 else document
        title = heading[2] if document in ("", heading[2]) else f"{document}: {heading[2]}"
    yield title, lines


def _cut(lines: list[str]) -> Iterator[str]:
    """Paragraphs, joined while they are short enough together."""
    held: list[str] = []
    length = 0
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        words = paragraph.split()
        if held and length + len(words) > _LONGEST:
            yield "\n\n".join(held)
            held, length = [], 0
        if words:
            held.append(" ".join(words))
            length += len(words)
    if held:
        yield "\n\n".join(held)
