"""Metrics of one's own on the command line: ``plugins:`` of a configuration, ``--import``, RAGASSAY_PLUGINS."""

import json

import pytest

from offline_runs import GOOD, write_jsonl
from ragassay.metrics.metric import METRICS

OWN = """
from ragassay import metric

@metric(better="lower", needs="answer", name="{name}")
def words(sample):
    '''Words of the answer.'''
    return len(sample.answer.split())
"""


pytestmark = pytest.mark.usefixtures("own_metrics")


@pytest.fixture
def project(tmp_path):
    """A folder with rows, a metric in a folder of its own, and a configuration that names it."""
    write_jsonl(tmp_path / "d.jsonl", [GOOD | {"query_id": f"q{n}", "answer": "one " * n} for n in range(1, 9)])
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "own.py").write_text(OWN.format(name="own_words"))
    (tmp_path / "conf" / "ragassay.yaml").write_text(
        "data: ../d.jsonl\nplugins: [own.py]\nmetrics: [own_words, mrr]\ngates: [own_words: '<= 5']\n"
    )
    return tmp_path


def test_a_configuration_names_its_plugins_relative_to_itself(cli, project):
    _, out, _ = cli("evaluate", "--config", "conf/ragassay.yaml", "--json")
    report = json.loads(out)
    assert report["systems"]["default"]["metrics"]["own_words"]["value"] == 4.5
    assert report["systems"]["default"]["metrics"]["own_words"]["bounds"] is None
    assert list(report["provenance"]["plugins"]) == ["own.py"]


def test_gate_trend_compare_and_show_know_a_metric_of_ones_own(cli, project):
    code, out, _ = cli("gate", "conf/ragassay.yaml")
    assert code == 0
    assert "own_words is 4.5" in out
    METRICS._things.pop("own_words")
    code, out, _ = cli("trend", "own_words", "--import", "conf/own.py")
    assert code == 0
    assert "lower is better" in out
    METRICS._things.pop("own_words")
    assert cli("trend", "own_words", "--config", "conf/ragassay.yaml")[0] == 0
    METRICS._things.pop("own_words")
    first = json.loads(cli("evaluate", "--config", "conf/ragassay.yaml", "--json")[1])["run"]["id"]
    cli("evaluate", "--config", "conf/ragassay.yaml")
    METRICS._things.pop("own_words")
    code, out, _ = cli("compare", first, "last", "--import", "conf/own.py", "--metrics", "own_words")
    assert code == 0
    assert "own_words" in out
    assert "own_words" in cli("info", "metrics", "--import", "conf/own.py", "--json")[1]
    METRICS._things.pop("own_words")
    assert "8 of 8 rows: " in (listed := cli("data", "show", "d.jsonl", "--import", "conf/own.py")[1])
    assert "own_words" in listed


def test_ragassay_yaml_of_the_current_folder_is_used_and_named_on_stderr(cli, project, monkeypatch):
    monkeypatch.chdir(project / "conf")
    cli.found = ""  # stderr as it is
    code, _, err = cli("evaluate")
    assert (code, err.splitlines()[0], "own_words" in METRICS) == (0, "configuration: ragassay.yaml", True)
    assert "configuration:" not in cli("evaluate", "../d.jsonl", "--metrics", "mrr")[2]


def test_plugins_of_the_environment_are_known_everywhere(cli, project, monkeypatch):
    monkeypatch.setenv("RAGASSAY_PLUGINS", "conf/own.py")
    _, out, _ = cli("evaluate", "d.jsonl", "--metrics", "own_words", "--json")
    assert json.loads(out)["systems"]["default"]["metrics"]["own_words"]["n"] == 8


def test_a_resumed_run_needs_the_same_plugins(cli, project):
    _, out, _ = cli("evaluate", "--config", "conf/ragassay.yaml", "--json")
    run = json.loads(out)["run"]["id"]
    assert cli("evaluate", "--resume", run, "--import", "conf/own.py")[0] == 0
    METRICS._things.pop("own_words")
    code, _, err = cli("evaluate", "--resume", run)
    assert code == 2
    assert "--import" in err


def test_function_system_imports_a_module_of_its_folder(cli, project):
    (project / "conf" / "neighbour_texts.py").write_text("TEXTS = ['Ann owns the pump.']\n")
    (project / "conf" / "live.py").write_text(
        "from neighbour_texts import TEXTS\ndef ask(query):\n    return TEXTS[0]\n"
    )
    config = project / "conf" / "ragassay.yaml"
    config.write_text(
        "data: ../d.jsonl\nmetrics: [exact_match]\nsystems:\n  v2: {kind: python, function: 'live.py:ask'}\n"
    )
    code, out, err = cli("evaluate", "--config", config, "--json")
    assert code == 0, err
    assert json.loads(out)["results"]["v2"][0]["answer"] == "Ann owns the pump."
    (project / "conf" / "live.py").write_text("import no_such_server\n")
    assert "No module named 'no_such_server'" in cli("evaluate", "--config", config)[2]
