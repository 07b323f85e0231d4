"""The walls of the house: what may not be imported, and how light it has to be."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("ragassay", "litellm torch celery fastapi numpy pydantic"),
        ("ragassay.engine", "celery redis fastapi litellm torch scipy pyarrow"),
        ("ragassay.cli", "litellm torch celery fastapi numpy scipy pydantic"),
        ("ragassay.wiring", "litellm torch sentence_transformers celery fastapi pyarrow"),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(module, heavy):
    code = f"import sys, {module}; print([m for m in {heavy.split()!r} if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_help_takes_less_than_a_third_of_a_second():
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}

    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "ragassay.cli", "--help"], env=untraced, capture_output=True, check=True, timeout=30
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(5)) < 0.3  # processor time: the wall clock depends on what runs beside the tests


def test_every_public_name_of_the_front_door_can_be_had():
    import ragassay

    assert [name for name in ragassay.__all__ if getattr(ragassay, name) is None] == []
    assert dir(ragassay) == sorted(ragassay.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ragassay.nothing


def test_files_stay_small_enough_to_be_one_noun():
    files = [p for room in ("services", "workers") for p in (ROOT / room).rglob("*.py")]
    assert {p.name: n for p in files if (n := len(p.read_text().splitlines())) > 400} == {}


def test_only_settings_reads_the_environment():
    readers = {
        path.relative_to(ROOT / "services" / "ragassay").as_posix()
        for path in (ROOT / "services").rglob("*.py")
        if "os.environ.get" in path.read_text() or "os.getenv" in path.read_text()
    }
    assert readers <= {"settings.py"}


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
