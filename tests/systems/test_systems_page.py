"""The page about live systems: its examples run, and its tables name every key."""

import json
import re
from pathlib import Path

import pytest

import provider as play
from endpoint import Endpoint
from ragassay.systems.functions import FunctionConfig
from ragassay.systems.http import HttpConfig, OpenAIConfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "systems.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```yaml\n# ([\w.]+)\n(.*?)```", PAGE, re.DOTALL))
FUNCTION, GENERATOR = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def evaluated(cli, tmp_path, monkeypatch):
    """The report of the example, asked at another address than the page's."""
    monkeypatch.setenv("RAG_TOKEN", "t")
    monkeypatch.setenv("CHAT_KEY", "t")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"query": "Where?", "ground_truth_answer": "Paris"}) + "\n")

    def evaluate(example, address="", query="Where?"):
        (tmp_path / "queries.jsonl").write_text(json.dumps({"query": query, "ground_truth_answer": "Paris"}) + "\n")
        (tmp_path / "systems.yaml").write_text(re.sub(r"http://[\w.:]+/\w+", address, EXAMPLES[example]))
        code, out, err = cli("evaluate", "--config", "systems.yaml", "--json", "--metrics", "token_f1")
        assert code == 0, err
        return json.loads(out)

    return evaluate


def test_an_endpoint_is_asked_as_the_page_shows(evaluated):
    with Endpoint() as endpoint:
        report = evaluated("http", endpoint.url)
    assert report["systems"]["v2"]["metrics"]["token_f1"]["value"] > 0
    assert [body for body, *_ in endpoint.asked] == [{"question": "Where?", "top_k": 5}]


def test_a_stream_is_read_as_the_page_shows(evaluated):
    with Endpoint() as endpoint:
        report = evaluated("stream", endpoint.url, "lines")
    system = report["systems"]["v2"]
    assert (system["metrics"]["token_f1"]["value"], system["first_token_ms"]["n"]) == (1.0, 1)
    assert report["results"]["v2"][0]["output_tokens"] == 3


def test_a_chat_api_is_asked_as_the_page_shows(evaluated):
    with play.Provider(then=play.says("Paris.")) as provider:
        report = evaluated("chat", provider.url)
    system = report["systems"]["v2"]
    assert (system["metrics"]["token_f1"]["value"], system["first_token_ms"]["n"]) == (1.0, 1)
    assert provider.log[0].body["max_tokens"] == 300


@pytest.mark.parametrize("code", [FUNCTION, GENERATOR], ids=["function", "generator"])
def test_a_function_is_called_as_the_page_shows(evaluated, tmp_path, code):
    (tmp_path / "own.py").write_text(code)
    assert evaluated("python")["systems"]["v2"]["metrics"]["token_f1"]["value"] == 1.0


@pytest.mark.parametrize("model", [HttpConfig, FunctionConfig, OpenAIConfig])
def test_systems_page_has_a_row_for_every_key(model):
    assert model.model_fields.keys() - {"kind"} <= set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE))
