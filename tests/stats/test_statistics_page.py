import doctest
import re
import statistics
from pathlib import Path

import pytest

from ragassay import stats
from ragassay.stats import mean_interval

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text("utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_number_that_the_page_works_out_is_what_the_code_gives():
    said = []
    test = doctest.DocTestParser().get_doctest(EXAMPLES, {}, "statistics.md", "docs/statistics.md", 0)
    failed, tried = doctest.DocTestRunner().run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried > 30


def test_the_numbers_in_the_sentences_follow_from_the_example():
    space = {}
    exec("\n".join(line[4:] for line in EXAMPLES.splitlines()[:6]), space)
    a, b = space["a"], space["b"]
    d = [y - x for x, y in zip(a, b, strict=True)]
    assert statistics.mean(a) == 0.5625
    assert statistics.stdev(d) == pytest.approx(0.2413, abs=5e-5)
    moved = [x for x in d if x]
    assert len(moved) == 8
    flips = [sum(x if i >> k & 1 else -x for k, x in enumerate(moved)) for i in range(256)]
    assert sum(abs(total) >= abs(sum(moved)) for total in flips) == 12
    assert (sum(space["cents_a"]), sum(space["right_a"])) == (pytest.approx(5.6), 5)
    assert (sum(space["cents_b"]), sum(space["right_b"])) == (pytest.approx(8.8), 9)
    assert pytest.approx(0.058, abs=5e-4) == 1 - 0.05 ** (1 / 50)


def test_each_function_that_the_page_names_exists_and_each_one_that_exists_is_named():
    named = set(re.findall(r"`([a-z_]+)(?:\(.*?\))?`", PAGE.split("## An example")[0]))
    functions = {name for name in stats.__all__ if callable(getattr(stats, name)) and name[0].islower()}
    assert functions - named == {"correct", "marks"}
    assert named - functions <= {"welch"}
    assert mean_interval([0, 1]).method == "t"
