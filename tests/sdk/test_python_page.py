"""docs/python.md and docs/migrate.md: every example runs and gives what it shows."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from provider import Provider

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = {
    **{re.sub(r"\W+", " ", block)[30:70]: block for block in BLOCKS if block.startswith(">>>")},
    "migrate": (DOCS / "migrate.md").read_text("utf-8"),
}
(WITH_MODEL,) = (block for block in BLOCKS if '"usd"' in block)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_gives_what_it_shows(name):
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {"__name__": "__main__"}, name, name, 0)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


def test_the_example_with_a_model_asks_it_under_its_cap():
    with Provider() as provider:
        keys = {"RAGASSAY_API_KEY": "sk-test", "RAGASSAY_API_BASE": provider.url}
        code = [sys.executable, "-c", WITH_MODEL]
        done = subprocess.run(code, env={**os.environ, **keys}, capture_output=True, text=True, timeout=120)
    assert (done.stdout, len(provider.log)) == ("1\n", 1), done.stderr
