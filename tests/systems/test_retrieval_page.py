"""The page about retrieval: its examples run, and its tables name every key."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from provider import Provider, says
from ragassay.core.package_data import folder
from ragassay.systems.options import AnswerModel, SystemConfig

PAGE = Path(__file__).parents[2].joinpath("docs", "retrieval.md").read_text("utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_on_the_page_run(example, cli, tmp_path, monkeypatch):
    shutil.copytree(folder("datasets") / "quickstart", tmp_path, dirs_exist_ok=True)
    (tmp_path / "ragassay.yaml").write_text(example)
    monkeypatch.setenv("RAGASSAY_API_KEY", "k")
    with Provider(then=says("The passages do not answer this.")) as provider:
        monkeypatch.setenv("RAGASSAY_API_BASE", provider.url)
        code, out, err = cli("evaluate", "--limit", "8", "--json", "--metrics", "recall@10,mrr")
    assert code == 0, err
    for name, system in json.loads(out)["systems"].items():
        assert system["failed_responses"] == 0, name
        assert system["metrics"]["recall@10"]["value"] > 0.2, name
    assert len(provider.log) == (8 if "asked" in example else 0)


@pytest.mark.parametrize("model", [SystemConfig, AnswerModel])
def test_retrieval_page_has_a_row_for_every_key(model):
    assert model.model_fields.keys() <= set(re.findall(r"^\| `([a-z_0-9]+)` \|", PAGE, re.MULTILINE))
