"""``ragassay data``: from files or a benchmark of ir_datasets through versions and parts to an evaluation."""

import json
import os
import subprocess
import sys
import zipfile

import pytest

from offline_runs import write_jsonl

SPLIT = ("data", "split", "answers", "--train", ".5", "--validation", "0", "--test", ".5", "--seed", 3)


@pytest.fixture
def answers(tmp_path):
    rows = [
        {"query_id": f"Q{n}", "query": f"{chr(65 + n) * 9}?", "answer": str(n), "ground_truth": str(n)}
        | {"category": "abc"[n % 3]}
        for n in range(30)
    ]
    return write_jsonl(tmp_path / "answers.jsonl", rows)


@pytest.fixture
def told(cli):
    """What a command prints as JSON."""

    def run(*arguments):
        code, out, err = cli(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


def test_a_configuration_names_a_stored_dataset(told, answers, tmp_path):
    told("data", "import", answers, "--name", "ours")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "ragassay.yaml").write_text("data: ours\nmetrics: [token_f1]\n")
    report = told("evaluate", "--config", tmp_path / "conf" / "ragassay.yaml")
    assert report["provenance"]["dataset"]["name"] == "ours"


def test_versions_show_where_they_come_from(cli, told, answers, tmp_path):
    [first] = told("data", "import", answers, "--description", "squares")
    (tmp_path / "more.csv").write_text("id,question\nX1,What else?\n")
    [second] = told("data", "import", answers, tmp_path / "more.csv")
    code, out, _ = cli("data", "show", "answers", "--rows", "1")
    assert (code, out.startswith(f"version: answers@{second['digest']}\n"), out.count('"query_id"')) == (0, True, 1)
    for part in (f"also: answers@{first['digest'][:12]}: 30 rows", "squares", f"parent: answers@{first['digest']}"):
        assert part in out


def test_parts_of_a_dataset_are_datasets(told, answers):
    told("data", "import", answers)
    report, again = told(*SPLIT), told(*SPLIT)
    assert [(v["name"], v["rows"]) for v in report["versions"]] == [("answers-train", 15), ("answers-test", 15)]
    assert report["parts"][1]["labels"] == {"a": 5, "b": 5, "c": 5}
    lineage = report["versions"][1]["lineage"]
    assert lineage["options"] == {"part": "test", "share": 0.5, "seed": 3, "by": "category"}
    assert [v["digest"] for v in again["versions"]] == [v["digest"] for v in report["versions"]]
    difference = told("data", "diff", "answers-test", "answers")
    assert len(difference["added"]) == 15
    assert {row["fields"][0] for row in difference["changed"]} == {"split"}


def test_a_file_whose_name_no_dataset_can_have_is_told_of_the_option(cli, answers):
    said = cli.refused("data", "import", answers.rename(answers.with_name("my answers.jsonl")))
    assert said.endswith("100 at the most, not 'my answers'; --name gives it another one\n")


BEIR = {
    "corpus.jsonl": [
        {"_id": "d1", "title": "Cells", "text": "Cells divide.", "metadata": {}},
        {"_id": "d2", "title": "Mice", "text": "Mice sleep by day.", "metadata": {}},
    ],
    "queries.jsonl": [
        {"_id": "1", "text": "Do cells divide?", "metadata": {}},
        {"_id": "2", "text": "When do mice sleep?", "metadata": {}},
        {"_id": "3", "text": "Who asked this?", "metadata": {}},
    ],
    "qrels/test.tsv": ["query-id\tcorpus-id\tscore", "1\td1\t1", "2\td2\t2", "2\td1\t0"],
    "qrels/train.tsv": ["query-id\tcorpus-id\tscore", "3\td1\t1"],
}


def test_a_benchmark_of_ir_datasets_is_imported_with_its_judgments_and_passages(tmp_path):
    """The real library reads an archive where it would have downloaded it to; it reads its settings at its import."""
    archive = tmp_path / "ir" / "beir" / "scifact" / "source.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for name, lines in BEIR.items():
            rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
            file.writestr(f"scifact/{name}", "\n".join([*rows, ""]))

    def run(*arguments):
        environment = {**os.environ, "IR_DATASETS_HOME": str(tmp_path / "ir"), "RAGASSAY_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "ragassay.cli", "data", "import", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    done = run("ir:beir/scifact/test", "--passages", "corpus.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    (version,) = json.loads(done.stdout)
    assert (version["name"], version["rows"], version["judged_only"]) == ("beir-scifact-test", 2, True)
    (file,) = tmp_path.glob(f"home/datasets/beir-scifact-test@{version['digest']}/*.jsonl")
    rows = file.read_text().splitlines()
    scores = {"d1": 0.0, "d2": 2.0}
    assert json.loads(rows[1]) == {"query_id": "2", "query": "When do mice sleep?", "relevance_scores": scores}
    passages = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text().splitlines()]
    assert passages[0] == {"id": "d1", "text": "Cells divide.", "title": "Cells"}
    refused = run("ir:beir/scifact")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "has no judgments; ir:beir/scifact/test or ir:beir/scifact/train" in refused.stderr
