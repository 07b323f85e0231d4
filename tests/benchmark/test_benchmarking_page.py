"""docs/benchmarking.md: its examples run, and the command line means what the file means."""

import json
import re
import shlex
from pathlib import Path

import pytest

from offline_runs import write_jsonl

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "benchmarking.md").read_text("utf-8")
FIRST, RECORDED = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
[COMMAND] = re.findall(r"```console\n(ragassay evaluate --dataset.*?)```", PAGE, re.DOTALL)


def test_the_first_example_is_the_file_that_it_names():
    example = (ROOT / "examples" / "benchmark.yaml").read_text("utf-8")
    assert example.partition("\n")[2] == FIRST


@pytest.mark.parametrize("form", ["file", "command"])
def test_recorded_responses_of_each_dataset_are_found_by_its_name(form, cli, tmp_path, monkeypatch):
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the test needs no model"))
    (tmp_path / "responses").mkdir()
    for dataset in ("faq", "manual"):
        write_jsonl(
            tmp_path / f"{dataset}.jsonl", [{"query_id": "a", "query": "Where?", "ground_truth_answer": dataset}]
        )
        for system in ("v1", "v2"):
            write_jsonl(tmp_path / f"responses/{system}-{dataset}.jsonl", [{"query_id": "a", "answer": dataset}])
    (tmp_path / "ragassay.yaml").write_text(RECORDED)
    arguments = ("evaluate",) if form == "file" else shlex.split(COMMAND.replace("\\\n", " "))[1:]
    code, out, err = cli(*arguments, "--json", "--metrics", "exact_match")
    assert code == 0, err
    found = json.loads(out)
    assert found["comparison"]["baseline"] == "v1"
    means = [
        s["metrics"]["exact_match"]["value"] for report in found["reports"].values() for s in report["systems"].values()
    ]
    assert means == [1.0] * 4
