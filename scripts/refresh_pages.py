"""Fills the outputs that pages show with what the commands print now; ``--check`` only says whether they do.

An output stands in a code block after a marker comment, ``<!-- output: COMMAND -->``. Run ids differ from run to run and
are written as RUN.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": (),
    "docs/comparison.md": ("ragassay demo",),
}  # and what has to be run before the page's first command
BLOCK = re.compile(r"(<!-- output: (?P<command>[^\n]+?) -->\n```(?:text)?\n)(?P<output>.*?)(\n```)", re.DOTALL)
RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9-]+-[0-9a-f]{4}")


def output(command: str, folder: str) -> str:
    """What a command prints, run ids masked and trailing spaces gone."""
    environment = {**os.environ, "NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "RAGASSAY_HOME": ".ragassay"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stderr}")
    return "\n".join(line.rstrip() for line in RUN_ID.sub("RUN", done.stdout).splitlines())


def refreshed(text: str, before: tuple[str, ...]) -> str:
    """A page's text with fresh outputs, made in order in one new folder that holds the example files."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
        for command in before:
            output(command, folder)
        return BLOCK.sub(lambda m: m[1] + output(m["command"], folder).strip("\n") + m[4], text)


def main() -> None:
    """Refresh or check every page."""
    old = []
    for name, before in PAGES.items():
        text = (ROOT / name).read_text()
        fresh = refreshed(text, before)
        if fresh != text:
            old.append(name)
        if "--check" not in sys.argv:
            (ROOT / name).write_text(fresh)
    if old and "--check" in sys.argv:
        sys.exit(f"{', '.join(old)}: shows old output; refresh it: python scripts/refresh_pages.py")


if __name__ == "__main__":
    main()
