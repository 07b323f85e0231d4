"""A metric made of others is a metric wherever one is named: report, rule, gates, compare, trend, show, Python, a job."""

import json

import pytest

from offline_runs import GOOD, write_jsonl

YAML = """
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


@pytest.fixture
def project(tmp_path):
    """Four rows: in three the one relevant document is first, in one it is second."""
    rows = [
        GOOD | {"query_id": f"q{n}", "query": f"Well, {n}?", "category": "even" if n % 2 == 0 else "odd"}
        for n in range(4)
    ]
    rows[3]["retrieved_doc_ids"] = ["d2", "d1"]
    write_jsonl(tmp_path / "d.jsonl", rows)
    (tmp_path / "ragassay.yaml").write_text(YAML)
    return tmp_path


def test_a_composite_is_a_metric_wherever_one_is_named(cli, project):
    code, out, _ = cli("evaluate", "--json", "-o", "report.json", "-o", "rows.csv")
    report = json.loads(out)
    ranking = report["systems"]["default"]["metrics"]["ranking"]
    assert code == 0
    assert ranking["value"] == pytest.approx((3 + 3 * 0.5 / 4) / 4)  # in the fourth row (3 * 0.5 + 0) / 4
    assert ranking["interval"]["low"] < ranking["value"] < ranking["interval"]["high"]
    assert ranking["bounds"] == {"worst": ranking["value"], "best": ranking["value"]}
    assert report["systems"]["default"]["metrics"]["accurate"]["value"] == 0.75
    assert report["systems"]["default"]["slices"]["category"]["even"]["metrics"]["ranking"]["value"] == 1.0
    assert report["provenance"]["configuration"]["composites"]["balance"] == {"mrr": 1.0, "recall@1": 1.0}
    assert "ranking" in (project / "rows.csv").read_text().splitlines()[0]

    code, out, _ = cli("gate", "--baseline", "report.json")
    assert code == 0, out
    assert "ranking is 0.844, >= 0.600" in out
    assert "ranking is better than" not in cli("compare", "report.json", "last", "--metrics", "ranking,balance")[1]
    assert cli("trend", "balance")[0] == 0
    code, out, _ = cli("show", "last", "--sort", "ranking", "--json")
    assert (code, json.loads(out.splitlines()[0])["query_id"]) == (0, "q3")


def test_compare_says_that_a_composite_meant_something_else(cli, project):
    text = (project / "ragassay.yaml").read_text()
    for name, weight in (("a", 3), ("b", 2)):
        (project / "ragassay.yaml").write_text(text.replace("mrr: 3", f"mrr: {weight}"))
        cli("evaluate", "--name", name)
    runs = json.loads(cli("runs", "--json")[1])
    code, out, err = cli("compare", runs[1]["id"], runs[0]["id"])
    assert code == 0
    assert "not the same ranking" in out + err
