"""Answers with known faults: what each judge says of them, as the page shows it."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "judge_faults.py"


@pytest.fixture(scope="module")
def faults():
    spec = importlib.util.spec_from_file_location("judge_faults", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_model_that_is_always_right_gets_every_row_right_with_its_cause(faults):
    said = faults.of_each_judge()
    assert said["one call"] == faults.expected()
    assert faults.table(said) in faults.PAGE.read_text(), "refresh it: python scripts/judge_faults.py"
