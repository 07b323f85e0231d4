import doctest
import re
from pathlib import Path

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


def test_each_function_that_the_page_names_exists_and_each_one_that_exists_is_named():
    named = set(re.findall(r"`([a-z_]+)(?:\(.*?\))?`", PAGE.split("## An example")[0]))
    functions = {name for name in stats.__all__ if callable(getattr(stats, name)) and name[0].islower()}
    assert functions - named == {"correct", "marks"}
    assert named - functions <= {"welch"}
    assert mean_interval([0, 1]).method == "t"
