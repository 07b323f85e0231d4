"""The walls of the house: what may not be imported, and how light it has to be."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from polling import fastest, slowness

ROOT = Path(__file__).parents[1]


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("ragassay", "litellm torch celery fastapi numpy pydantic"),
        ("ragassay.engine", "celery redis fastapi litellm torch scipy pyarrow"),
        ("ragassay.cli", "litellm torch celery fastapi numpy scipy pydantic"),
        ("ragassay.cli.app", "litellm torch celery fastapi numpy scipy pydantic"),
        ("ragassay.wiring", "litellm torch sentence_transformers onnxruntime celery fastapi pyarrow"),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(module, heavy):
    code = f"import sys, {module}; print([m for m in {heavy.split()!r} if m in sys.modules])"
    assert python(code).strip() == "[]"


def processor_time(*arguments, times, cwd=None):
    """Seconds of the command line's fastest run: the wall clock depends on what runs beside the tests."""
    return fastest([sys.executable, "-m", "ragassay.cli", *map(str, arguments)], times, cwd)


def test_help_takes_less_than_a_fifth_of_a_second():
    assert processor_time("--help", times=5) < 0.2 * slowness()


def test_a_report_of_three_rows_takes_less_than_a_second_and_a_half(tmp_path):
    assert processor_time("evaluate", ROOT / "examples" / "answers.jsonl", times=4, cwd=tmp_path) < 1.5 * slowness()


def test_an_evaluation_with_the_local_judge_imports_only_what_it_needs(tmp_path):
    code = (
        "import atexit, sys; from ragassay.cli import main;"
        f"sys.argv = ['ragassay', 'evaluate', {str(ROOT / 'examples' / 'answers.jsonl')!r}, '--judge', 'local'];"
        "atexit.register(lambda: print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)); main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=120
    )
    imported = {name for name in done.stderr.splitlines()[-1].split() if not name.startswith(("_", "$"))}
    allowed = (
        "annotated_doc annotated_types charset_normalizer click coverage cython_runtime dotenv numpy onnxruntime orjson "
        "pydantic pydantic_core pydantic_settings pygments ragassay rich scipy shellingham threadpoolctl tokenizers typer "
        "typing_extensions typing_inspection yaml a1_coverage"
    )
    assert imported - sys.stdlib_module_names - set(allowed.split()) == set()


def test_every_public_name_of_the_front_door_can_be_had():
    import ragassay

    assert [name for name in dir(ragassay) if getattr(ragassay, name) is None] == []
    assert {name for name in dir(ragassay) if not isinstance(getattr(ragassay, name), type)} == set(ragassay.__all__)
    assert 20 <= len(dir(ragassay)) <= 32
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ragassay.nothing


def test_files_stay_small_enough_to_be_one_noun():
    files = [p for room in ("services", "workers") for p in (ROOT / room).rglob("*.py")]
    assert {p.name: n for p in files if (n := len(p.read_text().splitlines())) > 400} == {}


_OF_ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "expandvars"}


def reads_of_environment(code):
    """Lines that take something from the environment.

    Two forms are none: handing all of it to a child process, ``{**os.environ, ...}``, and ``os.environ.setdefault``
    as a statement, for a library that has no other switch.
    """
    tree = ast.parse(code)
    handed_on = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            handed_on |= {id(value) for key, value in zip(node.keys, node.values, strict=True) if key is None}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr == "setdefault":
                handed_on.add(id(function.value))
    for node in ast.walk(tree):
        is_read = (
            (isinstance(node, ast.Attribute) and node.attr in _OF_ENVIRONMENT and id(node) not in handed_on)
            or (isinstance(node, ast.ImportFrom) and any(name.name in {*_OF_ENVIRONMENT, "*"} for name in node.names))
            or (isinstance(node, ast.Constant) and node.value in _OF_ENVIRONMENT)  # getattr(os, "environ")
        )
        if is_read:
            yield node.lineno


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.environ['A']",
        "import os; 'A' in os.environ",
        "import os; [n for n in os.environ]",
        "import os; os.environ.get('A')",
        "import os; os.environ.setdefault('A', '') == ''",
        "import os; os.getenv('A')",
        "import os as system; system.getenvb(b'A')",
        "import os; environment = os.environ",
        "import os; dict(os.environ)",
        "import os; getattr(os, 'environ')",
        "import os.path; os.path.expandvars('$A')",
        "from os import environ",
        "from os import environ as variables",
        "from os import getenv as get",
        "from os.path import expandvars",
        "from os import *",
    ],
)
def test_every_form_of_reading_the_environment_is_noticed(code):
    assert list(reads_of_environment(code)) == [1]


@pytest.mark.parametrize("code", ["{**os.environ, 'A': '1'}", "os.environ.setdefault('A', '1')", "environment = {}"])
def test_handing_the_environment_on_is_not_reading_it(code):
    assert list(reads_of_environment(code)) == []


def test_only_settings_reads_the_environment():
    files = [p for room in ("services", "workers") for p in (ROOT / room).rglob("*.py")]
    readers = {path.relative_to(ROOT).as_posix() for path in files if list(reads_of_environment(path.read_text()))}
    assert readers == {"services/ragassay/settings.py"}


def test_importing_the_package_touches_neither_files_nor_environment(tmp_path):
    code = (
        "import os, sys; before = dict(os.environ); import ragassay.engine, ragassay.wiring, ragassay.cli; "
        "print(before == dict(os.environ), os.listdir('.'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True, timeout=60
    )
    assert done.stdout.strip() == "True []"
    assert done.stderr == ""


def test_no_two_classes_have_one_name():
    """Nor a class and an alias of a type; of private names the underscore doesn't count."""
    files: dict[str, set[str]] = {}
    for path in sorted([*ROOT.glob("services/**/*.py"), *ROOT.glob("workers/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name.lstrip("_"), set()).add(f"{path.relative_to(ROOT)}")
    classes = set(files)
    for path in sorted(ROOT.glob("services/**/*.py")):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                if isinstance(target, ast.Name) and target.id.lstrip("_") in classes:
                    files[target.id.lstrip("_")].add(f"{path.relative_to(ROOT)}")
    assert {name: places for name, places in files.items() if len(places) > 1} == {}
