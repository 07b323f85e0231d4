"""README.md and docs/comparison.md show what the commands print now, and README's Python runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_outputs_of_all_pages_are_what_the_commands_print():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "refresh_pages.py", "--check"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr


def test_its_commands_exist():
    from typer.main import get_command

    from ragassay.cli.app import app

    known = set(get_command(app).commands)
    shown = set(re.findall(r"^ragassay (\w+)", README, re.MULTILINE))
    assert shown >= {"evaluate", "metrics"}
    assert shown <= known
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text()


def test_its_metric_is_the_one_of_the_example():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    shown, shipped = (
        ast.dump(ast.parse(text).body[-1]) for text in (code, (ROOT / "examples" / "mymetric.py").read_text())
    )
    assert shown == shipped


def test_its_links_lead_to_files():
    for link in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / link).exists(), link
