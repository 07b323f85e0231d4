"""``--resume``: the files of a run are checked as strictly as input is."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import orjson
import pytest

from offline_runs import GOOD, write_jsonl
from polling import until
from provider import Provider, good, status
from ragassay.evaluation import outage
from ragassay.storage.folder import FolderStore


@pytest.fixture
def data(tmp_path):
    return write_jsonl(
        tmp_path / "d.jsonl", [{**GOOD, "query_id": f"q{n}", "query": f"Which one, {n}?"} for n in range(3)]
    )


@pytest.fixture
def begun(cli, data, tmp_path):
    """The folder of a run that asks nobody, with its only chunk still to do."""
    assert cli("evaluate", data, "--metrics", "mrr", "--name", "r")[0] == 0
    run = FolderStore(tmp_path / "home").open("last")
    (run.folder / "results" / "default" / "00000.jsonl").unlink()
    return run.folder


def change(folder, **changes):
    """Change values of run.json by their places, such as ``spec__judge``."""
    record = orjson.loads((folder / "run.json").read_bytes())
    for place, value in changes.items():
        *around, key = place.split("__")
        inner = record
        for name in around:
            inner = inner[name]
        inner[key] = value
    (folder / "run.json").write_bytes(orjson.dumps(record))


SOURCE = {"name": "x", "digest": "0", "rows": 3}
BUILT = {"configuration": {"kind": "bm25", "k": -1}, "corpus": "c", "corpus_digest": "0", "passages": 1}
BROKEN = {
    "id": ({"id": "../elsewhere"}, "id: "),
    "created_at": ({"created_at": "yesterday"}, "created_at: "),
    "chunk size": ({"chunk_size": 10**9}, "chunk_size: should be at most 10000"),
    "more rows": ({"dataset__rows": 10**12}, "dataset.rows: is 1000000000000, but samples.jsonl has 3 rows"),
    "system": ({"systems": {"../../pwned": SOURCE}}, "system name '../../pwned' must be letters"),
    "built-in system": (
        {"systems": {"a": {**SOURCE, "built": BUILT}}},
        "systems.a.built.configuration.k: should be at least 1",
    ),
    "no metric": ({"metrics": []}, "metrics: is empty"),
    "unknown metric": ({"metrics": ["mmr"]}, "metrics[0]: unknown metric 'mmr'; did you mean mrr"),
    "accuracy rule": ({"spec__accurate": "good"}, "spec.accurate: "),
    "unknown key": ({"more": 1}, "more"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_record_that_can_not_be_is_one_line_that_names_the_field(case, cli, begun):
    changes, says = BROKEN[case]
    change(begun, **changes)
    before = sorted(begun.parents[2].rglob("*"))
    code, out, err = cli("evaluate", "--resume", "last")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "run.json: " in err
    assert says in err
    assert sorted(begun.parents[2].rglob("*")) == before


@pytest.mark.parametrize("name", ["results", "results/default", "responses", "lock", "calls.jsonl", "samples.jsonl"])
def test_a_run_whose_files_lead_elsewhere_is_refused(name, cli, begun, tmp_path):
    outside = tmp_path / "outside"
    (begun / name).rename(outside)
    (begun / name).symlink_to(outside)
    content = outside.read_bytes() if outside.is_file() else None
    code, _, err = cli("evaluate", "--resume", "last")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{begun / name}: is a symbolic link" in err
    assert (outside.read_bytes() if outside.is_file() else None) == content


DAMAGED = {
    "samples.jsonl": ('{"query_id": "q1"}\n', "samples.jsonl:1: query: is missing"),
    "responses/default.jsonl": (
        '{"query_id": "q1", "response": {"cost_usd": -1}}\n',
        "default.jsonl:1: response.cost_usd",
    ),
    "calls.jsonl": ('{"id": "1", "reply": 5}\n', "calls.jsonl:1: not a call of this version"),
    "results/default/00000.jsonl": ('{"query_id": "q1"}\n', "00000.jsonl: has 1 rows instead of 3"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_of_a_run_is_one_line_that_names_it(name, cli, begun):
    content, says = DAMAGED[name]
    (begun / name).write_text(content)
    code, _, err = cli("evaluate", "--resume", "last")
    assert code == 2
    assert says in err.splitlines()[-1]


@pytest.fixture
def waiting(cli, data, tmp_path, monkeypatch):
    """A run with an address of its own that was given up; returns its folder and the provider."""
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 0.1)
    monkeypatch.setenv("RAGASSAY_API_KEY", "the-key")
    with Provider(then=status(500)) as provider:
        asked = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "faithfulness,mrr")
        cli("evaluate", data, *asked, "--set", "performance.provider_outage_timeout_s=0.3")
        provider.then = good
        provider.log.clear()
        yield FolderStore(tmp_path / "home").open("last").folder, provider


def test_resume_sends_requests_to_the_address_of_the_run(waiting, cli):
    _, provider = waiting
    code, out, err = cli("evaluate", "--resume", "last", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["systems"]["default"]["metrics"]["faithfulness"]["n"] == 3
    assert {seen.auth for seen in provider.log} == {"Bearer the-key"}


def test_resume_says_first_that_a_run_is_finished(cli, data):
    assert cli("evaluate", data, "--metrics", "mrr")[0] == 0
    code, _, err = cli("evaluate", "--resume", "last")
    assert (code, " on d was finished at " in err, err.endswith("; nothing is left to do\n")) == (0, True, True)


def test_resume_last_does_not_take_the_run_before_one_that_was_killed_at_its_start(cli, data, tmp_path):
    assert cli("evaluate", data, "--metrics", "mrr")[0] == 0
    run = ragassay(
        tmp_path, "evaluate", data, "--metrics", "faithfulness", "--judge", "gpt-4o-mini", OPENAI_API_KEY="k"
    )
    folders = tmp_path / "home" / "runs"
    until(lambda: len(list(folders.iterdir())) == 2)
    run.kill()
    run.communicate()
    (newest,) = [folder for folder in folders.iterdir() if not (folder / "run.json").exists()]
    code, out, err = cli("evaluate", "--resume", "last")
    assert (code, out, f"run {newest.name} was interrupted before it began" in err) == (2, "", True)
    assert cli("evaluate", data, "--metrics", "mrr")[0] == 0
    assert cli("evaluate", "--resume", "last")[0] == 0


def ragassay(folder, *arguments, stderr=subprocess.PIPE, **environment):
    command = [sys.executable, "-m", "ragassay.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": stderr, "text": True}
    environment = {**os.environ, "RAGASSAY_HOME": str(folder / "home"), **environment}
    return subprocess.Popen(command, env=environment, **pipes)


def test_a_terminal_shows_the_bar_and_above_it_what_is_waited_for(data, tmp_path):
    terminal, end = pty.openpty()
    with Provider(then=status(500)) as provider:
        command = (
            "evaluate",
            data,
            "--judge",
            "gpt-4o-mini",
            "--set",
            f"api_base={provider.url}",
            "--set",
            "performance.provider_outage_timeout_s=1",
        )
        run = ragassay(tmp_path, *command, "--metrics", "faithfulness", stderr=end, TERM="xterm")
        os.close(end)
        shown = b""
        with contextlib.suppress(OSError):  # what the end of a terminal is on Linux
            while part := os.read(terminal, 4096):
                shown += part
        os.close(terminal)
        run.communicate(timeout=30)
    text = shown.decode()
    assert "\x1b[2Kevaluating" in text  # a bar, redrawn in its place
    assert "\\u001b" not in text
    assert "\x1b[2Kwaiting: gpt-4o-mini: the provider failed (500): no; since" in text.replace("\r", "")


def test_only_the_owner_reads_what_was_asked_and_answered(waiting, cli, tmp_path):
    assert cli("evaluate", "--resume", "last", "-o", "r.json")[0] == 0
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"run.json", "samples.jsonl", "calls.jsonl", "report.json", "calls.sqlite"}
    assert [path for path in files if path.stat().st_mode & 0o077] == []
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("options", "traced"), [((), False), (("-v",), True)])
def test_an_unforeseen_error_is_one_line_and_exit_code_70(options, traced, cli, data, monkeypatch, caplog):
    def broken(*_, **__):
        raise TypeError("unsupported operand\nin two write_jsonl, seen in /a/secret/place.py")

    monkeypatch.setattr("ragassay.evaluation.aggregate.aggregate", broken)
    code, out, err = cli(*options, "evaluate", data, "--metrics", "mrr")
    assert (code, out) == (70, "")
    message = "internal error: TypeError: unsupported operand in two write_jsonl, seen in .../place.py"
    assert f"error: {message}; please report it; ragassay -v shows the traceback\n" in err
    assert ("Traceback" in err + caplog.text) == traced
    assert traced or err.count("\n") == 1


@pytest.mark.parametrize("file", ["samples.jsonl", "responses/default.jsonl"])
def test_questions_and_answers_that_changed_meanwhile_are_noticed(file, cli, begun):
    text = (begun / file).read_text()
    (begun / file).write_text(text.replace("Which one, 1?", "Which two?").replace("Paris is", "Lyon is"))
    code, _, err = cli("evaluate", "--resume", "last")
    assert (code, err) == (2, f"error: {begun / file}: changed since the run began; start a new run\n")
