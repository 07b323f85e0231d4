"""Benchmarks of ir_datasets: the real library reads a BEIR archive that lies where it would have downloaded it to."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

FILES = {
    "corpus.jsonl": [
        {"_id": "d1", "title": "Cells", "text": "Cells divide.", "metadata": {}},
        {"_id": "d2", "title": "Mice", "text": "Mice sleep by day.", "metadata": {}},
    ],
    "queries.jsonl": [
        {"_id": "1", "text": "Do cells divide?", "metadata": {}},
        {"_id": "2", "text": "When do mice sleep?", "metadata": {}},
        {"_id": "3", "text": "Who asked this?", "metadata": {}},
    ],
}
JUDGMENTS = {"test": [("1", "d1", 1), ("2", "d2", 2), ("2", "d1", 0)], "train": [("3", "d1", 1)]}


@pytest.fixture
def run(tmp_path: Path):
    """Runs the command in a process of its own, since the library reads its settings when it is imported."""
    archive = tmp_path / "ir" / "beir" / "scifact" / "source.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for name, rows in FILES.items():
            file.writestr(f"scifact/{name}", "".join(json.dumps(row) + "\n" for row in rows))
        for split, rows in JUDGMENTS.items():
            lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]
            file.writestr(f"scifact/qrels/{split}.tsv", "\n".join(lines) + "\n")

    def command(
        *arguments: object, python: tuple[str, ...] = ("-m", "ragassay.cli")
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "IR_DATASETS_HOME": str(tmp_path / "ir"), "RAGASSAY_HOME": str(tmp_path / "home")}
        words = [sys.executable, *python, "data", *map(str, arguments)]
        return subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return command


def test_a_benchmark_is_imported_with_its_judgments_and_passages(run, tmp_path):
    done = run("import", "ir:beir/scifact/test", "--passages", "corpus.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    (version,) = json.loads(done.stdout)
    assert (version["name"], version["rows"], version["judged_only"]) == ("beir-scifact-test", 2, True)
    rows = (tmp_path / "home" / "datasets" / "rows" / f"{version['digest']}.jsonl").read_text().splitlines()
    assert json.loads(rows[1]) == {
        "query_id": "2",
        "query": "When do mice sleep?",
        "relevance_scores": {"d1": 0.0, "d2": 2.0},
    }
    passages = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text().splitlines()]
    assert passages[0] == {"id": "d1", "text": "Cells divide.", "title": "Cells"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "ir:beir/scifakt/test",
            "unknown dataset of ir_datasets 'ir:beir/scifakt/test'; did you mean ir:beir/scifact/test",
        ),
        ("ir:beir/scifact", "has no judgments; ir:beir/scifact/test or ir:beir/scifact/train"),
    ],
)
def test_a_name_that_can_not_be_imported_gets_a_suggestion(run, name, message):
    done = run("import", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
