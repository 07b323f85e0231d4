"""The pages about systems and retrieval: their configurations are valid, their code runs, their tables name every key."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from live_systems import answer_of
from ragassay.config import ProjectConfig
from ragassay.core.models import Sample
from ragassay.systems.functions import FunctionClient, FunctionConfig
from ragassay.systems.http import HttpConfig, OpenAIConfig
from ragassay.systems.options import AnswerModel, SystemConfig

ROOT = Path(__file__).parents[2]
SYSTEMS, RETRIEVAL = ((ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("systems", "retrieval"))


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)\n```", page, re.DOTALL)


@pytest.mark.parametrize("example", [*blocks(SYSTEMS, "yaml"), *blocks(RETRIEVAL, "yaml")])
def test_an_example_on_a_page_is_a_configuration_with_systems(example):
    assert ProjectConfig.model_validate(yaml.safe_load(example)).systems


@pytest.mark.parametrize("code", blocks(SYSTEMS, "python"))
def test_a_function_on_the_page_answers(code):
    names = {}
    exec(code, names)
    function = next(each for name, each in names.items() if callable(each) and not name.startswith("_"))
    sample = Sample(query_id="q", query="Where?")
    assert asyncio.run(answer_of(FunctionClient(function), sample)).answer


@pytest.mark.parametrize(
    ("page", "model"),
    [
        *((SYSTEMS, model) for model in (HttpConfig, FunctionConfig, OpenAIConfig)),
        *((RETRIEVAL, model) for model in (SystemConfig, AnswerModel)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_page_has_a_row_for_every_key(page, model):
    keys = model.model_fields.keys() - ({"kind"} if page is SYSTEMS else set())
    assert keys <= set(re.findall(r"^\| `([a-z_0-9]+)` \|", page, re.MULTILINE))
