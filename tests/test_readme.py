"""README.md and the pages show what the commands print now; their Python runs, and their links lead somewhere."""

import doctest
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text()
MAP = (ROOT / "docs" / "architecture.md").read_text()
ERRORS = (ROOT / "docs" / "reference" / "errors.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPT = ROOT / "scripts" / "refresh_pages.py"


def test_the_outputs_of_all_pages_are_what_the_commands_print():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    shown = {path.relative_to(ROOT).as_posix() for path in PAGES if "\n<!-- output: " in path.read_text()}
    assert [page for page in shown if f'"{page}"' not in SCRIPT.read_text()] == [], "a page that is never refreshed"


def test_commands_on_pages_exist_with_their_options():
    from typer.main import get_command

    from ragassay.cli.app import app

    unknown = []
    for page in PAGES:
        blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in re.findall(r"^(?:\$ )?ragassay (.+)$", "\n".join(blocks), re.MULTILINE):
            words, command = line.partition(" #")[0].partition(" |")[0].split(), get_command(app)
            while words and words[0] in getattr(command, "commands", {}):
                command = command.get_command(None, words.pop(0))
            known = {name for each in command.params for name in each.opts + each.secondary_opts}
            below = [name for each in getattr(command, "commands", {}).values() for p in each.params for name in p.opts]
            named = set(re.findall(r"(?<!\S)--[a-z-]+(?!\w)", line.partition(" |")[0]))  # those in a comment too
            unknown += [f"{page.name}: {line}: {name}" for name in named - known - {*below}]
    assert unknown == []


def test_its_row_is_one_of_the_example():
    (row,) = re.findall(r"```json\n(.*?)\n```", QUICKSTART, re.DOTALL)
    assert row.replace("\n", "") in (ROOT / "examples" / "answers.jsonl").read_text().splitlines()


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{name}.md" for name in ("metrics", "statistics", "cost", "judges"))]
)
def test_its_python_gives_what_it_shows(page):
    code = "\n".join(re.findall(r"^```python\n(>>>.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(code, {}, page, page, 0)
    said = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert (failed, tried > 0) == (0, True), "".join(said)


def test_site_builds_with_every_page_and_without_other_hosts(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "index.html").read_text()
    assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?:', index)
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]:
        path = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert f'href="{path}"' in index, f"{page.name} is not in the navigation of mkdocs.yml"
    assert "per accurate answer" in (tmp_path / "search" / "search_index.json").read_text()


def test_the_map_has_every_package_in_the_order_of_the_imports():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    rows = re.findall(r"^\| (\d+) \| `([\w/]+?)(?:/|\.py)` \|", MAP, re.MULTILINE)
    named = [{package for layer, package in rows if int(layer) == n} for n in range(1, len(layers) + 1)]
    assert named == [set(layer.split(" | ")) for layer in layers]
    assert [int(layer) for layer, _ in rows] == sorted(int(layer) for layer, _ in rows)
    package = ROOT / "services" / "ragassay"
    packages = {p.stem for p in package.iterdir() if p.suffix in ("", ".py") and not p.name.startswith("__")}
    assert sorted(name for _, name in rows) == sorted(packages)


def test_the_files_on_the_map_exist():
    files = re.findall(r"`((?:[\w.]+/)*[\w.]+\.(?:py|md|lua|toml)|(?:[\w.]+/)+)`", MAP)
    assert len(files) > 40
    folders = (ROOT / "services" / "ragassay", ROOT / "services" / "ragassay" / "service" / "scripts", ROOT)
    assert [name for name in files if not any((folder / name).exists() for folder in folders)] == []
