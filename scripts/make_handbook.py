"""Cuts the documents of datasets/handbook into corpus.jsonl. Standard library only; nothing is random.

python scripts/make_handbook.py           write corpus.jsonl
python scripts/make_handbook.py --check   write nothing; exit 1 if the file is not what would be written
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / "datasets" / "handbook"
_HEADING = re.compile(r"^#{2,3} (?P<title>.+?) \{#(?P<id>[a-z0-9-]+)\}$", re.MULTILINE)
_ANY_HEADING = re.compile(r"^#{2,} .*$", re.MULTILINE)


def cut(name: str, markdown: str) -> list[dict[str, str]]:
    """The chunks of a document: one for each section, with the id that its heading names. List numbers are dropped.

    Raises ValueError for a heading without an id, since a counted one would shift with the next section.
    """
    document_title = markdown.partition("\n")[0].removeprefix("# ").strip()
    headings = list(_HEADING.finditer(markdown))
    named = {heading.group() for heading in headings}
    if nameless := [line for line in _ANY_HEADING.findall(markdown) if line not in named]:
        raise ValueError(f"{name}: no id {{#...}} in the heading {nameless[0]!r}")
    chunks = []
    for n, heading in enumerate(headings):
        end = headings[n + 1].start() if n + 1 < len(headings) else len(markdown)
        body = re.sub(r"^\d+\. ", "", markdown[heading.end() : end], flags=re.MULTILINE)
        title = f"{document_title}: {heading['title']}"
        chunks.append({"id": heading["id"], "title": title, "text": " ".join(body.split()), "document": name})
    return chunks


def made(home: Path) -> str:
    """What corpus.jsonl should hold. Raises ValueError for an id that two sections share."""
    pages = sorted((home / "documents").glob("*.md"))
    chunks = [chunk for page in pages for chunk in cut(page.name, page.read_text(encoding="utf-8"))]
    for id_, count in Counter(chunk["id"] for chunk in chunks).items():
        if count > 1:
            raise ValueError(f"the id {id_} is used by {count} sections")
    return "".join(json.dumps(chunk, ensure_ascii=False) + "\n" for chunk in chunks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the corpus, or with ``--check`` compare it; returns the exit code."""
    parser = argparse.ArgumentParser(description="Make the corpus of the handbook from its documents.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the corpus is not up to date")
    parser.add_argument("--home", type=Path, default=HOME, help="folder of the dataset (default: %(default)s)")
    options = parser.parse_args(arguments)
    path: Path = options.home / "corpus.jsonl"
    text = made(options.home)
    if options.check:
        fresh = path.exists() and path.read_text(encoding="utf-8") == text
        print("corpus.jsonl is up to date" if fresh else "corpus.jsonl is not what the documents make")
        return 0 if fresh else 1
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {text.count(chr(10))} chunks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
