"""The pages about judges say what the code does: worked numbers, and answers with known faults."""

import doctest
import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT.joinpath("docs", "judges.md").read_text("utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_number_that_the_page_works_out_is_what_the_code_gives():
    said = []
    test = doctest.DocTestParser().get_doctest(EXAMPLES, {}, "judges.md", "docs/judges.md", 0)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried > 5


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
