import doctest
import math
import re
import statistics
from pathlib import Path

import pytest

from ragassay import stats
from ragassay.stats import mean_interval, paired

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


def test_the_price_of_looking_is_as_the_page_says():
    # scores 0, 0.5, 1 in 1 : 2 : 7 have mean 0.8 and variance 0.05 + 0.7 - 0.64 = 0.11; (2 * 1.96 * sd / 0.1) ** 2 rows
    assert (2 * 1.96 * math.sqrt(0.11) / 0.1) ** 2 == pytest.approx(170, abs=5)


def test_the_table_of_small_numbers_is_true():
    ten = [0.1 * i for i in range(10)]
    assert paired([0] * 5, ten[1:6]).wilcoxon.p > 0.05
    assert paired([0] * 6, ten[1:7]).wilcoxon.p < 0.05
    assert (paired([0] * 7, ten[:7]).bootstrap.low, paired([0] * 8, ten[:8]).bootstrap.low is None) == (None, False)
    many = [0.01 * i * i for i in range(1, 60)]
    methods = {n: paired([0] * n, many[:n], flips=99) for n in (20, 21, 50, 51)}
    assert (methods[20].randomisation.method, methods[21].randomisation.method) == ("exact", "99 random flips")
    assert (methods[50].wilcoxon.method, methods[51].wilcoxon.method) == ("exact", "normal approximation")


def test_each_function_that_the_page_names_exists_and_each_one_that_exists_is_named():
    named = set(re.findall(r"`([a-z_]+)(?:\(.*?\))?`", PAGE.split("## An example")[0]))
    functions = {name for name in stats.__all__ if callable(getattr(stats, name)) and name[0].islower()}
    assert functions - named == {"correct", "marks"}
    assert named - functions <= {"welch"}
    assert mean_interval([0, 1]).method == "t"
