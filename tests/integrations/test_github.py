"""The action's steps, run as a runner runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from offline_runs import write_jsonl

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"


def test_the_action_fits_githubs_schema_keeps_the_verdicts_and_posts_the_markdown_of_the_gates():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", str(ACTION)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kept, *steps = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    assert kept["with"]["path"].endswith("/.ragassay/cache")
    (comment,) = [step for step in steps if step["name"] == "Comment on the pull request"]
    assert comment["with"]["path"] == "${{ steps.gate.outputs.markdown }}"
    assert comment["continue-on-error"] is True


class Runner:
    """Runs the shell steps of the action in a workspace, as GitHub's runner does; ``uses`` steps are passed over."""

    def __init__(self, folder):
        self.folder, self.action = folder, yaml.safe_load(ACTION.read_text())
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "RUNNER_TEMP": str(folder),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_OUTPUT": str(folder / "output"),
        }

    def run(self, **given):
        """The exit code of the action, its outputs, and what its steps printed."""
        self.values = {f"inputs.{name}": str(one.get("default", "")) for name, one in self.action["inputs"].items()}
        self.values |= {f"inputs.{name.replace('_', '-')}": value for name, value in given.items()}
        code, said = 0, ""
        for step in self.action["runs"]["steps"]:
            if "run" in step and (code == 0 and self._is_wanted(step.get("if"))):
                done = self._step(step)
                said += done.stdout + done.stderr
                code = 0 if step.get("continue-on-error") else done.returncode
        return code, {name: self._filled(one["value"]) for name, one in self.action["outputs"].items()}, said

    def _step(self, step):
        (self.folder / "output").write_text("")
        environment = {**self.environment, **{key: self._filled(text) for key, text in step.get("env", {}).items()}}
        where = self.folder / self._filled(step.get("working-directory", "."))
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        assert "${{" not in step["run"]  # what others wrote must come by variables, else it is shell
        done = subprocess.run(command, env=environment, cwd=where, capture_output=True, text=True, timeout=200)
        outputs = [line.partition("=") for line in (self.folder / "output").read_text().splitlines()]
        self.values |= {f"steps.{step.get('id')}.outputs.{name}": value for name, _, value in outputs}
        return done

    def _is_wanted(self, condition):
        if condition is None:
            return True
        name, sign, value = condition.split()
        return (self.values[name] == value.strip("'")) is (sign == "==")

    def _filled(self, text):
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: self.values.get(match[1], ""), text)


def test_action_gate_writes_summary_and_outputs_and_fails_until_the_gate_is_met(tmp_path):
    runner = Runner(tmp_path)
    (tmp_path / "rag").mkdir()
    (tmp_path / "rag" / "ragassay.yaml").write_text("data: rows.jsonl\nmetrics: [mrr]\ngates: [{mrr: '>= 0.9'}]\n")
    row = {"query_id": "q", "query": "When?", "relevant_doc_ids": ["d1"]}
    given = {"package": "none", "working_directory": "rag"}

    code, outputs, said = runner.run(**given)
    assert (code, outputs["passed"], outputs["markdown"]) == (2, "false", ""), said  # there are no rows

    write_jsonl(tmp_path / "rag" / "rows.jsonl", [{**row, "retrieved_doc_ids": ["d2", "d1"]}])
    code, outputs, said = runner.run(**given)
    assert (code, outputs["passed"]) == (1, "false"), said
    assert re.search(r"default: mrr >= 0.900 +MISSED", said)
    assert Path(outputs["junit"]).read_text().count("<failure") == 1
    assert "1 of 1 gates missed" in Path(outputs["markdown"]).read_text()

    write_jsonl(tmp_path / "rag" / "rows.jsonl", [{**row, "retrieved_doc_ids": ["d1"]}])
    code, outputs, said = runner.run(**given)
    assert (code, outputs["passed"]) == (0, "true"), said
    assert (tmp_path / "summary.md").read_text().count("<!-- ragassay gates -->") == 2
