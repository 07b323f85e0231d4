"""The page about metrics says what the code does, and leaves none out."""

import doctest
import re
from pathlib import Path

from ragassay.metrics.metric import METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
BUILT_IN = [m for m in METRICS if m.function.__module__.startswith("ragassay.")]  # other tests register more


def test_every_number_that_the_page_works_out_is_what_the_code_gives():
    said = []
    test = doctest.DocTestParser().get_doctest(EXAMPLES, {}, "metrics.md", "docs/metrics.md", 0)
    failed, tried = doctest.DocTestRunner().run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried > 15


def test_every_metric_is_on_the_page():
    named = {name.partition("@")[0] for name in re.findall(r"`([^`\s]+)`", PAGE)}
    assert {m.family for m in BUILT_IN} - named == set()
