"""Fills the outputs that pages show with what the commands print now; ``--check`` only says whether they do.

An output is a code block after a marker comment, ``<!-- output: COMMAND -->``. Of a long one the marker may take sections by
the beginnings of their titles, ``<!-- output: COMMAND | sections top, Answer quality, Worst rows:6 -->``: ``top`` is what
precedes the first empty line, a number after a colon is how many lines. What is left out is shown as ``...``. All pages share
one folder and each command runs once in it, in the order of the pages. Run ids are written as RUN, and times as one time.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "docs/comparison.md",
    "docs/cost.md",
    "docs/reading-a-report.md",
    "docs/quickstart.md",
    "docs/datasets.md",
)  # `compare last` is of the demo, so it comes first
BLOCK = re.compile(
    r"(?P<begin><!-- output: (?P<command>[^\n]+?)(?: \| sections (?P<parts>[^\n]+?))? -->\n"
    r"```(?:text)?\n)(?P<output>.*?)(?P<end>^```)",
    re.DOTALL | re.MULTILINE,
)
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9-]+-[0-9a-f]{4}")


@cache
def output(command: str, folder: str) -> list[str]:
    """The lines that a command prints, run ids masked and trailing spaces gone."""
    environment = {**os.environ, "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "RAGASSAY_HOME": ".ragassay"}
    environment["COLUMNS"] = "100"  # a process that loads readline hands its own on, which os.environ does not have
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return [
        line.rstrip() for line in TIME.sub("2026-01-31 14:05", RUN_ID.sub("RUN", done.stdout)).strip("\n").splitlines()
    ]


def ranges(lines: list[str], wanted: str) -> Iterator[tuple[int, int]]:
    """First and last line of each part, counted from 1."""
    for part in wanted.split(","):
        title, max_lines = re.fullmatch(r"(.*?)(?::(\d+))?", part.strip()).groups()
        begin = 0 if title == "top" else next((n for n, line in enumerate(lines) if line.startswith(title)), None)
        if begin is None:
            sys.exit(f"no section begins with {title!r}")
        end = next((n for n in range(begin, len(lines)) if not lines[n]), len(lines))
        yield begin + 1, min(end, begin + int(max_lines)) if max_lines else end


def parts(lines: list[str], wanted: str) -> list[str]:
    """The lines that ``wanted`` names, with ``...`` for each run of lines left out."""
    shown, after = [], 1
    for begin, end in ranges(lines, wanted):
        if not after <= begin <= end <= len(lines):
            sys.exit(f"sections {wanted}: there are {len(lines)} lines, and parts must follow each other")
        shown += ["..."] * (begin > after) + lines[begin - 1 : end]
        after = end + 1
    return shown + ["..."] * (after <= len(lines))


def refreshed(text: str, folder: str) -> str:
    """A page's text with fresh outputs."""

    def fresh(block: re.Match[str]) -> str:
        lines = output(block["command"], folder)
        shown = parts(lines, block["parts"]) if block["parts"] else lines
        return block["begin"] + "\n".join([*shown, ""]) + block["end"]

    return BLOCK.sub(fresh, text)


def main() -> None:
    """Refresh or check every page."""
    old = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
        shutil.copytree(ROOT / "datasets" / "handbook", Path(folder) / "handbook")
        for name in PAGES:
            text = (ROOT / name).read_text()
            fresh = refreshed(text, folder)
            if fresh != text:
                old.append(name)
            if "--check" not in sys.argv:
                (ROOT / name).write_text(fresh)
    if old and "--check" in sys.argv:
        sys.exit(f"{', '.join(old)}: shows old output; refresh it: python scripts/refresh_pages.py")


if __name__ == "__main__":
    main()
