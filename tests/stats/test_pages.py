"""The pages about metrics, statistics and costs work their numbers out as the code does, and leave nothing out."""

import doctest
import re
from pathlib import Path

import pytest

from ragassay.analysis.costs import DIMENSIONS
from ragassay.metrics.metric import METRICS
from ragassay.metrics.names import SPELLINGS

DOCS = Path(__file__).parents[2] / "docs"
METRICS_PAGE = (DOCS / "metrics.md").read_text("utf-8")
OURS = [m for m in METRICS if m.function.__module__.startswith("ragassay.")]  # before other tests register more


@pytest.mark.parametrize(("name", "least"), [("metrics.md", 15), ("statistics.md", 30), ("cost.md", 5)])
def test_every_number_that_a_page_works_out_is_what_the_code_gives(name, least):
    said, page = [], (DOCS / name).read_text("utf-8")
    text = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, name, f"docs/{name}", 0)
    failed, tried = doctest.DocTestRunner().run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried > least


def test_every_metric_and_every_other_name_for_it_is_on_the_page():
    named = {name.partition("@")[0] for name in re.findall(r"`([^`\s]+)`", METRICS_PAGE)}
    assert {m.family for m in OURS} - named == set()
    assert {*list(SPELLINGS)[list(SPELLINGS).index("bertscore") :]} <= named


def test_every_dimension_of_costs_is_on_the_page():
    page = (DOCS / "cost.md").read_text("utf-8")
    assert [dimension for dimension in DIMENSIONS if dimension not in page.partition("```")[0]] == []
