"""docs/cost.md: its arithmetic is worked again, its table of words is what the code says, its options exist."""

import doctest
import re
from pathlib import Path

from typer.main import get_command

from ragassay.analysis.costs import DIMENSIONS
from ragassay.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text("utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_number_that_the_page_works_out_is_what_the_code_gives():
    said = []
    test = doctest.DocTestParser().get_doctest(EXAMPLES, {}, "cost.md", "docs/cost.md", 0)
    failed, tried = doctest.DocTestRunner().run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried == 6


def test_the_options_on_the_page_are_those_of_the_command():
    options = {flag for parameter in get_command(app).commands["cost"].params for flag in parameter.opts}
    assert set(re.findall(r"--[a-z]+", PAGE)) <= options
    assert {"--since", "--until", "--system", "--dataset", "--by", "--zone", "--server", "--json"} <= options
    for dimension in DIMENSIONS:
        assert dimension in PAGE.partition("```")[0]
