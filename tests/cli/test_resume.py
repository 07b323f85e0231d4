"""``--resume``: files of a run are checked as strictly as input is; what was paid before a disk was full is there."""

import asyncio
import contextlib
import json
import os
import pty
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from offline_runs import GOOD, write_jsonl
from polling import until
from provider import Provider, good, status
from ragassay.core.errors import DiskFull
from ragassay.core.eval_config import Budget
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.evaluation import outage
from ragassay.storage.folder import FolderStore
from ragassay.storage.journal import FolderJournal


@pytest.fixture
def data(tmp_path):
    rows = [{**GOOD, "query_id": f"q{n}", "query": f"Which one, {n}?"} for n in range(3)]
    return write_jsonl(tmp_path / "d.jsonl", rows)


@pytest.fixture
def begun(cli, data, tmp_path):
    """The folder of a run that asks nobody, with its only chunk still to do."""
    assert cli("evaluate", data, "--metrics", "mrr", "--name", "r")[0] == 0
    run = FolderStore(tmp_path / "home").open("last")
    (run.folder / "results" / "default" / "00000.jsonl").unlink()
    return run.folder


SOURCE = {"name": "x", "digest": "0", "rows": 3}
BUILT = {"configuration": {"kind": "bm25", "k": -1}, "corpus": "c", "corpus_digest": "0", "passages": 1}
BROKEN = {
    "more rows": ({"dataset": {"rows": 10**12}}, "dataset.rows: is 1000000000000, but samples.jsonl has 3 rows"),
    "system": ({"systems": {"../../pwned": SOURCE}}, "system name '../../pwned' must be letters"),
    "built-in": ({"systems": {"a": {**SOURCE, "built": BUILT}}}, "run.json: k: should be greater than or equal to 1"),
    "unknown metric": ({"metrics": ["mmr"]}, "unknown metric 'mmr'; did you mean mrr"),
    "unknown key": ({"more": 1}, "more"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_record_that_can_not_be_is_one_line_that_names_the_field(case, cli, begun):
    changes, says = BROKEN[case]
    record = json.loads((begun / "run.json").read_text())
    for key, value in changes.items():
        record[key] = {**record[key], **value} if key in ("dataset", "spec") else value
    (begun / "run.json").write_text(json.dumps(record))
    before = sorted(begun.parents[2].rglob("*"))
    err = cli.refused("evaluate", "--resume", "last")
    assert "run.json: " in err
    assert says in err
    assert sorted(begun.parents[2].rglob("*")) == before


@pytest.mark.parametrize("name", ["results/default", "responses", "lock", "calls.jsonl", "samples.jsonl"])
def test_a_run_whose_files_lead_elsewhere_is_refused(name, cli, begun, tmp_path):
    outside = tmp_path / "outside"
    (begun / name).rename(outside)
    (begun / name).symlink_to(outside)
    assert f"{begun / name}: is a symbolic link" in cli.refused("evaluate", "--resume", "last")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("samples.jsonl", {"query_id": "q1"}, "samples.jsonl:1: query: is missing"),
        ("calls.jsonl", {"id": "1", "reply": 5}, "calls.jsonl:1: not a call of this version"),
        ("results/default/00000.jsonl", {"query_id": "q1"}, "00000.jsonl: has 1 rows instead of 3"),
    ],
)
def test_a_damaged_file_of_a_run_is_one_line_that_names_it(name, content, says, cli, begun):
    write_jsonl(begun / name, [content])
    code, _, err = cli("evaluate", "--resume", "last")
    assert (code, says in err.splitlines()[-1]) == (2, True)


@pytest.mark.parametrize("file", ["samples.jsonl", "responses/default.jsonl"])
def test_questions_and_answers_that_changed_meanwhile_are_noticed(file, cli, begun):
    text = (begun / file).read_text()
    (begun / file).write_text(text.replace("Which one, 1?", "Which two?").replace("Paris is", "Lyon is"))
    said = f"error: {begun / file}: changed since the run began; start a new run\n"
    assert cli.refused("evaluate", "--resume", "last") == said


