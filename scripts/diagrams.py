"""Renders the Mermaid diagrams of docs/ as SVG for the site, which asks no other host; GitHub renders the sources.

    python scripts/diagrams.py MERMAID_JS     mermaid.min.js of the npm package mermaid; needs Chromium

A file is named by the digest of its source, so a changed diagram needs a new file; a test compares.
"""

import hashlib
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = "{startOnLoad: false, theme: 'neutral', htmlLabels: false, flowchart: {htmlLabels: false}, fontFamily: 'sans-serif'}"


def svg_name(source: str) -> str:
    """The file of a diagram."""
    return f"diagram-{hashlib.sha256(source.encode()).hexdigest()[:10]}.svg"


def sources() -> dict[str, str]:
    """Every diagram of docs/ by the name of its file."""
    pages = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))]
    return {svg_name(source): source for page in pages for source in DIAGRAM.findall(page)}


def main() -> None:
    """Render what is missing, and delete what is no longer used."""
    from playwright.sync_api import sync_playwright

    diagrams = sources()
    for path in FOLDER.glob("diagram-*.svg"):
        if path.name not in diagrams:
            path.unlink()
    with sync_playwright() as tool:
        page = tool.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        ).new_page()
        page.add_script_tag(path=sys.argv[1])
        page.evaluate(f"mermaid.initialize({OPTIONS})")
        for name, source in diagrams.items():
            svg = page.evaluate("async source => (await mermaid.render('diagram', source)).svg", source)
            (FOLDER / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
