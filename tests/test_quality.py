"""The quality gates of ragassay itself, the workflow that runs them, and the handbook corpus that they are measured on."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from ragassay.datasets.load import load

ROOT = Path(__file__).resolve().parents[1]
GATES = ROOT / "examples" / "quality" / "ragassay.yaml"
WORKFLOWS = ROOT / ".github" / "workflows"


@pytest.mark.timeout(900)
def test_the_hybrid_retriever_clears_the_gates_on_the_handbook(cli, tmp_path):
    quality = yaml.safe_load(GATES.read_text())
    assert quality["gates"] == [{"mrr": ">= 0.70"}, {"precision@5": ">= 0.70"}, {"recall@10": ">= 0.75"}]
    example = yaml.safe_load((ROOT / "examples" / "retrieval" / "hybrid.yaml").read_text())
    assert quality["systems"] == {"hybrid": example["retrieval"]}
    code, out, err = cli("gate", GATES, "--json", "-o", "gates.xml")
    assert code == 0, err
    results = {result["metric"]: result["passed"] for result in json.loads(out)["results"]}
    assert results == {"mrr": True, "precision@5": True, "recall@10": True}
    assert (tmp_path / "gates.xml").exists()


def test_the_workflow_fits_githubs_schema_and_watches_and_runs_what_is_there():
    file = WORKFLOWS / "quality.yml"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(file)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    workflow = yaml.safe_load(file.read_text())
    events = workflow[True]  # PyYAML reads the key 'on' as true
    assert events["push"]["paths"] == events["pull_request"]["paths"]
    for pattern in events["push"]["paths"]:
        assert (ROOT / pattern.removesuffix("/**")).exists(), pattern
    (command,) = [s["run"] for s in workflow["jobs"]["gates"]["steps"] if "ragassay gate" in s.get("run", "")]
    assert re.search(r"ragassay gate examples/quality/ragassay\.yaml ", command)


HOME = ROOT / "datasets" / "handbook"
CORPUS = {row["id"]: row for row in map(json.loads, (HOME / "corpus.jsonl").read_text(encoding="utf-8").splitlines())}
SAMPLES = load(HOME / "queries.json").samples


def numbers(text):
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def test_there_are_the_documents_and_chunks_that_were_promised():
    pages = {page.name for page in (HOME / "documents").glob("*.md")}
    assert len(pages) >= 20
    assert len(CORPUS) >= 150
    needed = ("auth-guide", "api-reference", "deployment-guide", "database-schema", "performance-tuning")
    assert {f"{name}.md" for name in needed} <= pages
    assert {row["document"] for row in CORPUS.values()} == pages


def test_there_are_fifty_queries_in_the_promised_proportions():
    assert [s.query_id for s in SAMPLES] == [f"Q{n:03d}" for n in range(1, 51)]
    categories = {"factual": 15, "conceptual": 12, "procedural": 10, "comparative": 8, "troubleshooting": 5}
    assert Counter(s.category for s in SAMPLES) == categories
    assert Counter(s.difficulty for s in SAMPLES) == {"easy": 20, "medium": 20, "hard": 10}


def test_every_judged_chunk_exists_and_has_a_grade_from_zero_to_three():
    for sample in SAMPLES:
        assert sample.relevance_scores.keys() <= CORPUS.keys(), sample.query_id
        assert set(sample.relevance_scores.values()) <= {0, 1, 2, 3}
        assert 0 in sample.relevance_scores.values(), "no near miss is recorded"


def test_numbers_of_answers_and_key_facts_stand_in_chunks_that_are_judged_to_state_them():
    for sample in SAMPLES:
        stating = [CORPUS[id_]["text"] for id_, grade in sample.relevance_scores.items() if grade >= 2]
        told = set().union(*map(numbers, stating))
        for claim in (*sample.ground_truth_answer, *sample.key_facts):
            assert numbers(claim) <= told, (sample.query_id, claim, numbers(claim) - told)