def test_resume_asks_the_address_of_the_run_and_only_the_owner_reads_what_is_kept(cli, data, tmp_path, monkeypatch):
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 0.1)
    monkeypatch.setenv("RAGASSAY_API_KEY", "the-key")
    with Provider(then=status(500)) as provider:
        judge = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "faithfulness,mrr")
        cli("evaluate", data, *judge, "--set", "performance.provider_outage_timeout_s=0.3")
        provider.then = good
        provider.log.clear()
        code, out, err = cli("evaluate", "--resume", "last", "--json", "-o", "r.json")
        assert (code, err, {seen.auth for seen in provider.log}) == (0, "", {"Bearer the-key"})
    assert json.loads(out)["systems"]["default"]["metrics"]["faithfulness"]["n"] == 3
    files = [tmp_path / "r.json", *(path for path in (tmp_path / "home").rglob("*") if path.is_file())]
    assert [path for path in files if path.stat().st_mode & 0o077] == []


def test_a_disk_too_full_for_a_file_names_the_resume_that_writes_it_of_the_finished_run(
    cli, data, tmp_path, monkeypatch
):
    def full(path, *_, **__):
        raise DiskFull("no room", where=str(path), hint="make room")

    with monkeypatch.context() as patch:
        patch.setattr("ragassay.reporting.exporters.write_whole", full)
        code, _, err = cli("evaluate", data, "--metrics", "mrr", "-o", tmp_path / "r.json")
    run = FolderStore(tmp_path / "home").open("last").record.id
    resume = f"ragassay evaluate --resume {run}"
    said = f"error: {tmp_path}/r.json: no room; the results are kept; make room, then: {resume} -o FILE\n"
    assert (code, err) == (74, said)
    code, _, err = cli(*resume.split()[1:], "-o", tmp_path / "r.json")
    assert (code, err) == (0, f"{run} was finished; nothing is left to do\n")
    assert (tmp_path / "r.json").exists()


def test_resume_last_does_not_take_the_run_before_one_that_was_killed_at_its_start(cli, data, tmp_path):
    assert cli("evaluate", data, "--metrics", "mrr")[0] == 0
    judge = ("--metrics", "faithfulness", "--judge", "gpt-4o-mini")
    run = ragassay(tmp_path, "evaluate", data, *judge, OPENAI_API_KEY="k")
    folders = tmp_path / "home" / "runs"
    until(lambda: len(list(folders.iterdir())) == 2)
    run.kill()
    run.communicate()
    (newest,) = [folder for folder in folders.iterdir() if not (folder / "run.json").exists()]
    assert f"run {newest.name} was interrupted before it began" in cli.refused("evaluate", "--resume", "last")
    assert cli("evaluate", data, "--metrics", "mrr")[0] == 0
    assert cli("evaluate", "--resume", "last")[0] == 0


