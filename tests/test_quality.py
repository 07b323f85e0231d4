"""The quality gates of ragassay itself, and the workflows that run them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
