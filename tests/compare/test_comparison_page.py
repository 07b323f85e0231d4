"""The numbers in the sentences of docs/comparison.md are those of its output and of the code."""

import re
from pathlib import Path

import pytest

from ragassay import attribution
from ragassay.compare.pairing import NOT_WORSE_MARGIN

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
BLOCK = re.compile(r"<!-- output: (?P<command>[^\n]+?) -->\n```text\n(?P<output>.*?)```", re.DOTALL)


@pytest.fixture
def shown():
    """The output on the page; tests/test_readme.py sees to it that it is what the command prints."""
    return BLOCK.search(PAGE.read_text())["output"]


def test_the_numbers_in_its_sentences_are_in_the_output(shown):
    assert re.search(r"^accurate +0\.300 +0\.533 .* not shown$", shown, re.MULTILINE)
    assert "It is no worse on correctness and relevance" in shown
    assert "30 of 30 queries matched. p is corrected for 7 tests" in shown
    assert "0.533 instead of 0.300" in PAGE.read_text()


def test_its_thresholds_are_those_of_the_code():
    text = " ".join(PAGE.read_text().split())
    assert f"below rank {attribution.LOWEST_GOOD_RANK}" in text
    assert f"relevance is at most {attribution.OFF_TOPIC_UP_TO}" in text
    assert f"faithfulness is below {attribution.FAITHFUL_FROM}" in text
    assert f"at least {attribution.CONTEXTS_HOLD_FROM:.0%}".replace("%", " %") in text
    assert (attribution.USED_FROM, attribution.COMPLETE_FROM) == (0.5, 1.0)
    assert f"not by more than {NOT_WORSE_MARGIN}" in text
