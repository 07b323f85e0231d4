"""README.md and the pages show what the commands print now; their Python runs, and their links lead somewhere."""

import doctest
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from browsing import browsing
from ragassay import config
from ragassay.service.job_state import TRANSITIONS

ROOT = Path(__file__).parents[1]
MAP = (ROOT / "docs" / "architecture.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_outputs_of_all_pages_are_what_the_commands_print():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "refresh_pages.py", "--check"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr


def test_pictures_show_what_the_pages_say_of_the_same_run_now(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    for name in ("RAGASSAY_HOME", "HF_HUB_OFFLINE"):  # which the script sets
        monkeypatch.setenv(name, "")
    import screenshots

    pages = screenshots.addresses(screenshots.runs(tmp_path))
    with browsing() as http:
        said = screenshots.answers(http, pages)
    assert said == {path.stem: path.read_text() for path in (ROOT / "docs" / "images").glob("*.txt")}
    assert said.keys() == {path.stem for path in (ROOT / "docs" / "images").glob("*.png")}
    demo = PAGES[0].read_text().partition("<!-- output: ragassay demo")[2].split("\n", 3)[2]
    assert demo in said["run"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{name}.md" for name in "python metrics statistics judges".split())]
)
def test_python_on_pages_gives_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(re.findall(r"^```\w*\n(>>>.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL))
    assert text
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, page, page, 0)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


def test_configurations_of_the_readme_load(tmp_path):
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGES[0].read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 1
    for block in blocks:
        (tmp_path / "ragassay.yaml").write_text(block)
        assert config.load(tmp_path / "ragassay.yaml").systems.keys() == {"v2"}


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


def test_the_states_of_a_job_are_those_of_the_table_of_transitions():
    drawn = re.findall(r"^  (\w+) --> (\w+)", MAP.partition("stateDiagram")[2], re.MULTILINE)
    table = [(before, after) for of in TRANSITIONS.values() for after, befores in of.items() for before in befores]
    assert sorted(drawn) == sorted(table)
