"""Answers with known faults: a judge that is always right gets each of them right, and the page shows what the others say."""

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def faults():
    spec = importlib.util.spec_from_file_location("judge_faults", ROOT / "scripts" / "judge_faults.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def said(faults):
    return faults.of_each_judge()


@pytest.mark.parametrize("asked", ["one call", "probe"])
def test_a_model_that_is_always_right_gets_every_row_right_with_its_cause(faults, said, asked):
    assert said[asked] == faults.expected()
    assert Counter(sample.category != faults.CONTROL for sample in faults.SAMPLES) == {True: 25, False: 5}


def test_the_page_shows_what_each_judge_says(faults, said):
    assert faults.table(said) in faults.PAGE.read_text(), "refresh it: python scripts/judge_faults.py"
