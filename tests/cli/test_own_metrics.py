"""Metrics of one's own, composed in a configuration or brought by a plug-in, are metrics wherever one is named."""

import json

import pytest

from offline_runs import GOOD, write_jsonl
from ragassay.metrics.metric import METRICS

COMPOSED = """
data: d.jsonl
metrics: [mrr, recall@1, accurate]
composites:
  ranking: {mrr: 3, recall@1: 1}
  balance: {mrr: 1, recall@1: 1}
accurate: ranking >= 0.5
gates:
  - ranking: ">= 0.6"
  - {metric: balance, min: 0.5, max_drop: 0.1}
"""
PLUGIN = """
from ragassay import metric

@metric(better="lower", needs="answer")
def own_words(sample):
    '''Words of the answer.'''
    return len(sample.answer.split())
"""
PLUGGED = "data: ../d.jsonl\nplugins: [own.py]\nmetrics: [own_words, mrr]\ngates: [own_words: '<= 3']\n"

pytestmark = pytest.mark.usefixtures("own_things")


@pytest.fixture
def project(tmp_path):
    """Four rows: in three the one relevant document is first, in one it is second. conf/ has a plug-in."""
    ranks = [*[["d1", "d2"]] * 3, ["d2", "d1"]]
    answers = ("one " * n for n in range(1, 5))
    rows = [
        {"query_id": f"q{n}", "query": f"Well, {n}?", "category": "odd" if n % 2 else "even", "answer": answer}
        for n, answer in enumerate(answers)
    ]
    write_jsonl(
        tmp_path / "d.jsonl", [GOOD | row | {"retrieved_doc_ids": rank} for row, rank in zip(rows, ranks, strict=True)]
    )
    (tmp_path / "conf").mkdir()
    for name, text in (("ragassay.yaml", COMPOSED), ("conf/own.py", PLUGIN), ("conf/ragassay.yaml", PLUGGED)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_composite_is_a_metric_wherever_one_is_named(cli, project):
    code, out, _ = cli("evaluate", "--json", "-o", "report.json")
    report = json.loads(out)
    ranking = report["systems"]["default"]["metrics"]["ranking"]
    assert code == 0
    assert ranking["value"] == pytest.approx((3 + 3 * 0.5 / 4) / 4)  # in the fourth row (3 * 0.5 + 0) / 4
    assert report["systems"]["default"]["metrics"]["accurate"]["value"] == 0.75
    assert report["systems"]["default"]["slices"]["category"]["even"]["metrics"]["ranking"]["value"] == 1.0

    code, out, _ = cli("gate", "--baseline", "report.json")
    assert (code, "ranking is 0.844, >= 0.600" in out) == (0, True), out
    code, out, _ = cli("show", "last", "--sort", "ranking", "--json")
    assert (code, json.loads(out.splitlines()[0])["query_id"]) == (0, "q3")

    (project / "ragassay.yaml").write_text(COMPOSED.replace("mrr: 3", "mrr: 2"))
    cli("evaluate")
    code, out, err = cli("compare", report["run"]["id"], "last")
    assert (code, "not the same ranking" in out + err) == (0, True)


def test_a_configuration_names_its_plugins_and_each_command_knows_the_metric(cli, project):
    def fresh(*arguments):
        METRICS._things.pop("own_words", None)  # as in a process of its own
        code, out, err = cli(*arguments)
        assert code == 0, err
        return out

    report = json.loads(fresh("evaluate", "--config", "conf/ragassay.yaml", "--json"))
    assert report["systems"]["default"]["metrics"]["own_words"]["value"] == 2.5
    assert list(report["provenance"]["plugins"]) == ["own.py"]
    assert "own_words is 2.5" in fresh("gate", "conf/ragassay.yaml")
    assert "lower is better" in fresh("trend", "own_words", "--config", "conf/ragassay.yaml")
    first, own = report["run"]["id"], ("--import", "conf/own.py")
    assert "own_words" in fresh("compare", first, "last", *own, "--metrics", "own_words")
    assert "own_words" in fresh("info", "metrics", *own, "--json")
    assert "own_words" in fresh("data", "show", "d.jsonl", *own)
    fresh("evaluate", "--resume", first, *own)
    METRICS._things.pop("own_words")
    assert "--import" in cli.refused("evaluate", "--resume", first)


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
