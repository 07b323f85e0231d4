"""The pages on the configuration hold what the reader of it takes."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from ragassay.analysis.gates import Gate
from ragassay.config import Configuration
from ragassay.config.schedules import PlannedJob

DOCS = Path(__file__).parents[2] / "docs"


def keys(model, prefix=""):
    """The dotted key of everything that can be set."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_configuration_page_has_a_row_for_every_key():
    rows = re.findall(r"^\| `([\w.]+)` \|", (DOCS / "configuration.md").read_text(), re.MULTILINE)
    assert rows == [*keys(Configuration), *keys(Gate, "gates."), *keys(PlannedJob, "schedule.")]


@pytest.mark.parametrize("name", ["configuration.md", "gates.md", "judges.md", "built-in-systems.md"])
def test_the_examples_on_the_pages_load(name, load):
    examples = re.findall(r"```yaml\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    assert examples
    for text in examples:
        assert load(text) != Configuration()
