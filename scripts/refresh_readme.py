"""Fills the outputs that README.md shows with what the commands print now; ``--check`` only says whether they do.

An output stands in a code block after a marker comment, ``<!-- output: COMMAND -->``. Run ids differ from run to run and
are written as RUN.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
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


def main() -> None:
    """Refresh or check every marked block, in order, in one empty folder."""
    text = README.read_text()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "answers.jsonl").write_bytes((ROOT / "examples" / "answers.jsonl").read_bytes())
        fresh = BLOCK.sub(lambda m: m[1] + output(m["command"], folder).strip("\n") + m[4], text)
    if "--check" in sys.argv:
        sys.exit(0 if fresh == text else "README.md shows old output; refresh it: python scripts/refresh_readme.py")
    README.write_text(fresh)


if __name__ == "__main__":
    main()
