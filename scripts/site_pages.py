"""What the site has in addition to docs/: README as its first page, and the files that pages link to.

MkDocs calls the functions by their names while it builds. Links out of docs/ lead to copies under ``files/``; of folders
only the name is left.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.append(str(Path(__file__).parent))
from diagrams import DIAGRAM, svg_name

ROOT = Path(__file__).resolve().parents[1]
COPIED = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
LINK = re.compile(r"\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)]*)?\)")
FOLDER = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s#:]+)\)")
MARKED = re.compile(r"^(```\w+) \w+$", re.MULTILINE)  # blocks that a test runs
STYLE = """\
.md-typeset table:not([class]) { display: table; }
.md-typeset code { overflow-wrap: anywhere; }
.md-typeset img[alt="diagram"] { background: white; padding: 0.5em; }
"""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for name, source in COPIED.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference/site.css", content=STYLE))
    pages, found = files.documentation_pages(), set[str]()
    while pages:
        targets = {path for page in pages for path in linked(page.src_uri, page.content_string)} - found
        added = [
            File.generated(config, f"files/{path}", content=(ROOT / path).read_bytes()) for path in sorted(targets)
        ]
        for file in added:
            files.append(file)
        pages, found = [file for file in added if file.src_uri.endswith(".md")], found | targets
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links as a reader of the repository follows them into links of the site."""
    here = page.file.src_uri
    markdown = DIAGRAM.sub(lambda found: f"![diagram](images/{svg_name(found[1])})", markdown)

    def turned(link: re.Match[str]) -> str:
        path = of_repository(here, link["target"])
        if path is None or not (ROOT / path).is_file():
            return link[0]
        pages = {source: name for name, source in COPIED.items()}
        inside = path.removeprefix("docs/") if path.startswith("docs/") else pages.get(path, f"files/{path}")
        return f"]({'../' * here.count('/')}{inside}{link['anchor'] or ''})"

    def named(link: re.Match[str]) -> str:
        path = of_repository(here, link["target"])
        return link["text"] if path and (ROOT / path).is_dir() else link[0]

    return LINK.sub(turned, FOLDER.sub(named, MARKED.sub(r"\1", markdown)))


def linked(here: str, markdown: str) -> Iterator[str]:
    """The files that a page links to and that the site would not have."""
    for link in LINK.finditer(markdown):
        path = of_repository(here, link["target"])
        if path and (ROOT / path).is_file() and not path.startswith("docs/") and path not in COPIED.values():
            yield path


def of_repository(here: str, target: str) -> str | None:
    """Where a link of a page leads, from the root of the repository; None where it leads elsewhere."""
    if "://" in target or target.startswith("mailto:"):
        return None
    copied = COPIED.get(here) or (here.removeprefix("files/") if here.startswith("files/") else f"docs/{here}")
    folder = (ROOT / copied).parent
    path = Path(folder, target).resolve()
    return str(PurePosixPath(path.relative_to(ROOT))) if path.is_relative_to(ROOT) else None
