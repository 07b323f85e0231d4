"""docs/python.md: every example runs, each in an interpreter of its own; and help is short."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from provider import Provider

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [block for block in BLOCKS if block.startswith(">>>")]
(WITH_MODEL,) = (block for block in BLOCKS if '"usd"' in block)
# The lexical half of the local judge gives the same here, without ten seconds for a model.
RUN = (
    "import doctest, sys, ragassay.evaluation.runtime as runtime; runtime.embedder = lambda *_: (None, 'not needed')\n"
    "test = doctest.DocTestParser().get_doctest(sys.stdin.read(), {}, 'python.md', 'docs/python.md', 0)\n"
    "sys.exit(doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed)"
)


@pytest.mark.parametrize("example", EXAMPLES, ids=[re.sub(r"\W+", " ", block)[30:70] for block in EXAMPLES])
def test_each_example_runs_in_a_fresh_interpreter(example):
    done = subprocess.run([sys.executable, "-c", RUN], input=example, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_with_a_model_asks_it_under_its_cap():
    with Provider() as provider:
        keys = {"RAGASSAY_API_KEY": "sk-test", "RAGASSAY_API_BASE": provider.url}
        code = [sys.executable, "-c", WITH_MODEL]
        done = subprocess.run(code, env={**os.environ, **keys}, capture_output=True, text=True, timeout=120)
    assert (done.stdout, len(provider.log)) == ("1\n", 1), done.stderr