def ragassay(folder, *arguments, largest_file=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **environment):
    """The command in a process of its own, in which no file may grow beyond ``largest_file`` bytes."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    # The file of measured coverage would be too large as well.
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return subprocess.Popen(
        [sys.executable, "-m", "ragassay.cli", *map(str, arguments)],
        cwd=folder,
        env={**untraced, "RAGASSAY_HOME": str(folder / "home"), **environment},
        stdout=stdout,
        stderr=stderr,
        text=True,
        preexec_fn=limit if largest_file else None,
    )


def ended(process):
    """stdout, exit code and stderr of a process."""
    out, err = process.communicate(timeout=240)
    return out, process.returncode, err


def test_a_terminal_shows_the_bar_and_above_it_what_is_waited_for(data, tmp_path):
    terminal, end = pty.openpty()
    with Provider(then=status(500)) as provider:
        options = f"--judge gpt-4o-mini --set api_base={provider.url} --set performance.provider_outage_timeout_s=1"
        command = ("evaluate", data, *options.split(), "--metrics", "faithfulness")
        run = ragassay(tmp_path, *command, stderr=end, TERM="xterm")
        os.close(end)
        shown = ""
        with contextlib.suppress(OSError):  # what the end of a terminal is on Linux
            while part := os.read(terminal, 4096):
                shown += part.decode()
        os.close(terminal)
        run.communicate(timeout=30)
    assert "\x1b[2Kevaluating" in shown  # a bar, redrawn in its place
    assert "\x1b[2Kwaiting: gpt-4o-mini: the provider failed (500): no; since" in shown.replace("\r", "")


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


ROWS = 60


@pytest.fixture
def many(tmp_path):
    rows = [{**GOOD, "query_id": f"q{n}", "query": f"Which is it, {n}?"} for n in range(ROWS)]
    return write_jsonl(tmp_path / "many.jsonl", rows)


def test_a_run_on_a_full_disk_is_resumed_without_repeating_a_settled_call(many, tmp_path):
    with Provider(latency_s=0.02) as provider:
        # calls.jsonl reaches this first; then so does SQLite's file
        judge = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "faithfulness,mrr")
        _, code, said = ended(ragassay(tmp_path, "evaluate", many, *judge, largest_file=50_000))
        journal = FolderStore(tmp_path / "home").open("last").folder / "calls.jsonl"
        kept, paid = sum("reply" in json.loads(row) for row in journal.read_bytes().splitlines()), len(provider.log)
        *_, error = said.splitlines()
        assert (code, "calls.jsonl: no room is left on the disk" in error) == (74, True), said
        assert 10 < kept <= paid <= kept + 8  # those in flight at that moment are the only ones that were lost
        command = error.partition("make room, then: ragassay ")[2]
        out, code, said = ended(ragassay(tmp_path, *shlex.split(command), "--json"))
        assert (code, said, len(provider.log) - paid) == (0, "", ROWS - kept)
    report = json.loads(out)
    assert report["interrupted"]["uncertain_calls"] == paid - kept
    assert report["systems"]["default"]["metrics"]["faithfulness"]["n"] == ROWS
    assert report["systems"]["default"]["evaluation"]["usage"]["calls"] == ROWS


def test_a_disk_that_is_full_at_once_or_behind_stdout_is_one_line_and_leaves_nothing_half_made(many, tmp_path):
    command = ("evaluate", many, "--metrics", "mrr")
    out, code, said = ended(ragassay(tmp_path, *command, largest_file=2_000))
    assert (out, code, said.count("\n")) == ("", 74, 1)
    assert "samples.jsonl: no room is left on the disk" in said
    assert list((tmp_path / "home" / "runs").iterdir()) == []
    with Path("/dev/full").open("w") as file:
        full = ended(ragassay(tmp_path, *command, "--json", stdout=file))
    assert full == (None, 74, "error: stdout: no room is left on the disk (No space left on device); make room\n")


def no_room(*_):
    raise OSError(28, "No space left on device")


def test_no_more_calls_are_made_once_one_could_not_be_written_down(tmp_path):
    most = Usage(calls=1, input_tokens=50)

    def call(n):
        return Call(id=f"c{n}", content=f"c{n}", purpose="judge")

    async def work():
        journal = FolderJournal(tmp_path / "calls.jsonl", run="r", budget=Budget(tokens=110))
        first, second = [await journal.reserve(call(n), most) for n in range(2)]
        waits = asyncio.create_task(journal.reserve(call(2), most))  # for the budget
        await asyncio.sleep(0.01)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ragassay.core.files.os.write", no_room)
            with pytest.raises(DiskFull):
                await journal.settle(first, Reply(text="paid", usage=Usage(calls=1, input_tokens=9)))
        with pytest.raises(DiskFull):  # although there is room again
            await asyncio.wait_for(waits, 30)
        await journal.settle(second, Reply(text="paid", usage=Usage(calls=1, input_tokens=9)))
        journal.close()
        again = FolderJournal(tmp_path / "calls.jsonl", run="r")
        assert (await again.reserve(call(1), most)).text == "paid"
        assert again.unknown.uncertain_calls == 1
        assert again.spent.input_tokens == 50 + 9
        again.close()

    asyncio.run(work())
