"""``ragassay info init``, and ``ragassay evaluate`` with the file that it wrote."""

import json

import orjson
import pytest

from offline_runs import GOOD, write_jsonl
from ragassay import config
from ragassay.config import ProjectConfig


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "data.jsonl", [GOOD, {**GOOD, "query_id": "q2", "retrieved_doc_ids": ["d2", "d1"]}])


def test_init_writes_the_defaults_with_comments(cli, tmp_path):
    code, out, err = cli("info", "init")
    text = (tmp_path / "ragassay.yaml").read_text()
    assert (code, err) == (0, "")
    assert out == "wrote ragassay.yaml; fill in 'data:', then run: ragassay evaluate\n"
    assert config.load(tmp_path / "ragassay.yaml") == ProjectConfig()
    assert all(f"\n{key}:" in text for key in ProjectConfig.model_fields)


def test_init_overwrites_nothing(cli, tmp_path):
    (tmp_path / "ragassay.yaml").write_text("judge: mine\n")
    code, out, err = cli("info", "init")
    assert (code, out) == (2, "")
    assert err == "error: ragassay.yaml is there already; name another file: ragassay info init FILE\n"
    assert (tmp_path / "ragassay.yaml").read_text() == "judge: mine\n"
    assert cli("info", "init", "other.yaml")[0] == 0
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere.yaml")
    assert cli("info", "init", "link.yaml")[0] == 2
    assert cli("info", "init", "nowhere/ragassay.yaml") == (
        2,
        "",
        "error: nowhere/ragassay.yaml: there is no folder 'nowhere'; make it first\n",
    )


def test_evaluate_without_data_reads_the_configuration_of_the_folder(cli, data, tmp_path):
    cli("info", "init")
    text = (tmp_path / "ragassay.yaml").read_text()
    text = text.replace("\ndata:", "\ndata: data.jsonl").replace("\nmetrics:", "\nmetrics: [mrr]")
    (tmp_path / "ragassay.yaml").write_text(
        text.replace("seed: 0", "seed: 3").replace("output: []", "output: [r.json]")
    )
    code, out, _ = cli("evaluate", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["provenance"]["metrics"], report["provenance"]["configuration"]["seed"]) == (["mrr"], 3)
    assert orjson.loads((tmp_path / "r.json").read_bytes()) == report
    found = json.loads(cli("evaluate", "--json", "--seed", "4", "--metrics", "hit@1", "-o", "other.json")[1])
    assert (found["provenance"]["metrics"], found["provenance"]["configuration"]["seed"]) == (["hit@1"], 4)
    assert (tmp_path / "other.json").exists()


def test_a_command_that_names_its_data_reads_no_configuration_unless_told_to(cli, data, tmp_path):
    (tmp_path / "ragassay.yaml").write_text("metrics: [hit@1]\n")
    named = json.loads(cli("evaluate", data, "--metrics", "mrr", "--json")[1])
    assert named["provenance"]["metrics"] == ["mrr"]
    told = json.loads(cli("evaluate", data, "--config", "ragassay.yaml", "--json")[1])
    assert told["provenance"]["metrics"] == ["hit@1"]


def test_paths_are_relative_to_the_file_and_systems_come_from_it(cli, data, tmp_path):
    folder = tmp_path / "nightly"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", [{"query_id": "q1", "retrieved_doc_ids": ["d1"]}])
    (folder / "c.yaml").write_text("data: ../data.jsonl\nsystems: {a: a.jsonl}\nmetrics: [mrr]\n")
    code, out, _ = cli("evaluate", "--config", "nightly/c.yaml", "--json")
    assert code == 0
    assert list(json.loads(out)["systems"]) == ["a"]
