"""The pages on the configuration hold what the reader of it takes."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from ragassay.config import Configuration
from ragassay.config.document import option_of
from ragassay.gates import Gate
from ragassay.schedule_documents import PlannedJob

DOCS = Path(__file__).parents[2] / "docs"


def keys(model, prefix=""):
    """(dotted key, field) of everything that can be set."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{name}.")
        else:
            yield f"{prefix}{name}", field


def shown_default(field):
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value in (None, (), {}) else f"`{json.dumps(value).strip(chr(34))}`"


def cells(*texts):
    return "| " + " | ".join(texts) + " |"


def test_the_page_has_a_row_for_every_key_with_its_default_flag_variable_and_effect():
    page = (DOCS / "configuration.md").read_text()
    wanted = []
    for key, field in keys(Configuration):
        option = option_of(field)
        flag = ", ".join(f"`{name}`" for name in option.flags)
        variable = f"`RAGASSAY_{key.rpartition('.')[2].upper()}`" if option.variable else ""
        wanted.append(cells(f"`{key}`", shown_default(field), flag, variable, option.about))
    wanted += [cells(f"`gates.{key}`", shown_default(field), field.description) for key, field in keys(Gate)]
    wanted += [cells(f"`schedule.{key}`", shown_default(one), one.description) for key, one in keys(PlannedJob)]
    assert re.findall(r"^\| `.*$", page, re.MULTILINE) == wanted


@pytest.mark.parametrize("name", ["configuration.md", "gates.md", "judges.md", "strategies.md"])
def test_the_examples_on_the_pages_load(name, load):
    examples = re.findall(r"```yaml\n(.*?)```", (DOCS / name).read_text(), re.DOTALL)
    assert examples
    for text in examples:
        assert load(text) != Configuration()
