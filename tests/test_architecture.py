"""What may not be imported, and how light imports have to be."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from polling import fastest, slowness

ROOT = Path(__file__).parents[1]


def python(code, cwd=None):
    """stdout and stderr of a process that ends well."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


WORDS = re.compile(r"(^|[\s'])--[a-z]|ragassay (ab|compare|data|evaluate|gate|info|job|judge|runs|show|trend|view) ")
COMMANDS = ", ".join(
    f"ragassay.cli.{name}"
    for name in "ab admin compare data evaluate gate info jobs judge live runs schedules serve trec trends view".split()
)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("ragassay", "litellm torch celery fastapi numpy pydantic"),
        ("ragassay.evaluation.evaluate", "celery redis fastapi litellm torch scipy pyarrow"),
        ("ragassay.cli", "litellm torch celery fastapi numpy scipy pydantic"),
        ("ragassay.cli.app", "litellm torch celery fastapi numpy scipy pydantic"),
        ("ragassay.analysis.trec", "litellm torch celery fastapi scipy pydantic"),  # starts as quickly as pytrec_eval
        (COMMANDS, "litellm torch celery fastapi numpy scipy pydantic"),  # so the help of each is quick
        ("ragassay.api.app", "litellm torch onnxruntime transformers pyarrow pandas celery rich typer"),
        ("ragassay.service.wiring", "litellm torch sentence_transformers onnxruntime celery fastapi pyarrow"),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(module, heavy):
    code = f"import sys, {module}; print([m for m in {heavy.split()!r} if m in sys.modules])"
    assert python(code)[0].strip() == "[]"


def processor_time(*arguments, times, cwd=None):
    """Seconds of the command line's fastest run: the wall clock depends on what runs beside the tests."""
    return fastest([sys.executable, "-m", "ragassay.cli", *map(str, arguments)], times, cwd)


@pytest.mark.parametrize("words", ["", "trec", "data show"])
def test_help_takes_less_than_a_fifth_of_a_second(words):
    assert processor_time(*words.split(), "--help", times=5) < 0.2 * slowness()


def test_a_report_of_three_rows_takes_less_than_a_second_and_a_half(tmp_path):
    assert processor_time("evaluate", ROOT / "examples" / "answers.jsonl", times=4, cwd=tmp_path) < 1.5 * slowness()


def test_every_public_name_of_the_front_door_can_be_had():
    import ragassay

    assert [name for name in dir(ragassay) if getattr(ragassay, name) is None] == []
    assert {name for name in dir(ragassay) if not isinstance(getattr(ragassay, name), type)} == set(ragassay.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ragassay.nothing


# Handing the whole environment to a child process, and a default for a library that has no other switch, read nothing.
_READS_ENVIRONMENT = re.compile(
    r"^(?!\s*os\.environ\.setdefault\().*(?<!\*\*os\.)\b(environb?|getenvb?|expandvars)\b", re.MULTILINE
)


def test_only_settings_reads_the_environment():
    files = [p for root in ("services", "workers") for p in (ROOT / root).rglob("*.py")]
    readers = {path.relative_to(ROOT).as_posix() for path in files if _READS_ENVIRONMENT.search(path.read_text())}
    assert readers == {"services/ragassay/core/settings.py", "services/ragassay/cli/terminal.py"}  # it heeds NO_COLOR


def test_importing_the_package_touches_neither_files_nor_environment(tmp_path):
    code = (
        "import os, sys; before = dict(os.environ); import ragassay.evaluation.evaluate, ragassay.service.wiring, ragassay.cli; "
        "print(before == dict(os.environ), os.listdir('.'))"
    )
    assert python(code, tmp_path) == ("True []\n", "")


@pytest.mark.parametrize("package", ["core", "llm", "judges", "evaluation"])
def test_what_every_caller_shares_names_no_flag_and_no_command(package):
    """The command line writes these into the hint of an error; HTTP and Python have others."""
    named = []
    for path in (ROOT / "services" / "ragassay" / package).glob("*.py"):
        tree = ast.parse(path.read_text())
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        named += [f"{path.name}: {n.value}" for n in texts if id(n) not in docs and WORDS.search(n.value)]
    assert named == []
