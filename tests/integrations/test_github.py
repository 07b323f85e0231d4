"""The action's steps, run as a runner runs them, against a server that answers as GitHub's API does."""

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from loopback import LoopbackServer, Quiet
from offline_runs import write_jsonl
from ragassay.cli import github
from ragassay.errors import BadSettings, Unavailable
from ragassay.settings import GitHub

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
MARKED = "<!-- ragassay gates -->\n## ragassay: all 1 gates passed\n"


class Api(LoopbackServer):
    """Comments of pull request 7 of ``us/faq``, a hundred a page; ``status`` is what every request gets instead of them."""

    def __init__(self):
        self.comments, self.token, self.status, self.methods = {}, "t-1", 200, []
        super().__init__(_Answers)

    def write(self, body):
        number = len(self.comments) + 1
        self.comments[number] = body
        return number


class _Answers(Quiet, BaseHTTPRequestHandler):
    def do_GET(self):
        address = urlsplit(self.path)
        asked = parse_qs(address.query)
        page, size = int(asked.get("page", ["1"])[0]), int(asked["per_page"][0])
        listed = [{"id": number, "body": body} for number, body in self.server.comments.items()]
        more = len(listed) > page * size
        link = f'<{self.server.url}{address.path}?per_page={size}&page={page + 1}>; rel="next"'
        self._answer(
            "/repos/us/faq/issues/7/comments", listed[(page - 1) * size :][:size], {"Link": link} if more else {}
        )

    def do_POST(self):
        self._answer("/repos/us/faq/issues/7/comments", lambda body: {"html_url": f"#{self.server.write(body)}"})

    def do_PATCH(self):
        number = int(self.path.rpartition("/")[2])

        def replace(body):
            self.server.comments[number] = body
            return {"html_url": f"#{number}"}

        self._answer(f"/repos/us/faq/issues/comments/{number}", replace)

    def _answer(self, path, found, headers=None):
        server = self.server
        server.methods.append(self.command)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = server.status
        if self.headers["Authorization"] != f"Bearer {server.token}" or urlsplit(self.path).path != path:
            status = 404
        if status == 200 and callable(found):
            found = found(json.loads(body)["body"])
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(found if status == 200 else {"message": "no"}).encode())


@pytest.fixture
def api():
    with Api() as running:
        yield running


@pytest.fixture
def of_workflow(api):
    return GitHub(token="t-1", repository="us/faq", api_url=api.url)


def test_a_comment_is_written_once_and_replaced_by_its_marker(api, of_workflow):
    for n in range(130):
        api.write(f"comment {n}")
    assert github.comment(MARKED, 7, of_workflow) == "#131"
    assert github.comment(MARKED.replace("all 1 gates passed", "1 of 1 gates missed"), 7, of_workflow) == "#131"
    assert api.comments[131].startswith("<!-- ragassay gates -->\n## ragassay: 1 of 1 gates missed")
    assert github.comment(MARKED, 7, of_workflow, key="nightly") == "#132"
    assert api.comments[132].startswith("<!-- ragassay gates: nightly -->\n## ragassay")
    assert github.comment(MARKED, 7, of_workflow) == "#131"
    assert len(api.comments) == 132
    assert api.methods.count("GET") == 8  # two pages each time


def test_a_marker_at_the_end_counts_and_a_long_text_is_cut(api, of_workflow):
    github.comment("# Evaluation\n" + "x" * 70_000 + "\n<!-- ragassay report -->\n", 7, of_workflow)
    assert api.comments[1].startswith("<!-- ragassay report -->\n# Evaluation\nxxx")
    assert (len(api.comments[1]), api.comments[1][-30:]) == (65_536, "omment holds 65,536 characters.\n"[-30:])


def test_what_keeps_a_comment_from_being_written_is_said(api, of_workflow, tmp_path):
    with pytest.raises(BadSettings, match="no hidden marker"):
        github.comment("# Mine", 7, of_workflow)
    with pytest.raises(BadSettings, match="GITHUB_TOKEN: is not set"):
        github.comment(MARKED, 7, GitHub(repository="us/faq"))
    api.status = 403
    with pytest.raises(BadSettings, match="GitHub answers 403 to GET /repos/us/faq/issues/7/comments; the token needs"):
        github.comment(MARKED, 7, of_workflow)
    api.status = 502
    with pytest.raises(Unavailable, match="GitHub answers 502"):
        github.comment(MARKED, 7, of_workflow)
    event = tmp_path / "event.json"
    for known, number in [
        ({"pull_request": {"number": 7}}, 7),
        ({"issue": {"number": 7}}, None),
        ({"ref": "main"}, None),
    ]:
        event.write_text(json.dumps(known))
        assert github.pull_request(GitHub(event_path=event)) == number
    event.write_text(json.dumps({"issue": {"number": 8, "pull_request": {}}}))  # a comment on a pull request
    assert github.pull_request(GitHub(event_path=event)) == 8
    event.write_text("no JSON")
    with pytest.raises(BadSettings, match=r"event\.json: can't be read"):
        github.pull_request(GitHub(event_path=event))


# --- the action -------------------------------------------------------------------------------------------------------


def test_the_action_fits_githubs_schema_and_keeps_the_folder_of_verdicts():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", str(ACTION)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kept, *_ = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    assert kept["with"]["path"].endswith("/.ragassay/cache")


class Runner:
    """Runs the shell steps of the action in a workspace, as GitHub's runner does; ``uses`` steps are passed over."""

    def __init__(self, folder, api):
        self.folder, self.action = folder, yaml.safe_load(ACTION.read_text())
        (folder / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "RUNNER_TEMP": str(folder),
            "GITHUB_REPOSITORY": "us/faq",
            "GITHUB_API_URL": api.url,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
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
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: self.values[match[1]], text)


def test_the_action_comments_once_and_fails_until_the_gate_is_met(api, tmp_path):
    runner = Runner(tmp_path, api)
    (tmp_path / "rag").mkdir()
    (tmp_path / "rag" / "ragassay.yaml").write_text("data: rows.jsonl\nmetrics: [mrr]\ngates: [{mrr: '>= 0.9'}]\n")
    row = {"query_id": "q", "query": "When?", "relevant_doc_ids": ["d1"]}
    given = {"package": "", "token": "t-1", "working_directory": "rag"}

    before = api.write("<!-- ragassay gates -->\n## ragassay: all 1 gates passed")
    write_jsonl(tmp_path / "rag" / "rows.jsonl", [{**row, "retrieved_doc_ids": ["d2", "d1"]}])
    code, outputs, said = runner.run(**given)
    assert (code, outputs["passed"]) == (1, "false"), said
    assert "MISSED  default: mrr >= 0.900" in said
    assert Path(outputs["junit"]).read_text().count("<failure") == 1
    assert list(api.comments) == [before]
    assert "1 of 1 gates missed" in api.comments[before]

    write_jsonl(tmp_path / "rag" / "rows.jsonl", [{**row, "retrieved_doc_ids": ["d1"]}])
    api.status = 403  # the token of a fork's pull request: the gate decides all the same
    code, outputs, said = runner.run(**given)
    assert (code, outputs["passed"]) == (0, "true"), said
    assert "error: GitHub answers 403" in said
    assert (tmp_path / "summary.md").read_text().count("<!-- ragassay gates -->") == 2


def test_an_action_that_can_evaluate_nothing_fails_with_the_code_of_the_command(api, tmp_path):
    code, outputs, said = Runner(tmp_path, api).run(package="", token="t-1", comment="false")
    assert (code, outputs["passed"], api.methods) == (2, "false", [])
    assert "error: ragassay.yaml: there is no such file" in said
