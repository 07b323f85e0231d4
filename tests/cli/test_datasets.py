"""``ragassay data``: a dataset's way from files through versions and parts to an evaluation."""

import json

import pytest

from ragassay.core.package_data import folder

HANDBOOK = folder("datasets") / "handbook" / "queries.json"


@pytest.fixture
def answers(tmp_path):
    rows = [
        {
            "query_id": f"Q{n}",
            "query": f"{chr(65 + n) * 9}?",
            "answer": str(n),
            "ground_truth": str(n),
            "category": "abc"[n % 3],
        }
        for n in range(30)
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def imported(cli, *arguments):
    code, out, err = cli("data", "import", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)[0]


def test_a_configuration_names_a_stored_dataset(cli, answers, tmp_path):
    imported(cli, answers, "--name", "ours")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "ragassay.yaml").write_text("data: ours\nmetrics: [token_f1]\n")
    code, out, err = cli("evaluate", "--config", tmp_path / "conf" / "ragassay.yaml", "--json")
    assert code == 0, err
    assert json.loads(out)["provenance"]["dataset"]["name"] == "ours"


def test_versions_show_where_they_come_from(cli, answers, tmp_path):
    first = imported(cli, answers, "--description", "squares")
    more = tmp_path / "more.csv"
    more.write_text("id,question\nX1,What else?\n")
    second = imported(cli, answers, more)
    code, out, _ = cli("data", "show", "answers")
    assert code == 0
    assert out.startswith(f"version: answers@{second['digest']}\n")
    assert f"also: answers@{first['digest'][:12]}: 30 rows, import of " in out
    shown = cli("data", "show", "answers", "--rows", "1")[1]
    assert "description: squares" in shown
    assert f"parent: answers@{first['digest']}" in shown
    assert shown.count('"query_id"') == 1
    assert len(cli("data", "list")[1].splitlines()) == 1


def test_parts_of_a_dataset_are_datasets(cli, answers):
    imported(cli, answers)
    code, out, err = cli(
        "data", "split", "answers", "--train", ".5", "--validation", "0", "--test", ".5", "--seed", 3, "--json"
    )
    assert code == 0, err
    report = json.loads(out)
    assert [(v["name"], v["rows"]) for v in report["versions"]] == [("answers-train", 15), ("answers-test", 15)]
    assert report["parts"][1]["labels"] == {"a": 5, "b": 5, "c": 5}
    lineage = report["versions"][1]["lineage"]
    assert lineage["options"] == {"part": "test", "share": 0.5, "seed": 3, "by": "category"}
    again = json.loads(
        cli("data", "split", "answers", "--train", ".5", "--validation", "0", "--test", ".5", "--seed", 3, "--json")[1]
    )
    assert [v["digest"] for v in again["versions"]] == [v["digest"] for v in report["versions"]]
    difference = json.loads(cli("data", "diff", "answers-test", "answers", "--json")[1])
    assert len(difference["added"]) == 15
    assert {row["fields"][0] for row in difference["changed"]} == {"split"}
