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
    runner, rag = Runner(tmp_path), tmp_path / "rag"
    rag.mkdir()
    (rag / "ragassay.yaml").write_text("data: rows.jsonl\nmetrics: [mrr]\ngates: [{mrr: '>= 0.9'}]\n")
    for found, ends in ((None, 2), (["d2", "d1"], 1), (["d1"], 0)):
        if found:
            row = {"query_id": "q", "query": "When?", "relevant_doc_ids": ["d1"], "retrieved_doc_ids": found}
            write_jsonl(rag / "rows.jsonl", [row])
        code, outputs, said = runner.run(package="none", working_directory="rag")
        assert (code, outputs["passed"]) == (ends, "false" if ends else "true"), said
        if ends == 1:
            assert re.search(r"default: mrr >= 0.900 +MISSED", said)
            assert Path(outputs["junit"]).read_text().count("<failure") == 1
            assert "1 of 1 gates missed" in Path(outputs["markdown"]).read_text()
    assert (tmp_path / "summary.md").read_text().count("<!-- ragassay gates -->") == 2
