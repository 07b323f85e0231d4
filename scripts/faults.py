"""Plants the faults of tests/faults.toml, one after the other, in a copy of the repository, and runs the tests named with each.

    python scripts/faults.py [TEXT ...]     only faults with one of these texts in name or file; exit code 1 if one is not found

A fault is found if a test fails. A fault whose text the code no longer has, or has twice, is an error: the list is out of date.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)


def copied(folder: Path) -> None:
    """Put the files that git knows into a folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def found_by(folder: Path, fault: dict[str, str]) -> str | None:
    """The first test that fails with the fault; None if none does. Raises SystemExit if it can't be planted or tested."""
    path = folder / fault["file"]
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(fault["old"]) != 1:
        sys.exit(
            f"{fault['name']}: {fault['file']} has its text {text.count(fault['old'])} times; correct tests/faults.toml"
        )
    path.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
    sources = os.pathsep.join(str(folder / name) for name in ("services", "workers"))
    options = ["-q", "-x", "-n", "2", "-p", "no:cacheprovider", "--hypothesis-profile=first failure"]
    command = [sys.executable, "-m", "pytest", *options, *fault["tests"].split()]
    try:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": sources}, capture_output=True, text=True, check=False
        )
    finally:
        path.write_text(text, encoding="utf-8")
    failed = FAILED.search(done.stdout)
    if failed is None and done.returncode:  # the tests themselves are broken
        sys.exit(f"{fault['name']}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[1] if failed else None


def main() -> None:
    """Print a line for each fault, and how many were found."""
    faults = tomllib.loads((ROOT / "tests" / "faults.toml").read_text(encoding="utf-8"))["fault"]
    chosen = [
        one for one in faults if not sys.argv[1:] or any(text in one["name"] + one["file"] for text in sys.argv[1:])
    ]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="ragassay-faults-") as name:
        copied(Path(name))
        for fault in chosen:
            began = time.monotonic()
            test = found_by(Path(name), fault)
            missed += test is None
            print(f"{fault['name']}: {test or 'NOT FOUND'} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
