"""The page about live systems: its examples run, and its tables name every key."""

import json
import re
from pathlib import Path

import pytest

from endpoint import Endpoint
from ragassay.strategies.http import HttpConfig
from ragassay.strategies.live import FunctionConfig

PAGE = Path(__file__).parents[2].joinpath("docs", "systems.md").read_text("utf-8")
HTTP, PYTHON = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
[CODE] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", [HTTP, PYTHON], ids=["http", "python"])
def test_the_examples_on_the_page_run(example, cli, tmp_path, monkeypatch):
    (tmp_path / "queries.jsonl").write_text(json.dumps({"query": "Where?", "ground_truth_answer": "Paris"}) + "\n")
    (tmp_path / "own.py").write_text(CODE)
    monkeypatch.setenv("RAG_TOKEN", "t")
    with Endpoint() as system:
        (tmp_path / "systems.yaml").write_text(example.replace("http://127.0.0.1:8000/ask", system.url))
        code, out, err = cli("evaluate", "--config", "systems.yaml", "--json", "--metrics", "token_f1")
    assert code == 0, err
    assert json.loads(out)["systems"]["v2"]["metrics"]["token_f1"]["mean"] > 0
    assert [body for body, *_ in system.asked] == ([{"question": "Where?", "top_k": 5}] if example is HTTP else [])


@pytest.mark.parametrize("model", [HttpConfig, FunctionConfig])
def test_the_page_names_every_key_with_its_default(model):
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*?) ?\| .* \|$", PAGE, re.MULTILINE))
    for name, field in model.model_fields.items():
        if name != "kind":
            assert name in rows, name
            if not field.is_required() and isinstance(field.default, int | float):
                assert rows[name] == f"`{field.default}`"
