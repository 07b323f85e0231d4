"""docs/cost.md: its arithmetic is worked again, its table of words is what the code says, its options exist."""

import doctest
import re
from pathlib import Path

from typer.main import get_command

from ragassay.cli.app import app
from ragassay.costs import DIMENSIONS
from ragassay.job_costs import MOST_REPORTS

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text("utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_number_that_the_page_works_out_is_what_the_code_gives():
    said = []
    test = doctest.DocTestParser().get_doctest(EXAMPLES, {}, "cost.md", "docs/cost.md", 0)
    failed, tried = doctest.DocTestRunner().run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried > 15


def test_the_table_adds_up_to_the_sums_of_the_example():
    lines = re.findall(r"^\| (?:\w+ night, cost|accurate) \| ([\d| ]+) \|$", PAGE, re.MULTILINE)
    nights = [[int(cell) for cell in line.split("|")] for line in lines]
    assert [sum(line[:-1]) for line in nights] == [line[-1] for line in nights] == [12, 6, 10, 4]
    space = {}
    exec("\n".join(line[4:] for line in EXAMPLES.splitlines() if line.startswith((">>> f", ">>> second ="))), space)
    for name, (cost, right) in {"first": nights[:2], "second": nights[2:]}.items():
        assert space[name] == type(space[name]).of(zip(cost[:-1], right[:-1], strict=True))


def test_the_options_on_the_page_are_those_of_the_command():
    options = {flag for parameter in get_command(app).commands["cost"].params for flag in parameter.opts}
    assert set(re.findall(r"--[a-z]+", PAGE)) <= options
    assert {"--since", "--until", "--system", "--dataset", "--by", "--zone", "--server", "--json"} <= options
    for dimension in DIMENSIONS:
        assert dimension in PAGE.partition("```")[0]


def test_the_bound_on_the_page_is_that_of_the_code():
    assert f"newest {MOST_REPORTS:,} reports" in PAGE
