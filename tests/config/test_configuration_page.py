"""The pages on the configuration have examples that load."""

import re
from pathlib import Path

import pytest

from ragassay.config import ProjectConfig

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "name",
    [
        "configuration.md",
        "gates.md",
        "judges.md",
        "judging.md",
        "retrieval.md",
        "migrate.md",
        "../README.md",
    ],
)
def test_the_examples_on_the_pages_load(name, load):
    examples = re.findall(r"^```yaml\n(.*?)^```", (DOCS / name).read_text(), re.DOTALL | re.MULTILINE)
    assert examples
    for text in examples:
        assert load(text) != ProjectConfig()
