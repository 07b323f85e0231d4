"""A disk that fills up ends a run with one line, and everything that was paid before is there when it goes on."""

import asyncio
import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from offline_runs import GOOD, write_jsonl
from provider import Provider
from ragassay.core.errors import DiskFull
from ragassay.core.eval_config import Budget
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.storage.folder import FolderStore
from ragassay.storage.journal import FolderJournal

ROWS = 60


def ragassay(folder, *arguments, largest_file=None, stdout=subprocess.PIPE):
    """The command in a process of its own, in which no file may grow beyond ``largest_file`` bytes."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    # The file of measured coverage would be too large as well.
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return subprocess.run(
        [sys.executable, "-m", "ragassay.cli", *map(str, arguments)],
        cwd=folder,
        env={**untraced, "RAGASSAY_HOME": str(folder / "home")},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        preexec_fn=limit if largest_file else None,
    )


@pytest.fixture
def data(tmp_path):
    return write_jsonl(
        tmp_path / "d.jsonl", [{**GOOD, "query_id": f"q{n}", "query": f"Which is it, {n}?"} for n in range(ROWS)]
    )


def judged_by(provider, data):
    return (data, "--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "faithfulness,mrr")


def settled(folder):
    """How many calls the run's journal has replies of."""
    run = FolderStore(folder / "home").open("last")
    return sum("reply" in orjson.loads(row) for row in (run.folder / "calls.jsonl").read_bytes().splitlines())


def test_a_run_on_a_full_disk_is_resumed_without_repeating_a_settled_call(data, tmp_path):
    with Provider(latency_s=0.02) as provider:
        # calls.jsonl reaches this first; then so does SQLite's file
        full = ragassay(tmp_path, "evaluate", *judged_by(provider, data), largest_file=50_000)
        kept, paid = settled(tmp_path), len(provider.log)
        assert (full.returncode, full.stdout) == (74, ""), full.stderr
        *notices, error = full.stderr.splitlines()
        assert error.startswith("error: ")
        assert "calls.jsonl: no room is left on the disk" in error
        assert all(line.startswith("warning: calls are neither taken from the cache") for line in notices), notices
        assert 10 < kept <= paid <= kept + 8  # those in flight at that moment are the only ones that were lost

        command = error.partition("make room, then: ragassay ")[2]
        resumed = ragassay(tmp_path, *shlex.split(command), "--json")
        assert (resumed.returncode, resumed.stderr) == (0, "")
        assert len(provider.log) - paid == ROWS - kept
        report = json.loads(resumed.stdout)
        assert report["interrupted"]["uncertain_calls"] == paid - kept
    assert report["systems"]["default"]["metrics"]["faithfulness"]["n"] == ROWS
    assert report["systems"]["default"]["evaluation"]["usage"]["calls"] == ROWS


def test_a_disk_that_is_full_at_once_leaves_nothing_half_made(data, tmp_path):
    full = ragassay(tmp_path, "evaluate", data, "--metrics", "mrr", largest_file=2_000)
    assert full.returncode == 74
    assert full.stderr.count("\n") == 1
    assert "samples.jsonl: no room is left on the disk" in full.stderr
    assert list((tmp_path / "home" / "runs").iterdir()) == []


def test_a_full_disk_behind_stdout_is_one_line(data, tmp_path):
    with Path("/dev/full").open("w") as full:
        done = ragassay(tmp_path, "evaluate", data, "--metrics", "mrr", "--json", stdout=full)
    assert done.returncode == 74
    assert done.stderr == "error: stdout: no room is left on the disk (No space left on device); make room\n"


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
            await asyncio.wait_for(waits, 5)
        await journal.settle(second, Reply(text="paid", usage=Usage(calls=1, input_tokens=9)))
        journal.close()
        again = FolderJournal(tmp_path / "calls.jsonl", run="r")
        assert (await again.reserve(call(1), most)).text == "paid"
        assert again.unknown.uncertain_calls == 1
        assert again.spent.input_tokens == 50 + 9
        again.close()

    asyncio.run(work())
