"""The quality gates of ragassay itself, and the workflow that runs them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
GATES = ROOT / "examples" / "quality" / "ragassay.yaml"
WORKFLOW = ROOT / ".github" / "workflows" / "quality.yml"


@pytest.mark.timeout(900)
def test_the_hybrid_retriever_clears_the_gates_on_the_handbook(cli, tmp_path):
    code, out, err = cli("gate", GATES, "--json", "-o", "gates.xml")
    assert code == 0, err
    results = {result["metric"]: result for result in json.loads(out)["results"]}
    assert {name: result["passed"] for name, result in results.items()} == dict.fromkeys(
        ("mrr", "precision@5", "recall@10"), True
    )
    assert (tmp_path / "gates.xml").exists()


def test_the_gates_are_those_that_were_promised_and_the_system_is_the_example():
    quality = yaml.safe_load(GATES.read_text())
    assert quality["gates"] == [{"mrr": ">= 0.70"}, {"precision@5": ">= 0.70"}, {"recall@10": ">= 0.75"}]
    example = yaml.safe_load((ROOT / "examples" / "retrieval" / "hybrid.yaml").read_text())
    assert quality["systems"] == {"hybrid": example["retrieval"]}


def test_a_gate_that_is_missed_fails_the_build(cli, tmp_path):
    quality = yaml.safe_load(GATES.read_text())
    quality |= {key: str((GATES.parent / quality[key]).resolve()) for key in ("data", "corpus")}
    quality["systems"] = {"hybrid": {"kind": "bm25"}}  # BM25 alone has a recall@10 of 0.57
    (tmp_path / "ragassay.yaml").write_text(yaml.safe_dump(quality))
    code, out, _ = cli("gate", "ragassay.yaml")
    assert code == 1
    assert re.search(r"hybrid: recall@10 >= 0.750 +MISSED", out)


def test_the_workflow_fits_githubs_schema():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_watches_and_runs_what_is_there():
    workflow = yaml.safe_load(WORKFLOW.read_text())
    events = workflow[True]  # PyYAML reads the key 'on' as true
    assert events["push"]["paths"] == events["pull_request"]["paths"]
    for pattern in events["push"]["paths"]:
        assert (ROOT / pattern.removesuffix("/**")).exists(), pattern
    steps = workflow["jobs"]["gates"]["steps"]
    (command,) = [step["run"] for step in steps if "ragassay gate" in step.get("run", "")]
    assert re.search(r"ragassay gate examples/quality/ragassay\.yaml ", command)
    assert any(step.get("uses", "").startswith("actions/upload-artifact") for step in steps)


def test_every_install_is_one_command_without_torch():
    for file in (".github/workflows/quality.yml", "action.yml", "docs/nightly.md", "Dockerfile", "Makefile"):
        assert not re.search(r"--no-deps|\blocal\]|gt-all", (ROOT / file).read_text()), file


def test_pull_requests_run_lint_and_tests():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    assert "pull_request" in workflow[True]  # YAML 1.1 reads the key "on" as true
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.13"]
    assert job["steps"][-1]["run"] == "make test"
