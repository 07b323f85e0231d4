"""``ragassay info``, words that are gone, a pipe that is closed, and which configuration ``evaluate`` reads."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import orjson
import pytest

from offline_runs import GOOD, write_jsonl
from ragassay import config
from ragassay.config import ProjectConfig


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "data.jsonl", [GOOD, {**GOOD, "query_id": "q2", "retrieved_doc_ids": ["d2", "d1"]}])


def test_help_lists_nineteen_words_and_an_old_one_names_the_new_one(cli):
    _, out, _ = cli("--help")
    assert len(re.findall(r"^  ([a-z]+)  ", out.partition("Commands:")[2], re.MULTILINE)) == 19
    for word in ("run", "data describe"):
        assert f"there is no command '{word}' any more; use: ragassay " in cli.refused(*word.split())


def test_doctor_names_the_keys_that_are_set_and_prints_none_of_them(cli, monkeypatch):
    monkeypatch.setenv("MY_PROVIDER_API_KEY", "sk-very-secret")
    monkeypatch.setenv("EMPTY_API_KEY", "")
    code, out, _ = cli("info", "doctor", "--json")
    keys = next(finding for finding in map(json.loads, out.splitlines()) if finding["what"] == "provider keys")
    assert (code, keys["ok"]) == (0, True)
    assert "MY_PROVIDER_API_KEY" in keys["detail"]
    assert "EMPTY_API_KEY" not in keys["detail"]
    assert "sk-very-secret" not in out
    monkeypatch.delenv("MY_PROVIDER_API_KEY")
    assert "missing provider keys: none set" in cli("info", "doctor")[1]


def test_the_schema_of_a_job_takes_the_bodies_of_the_page(cli):
    schema = json.loads(cli("info", "schema", "job")[1])
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    bodies = [json.loads(body) for body in re.findall(r"<<'JSON'\n(.*?)\nJSON\n", page, re.DOTALL)]
    assert bodies
    for body in bodies:
        jsonschema.validate(body, schema)
        for wrong in (body | {"data": "rows.jsonl"}, body | {"samples": []}, body | {"metrcis": ["mrr"]}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, schema)


def test_a_closed_pipe_ends_the_command_quietly_with_the_status_of_sigpipe():
    command = [sys.executable, "-m", "ragassay.cli", "info", "metrics", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # before it writes anything
        said = process.stderr.read()
        assert (process.wait(60), said) == (141, b"")


def test_init_writes_the_defaults_and_overwrites_nothing(cli, tmp_path):
    path = tmp_path / "ragassay.yaml"
    assert cli("info", "init") == (
        0,
        "wrote ragassay.yaml; fill in 'data:', then run: ragassay evaluate\n",
        "",
    )
    assert config.load(path) == ProjectConfig()
    path.write_text("judge: mine\n")
    assert "ragassay.yaml is there already; name another file" in cli.refused("info", "init")
    assert path.read_text() == "judge: mine\n"
    assert cli("info", "init", "other.yaml")[0] == 0
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere.yaml")
    assert "there already" in cli.refused("info", "init", "link.yaml")
    assert "nowhere/ragassay.yaml: there is no folder 'nowhere'" in cli.refused("info", "init", "nowhere/ragassay.yaml")


def test_evaluate_without_data_reads_the_configuration_of_the_folder(cli, data, tmp_path):
    cli("info", "init")
    text = (tmp_path / "ragassay.yaml").read_text()
    for old, new in (
        ("\ndata:", "\ndata: data.jsonl"),
        ("\nmetrics:", "\nmetrics: [mrr]"),
        ("seed: 0", "seed: 3"),
        ("output: []", "output: [r.json]"),
    ):
        text = text.replace(old, new)
    (tmp_path / "ragassay.yaml").write_text(text)
    code, out, _ = cli("evaluate", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["provenance"]["metrics"], report["provenance"]["configuration"]["seed"]) == (["mrr"], 3)
    assert orjson.loads((tmp_path / "r.json").read_bytes()) == report
    found = json.loads(cli("evaluate", "--json", "--seed", "4", "--metrics", "hit@1", "-o", "other.json")[1])
    assert (found["provenance"]["metrics"], found["provenance"]["configuration"]["seed"]) == (["hit@1"], 4)
    assert (tmp_path / "other.json").exists()


def test_a_command_that_names_its_data_reads_no_configuration_unless_told_to(cli, data, tmp_path):
    (tmp_path / "conf").mkdir()
    write_jsonl(tmp_path / "conf" / "a.jsonl", [{"query_id": "q1", "retrieved_doc_ids": ["d1"]}])
    for path in ("ragassay.yaml", "conf/c.yaml"):
        (tmp_path / path).write_text("systems: {a: a.jsonl}\nmetrics: [hit@1]\n")
    named = json.loads(cli("evaluate", data, "--metrics", "mrr", "--json")[1])
    assert (named["provenance"]["metrics"], list(named["systems"])) == (["mrr"], ["default"])
    told = json.loads(cli("evaluate", data, "--config", "conf/c.yaml", "--json")[1])
    assert (told["provenance"]["metrics"], list(told["systems"])) == (["hit@1"], ["a"])
