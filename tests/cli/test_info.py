"""``ragassay info``, words that are gone, a pipe that is closed, and which configuration ``evaluate`` reads."""

import json
import re
import subprocess
import sys

import pytest

from offline_runs import GOOD, write_jsonl
from ragassay import config
from ragassay.config import ProjectConfig


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "data.jsonl", [GOOD, {**GOOD, "query_id": "q2", "retrieved_doc_ids": ["d2", "d1"]}])


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


def test_a_closed_pipe_ends_the_command_quietly_with_the_status_of_sigpipe():
    command = [sys.executable, "-m", "ragassay.cli", "info", "metrics", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # before it writes anything
        said = process.stderr.read()
        assert (process.wait(60), said) == (141, b"")


def test_a_command_that_names_its_data_reads_no_configuration_unless_told_to(cli, data, tmp_path):
    (tmp_path / "conf").mkdir()
    write_jsonl(tmp_path / "conf" / "a.jsonl", [{"query_id": "q1", "retrieved_doc_ids": ["d1"]}])
    for path in ("ragassay.yaml", "conf/c.yaml"):
        (tmp_path / path).write_text("systems: {a: a.jsonl}\nmetrics: [hit@1]\n")
    named = json.loads(cli("evaluate", data, "--metrics", "mrr", "--json")[1])
    assert (named["provenance"]["metrics"], list(named["systems"])) == (["mrr"], ["default"])
    told = json.loads(cli("evaluate", data, "--config", "conf/c.yaml", "--json")[1])
    assert (told["provenance"]["metrics"], list(told["systems"])) == (["hit@1"], ["a"])


def test_init_writes_the_defaults_and_overwrites_nothing(cli, tmp_path):
    path = tmp_path / "ragassay.yaml"
    assert cli("info", "init")[::2] == (0, "")
    assert config.load(path) == ProjectConfig()
    path.write_text("judge: mine\n")
    assert "ragassay.yaml is there already; name another file" in cli.refused("info", "init")
    assert path.read_text() == "judge: mine\n"
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere.yaml")
    assert "there already" in cli.refused("info", "init", "link.yaml")


def test_evaluate_without_data_reads_the_configuration_of_the_folder(cli, data, tmp_path):
    (tmp_path / "ragassay.yaml").write_text("data: data.jsonl\nmetrics: [mrr]\nseed: 3\noutput: [r.json]\n")
    for options, metrics, seed, file in (
        ((), ["mrr"], 3, "r.json"),
        (("--seed", "4", "--metrics", "hit@1", "-o", "other.json"), ["hit@1"], 4, "other.json"),
    ):
        report = json.loads(cli("evaluate", "--json", *options)[1])
        assert (report["provenance"]["metrics"], report["provenance"]["configuration"]["seed"]) == (metrics, seed)
        assert json.loads((tmp_path / file).read_bytes()) == report


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("run", "evaluate --config FILE"),
        ("submit rows.jsonl", "evaluate DATA --server URL"),
        ("report last", "show RUN"),
        ("results last", "show RUN --rows"),
        ("export last", "show RUN -o FILE"),
        ("power r.json", "compare RUN --detect X"),
        ("status", "job show JOB"),
        ("retry", "job retry JOB"),
        ("cancel", "job cancel JOB"),
        ("up", "serve"),
        ("worker", "serve worker"),
        ("beat", "serve scheduler"),
        ("alive", "serve worker --check"),
        ("init", "info init"),
        ("doctor", "info doctor"),
        ("metrics", "info metrics"),
        ("schema report", "info schema"),
        ("data check a.jsonl", "data show DATA"),
        ("data describe a.jsonl", "data show DATA"),
        ("data versions cities", "data show NAME"),
        ("judge calibrate a.jsonl", "judge agreement DATA"),
        ("judge prefer", "compare A B --pairwise MODEL"),
        ("schedule pause nightly", "schedule set NAME --pause"),
        ("schedule resume nightly", "schedule set NAME --resume"),
        ("admin alive", "serve worker --check"),
        ("admin requeue", "job retry JOB"),
    ],
)
def test_a_word_that_is_gone_names_the_command_in_its_place(cli, old, new):
    refused = cli.refused(*old.split())
    assert refused.count("\n") == 1
    assert refused.endswith(f"use: ragassay {new}\n")
    assert cli(*re.match("[a-z ]+", new)[0].split(), "--help")[0] == 0  # the command exists


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("alerts", "GET /v1/alerts"),
        ("webhook add", "POST /v1/webhooks"),
        ("comment gates.md", "gh pr comment"),
        ("judge attack", "the script of docs/judge-accuracy.md"),
        ("completion bash", "ragassay --install-completion"),
        ("admin retention", "RAGASSAY_KEEP_RESULTS_DAYS"),
        ("admin keys rotate ID", "ragassay admin keys make NAME, then ragassay admin keys revoke ID"),
    ],
)
def test_a_word_without_a_successor_names_what_does_its_work(cli, old, new):
    assert f"use: {new}" in cli.refused(*old.split())


def test_an_unknown_command_is_one_sentence(cli):
    assert cli.refused("config") == "error: No such command 'config'; see: ragassay --help\n"
