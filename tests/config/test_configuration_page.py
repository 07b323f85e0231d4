"""The pages on the configuration hold what the reader of it takes."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from ragassay.analysis.gates import Gate
from ragassay.config import ProjectConfig
from ragassay.config.model import in_order
from ragassay.config.schedules import PlannedJob

DOCS = Path(__file__).parents[2] / "docs"


def keys(model, prefix=""):
    """The dotted key of everything that can be set."""
    for name in in_order(model) if model is ProjectConfig else model.model_fields:
        field = model.model_fields[name]
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_configuration_page_has_a_row_for_every_key():
    rows = re.findall(r"^\| `([\w.]+)` \|", (DOCS / "configuration.md").read_text(), re.MULTILINE)
    assert rows == [*keys(ProjectConfig), *keys(Gate, "gates."), *keys(PlannedJob, "schedule.")]


@pytest.mark.parametrize("name", ["configuration.md", "gates.md", "judges.md", "built-in-systems.md"])
def test_the_examples_on_the_pages_load(name, load):
    examples = re.findall(r"```yaml\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    assert examples
    for text in examples:
        assert load(text) != ProjectConfig()
