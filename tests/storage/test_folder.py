"""Runs as folders: whole or absent, resumable, and one worker at a time."""

import os
import stat

import orjson
import pytest

from offline_runs import FakeRuntime, ScriptedJudge, evaluated, new_run, sample
from ragassay.core.blobs import FolderBlobs
from ragassay.core.errors import BadSettings, Conflict, NotFound, NothingToEvaluate
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Rating
from ragassay.evaluation.prepare import check_unchanged
from ragassay.storage.folder import FolderStore, new_run_id


def prepare(root, count=120):
    return new_run(root, [sample(n) for n in range(1, count + 1)])


def test_failed_rows_of_a_finished_run_are_pending_again_and_the_others_keep_their_results(tmp_path):
    samples = [sample(1), sample(2), sample(3, error="no reply")]
    spec = RunConfig(metrics=("faithfulness", "mrr"))
    failing = ScriptedJudge(q2=Rating(reason="the provider refused the request (400)"))
    run = new_run(tmp_path, samples, spec, judge=failing)
    evaluated(run, failing)
    assert run.failed_rows == 1  # a recorded error stays one

    again = FolderStore(tmp_path).open("last")
    again.evaluate_failed_again()
    assert [one.query_id for chunk in again.pending() for one in again.samples(chunk)] == ["q2"]
    judge = ScriptedJudge()
    rows = evaluated(again, judge).results["default"]
    assert judge.asked == ["q2"]
    assert [(row.scores["faithfulness"].value, row.error) for row in rows] == [
        (1.0, None),
        (1.0, None),
        (1.0, "no reply"),
    ]
    assert (again.pending(), again.failed_rows) == ([], 0)


def test_a_run_whose_judge_changed_can_not_be_resumed(tmp_path):
    run = prepare(tmp_path)
    other = ScriptedJudge()
    other.settings = {"version": 2}
    check_unchanged(FakeRuntime(), run.record)
    with pytest.raises(BadSettings, match="its judge changed since it began"):
        check_unchanged(FakeRuntime(other), run.record)


def test_two_processes_can_not_work_on_one_run(tmp_path):
    run = prepare(tmp_path)
    with run.locked(), pytest.raises(Conflict, match="is being worked on"), FolderStore(tmp_path).open("last").locked():
        pass


def test_a_run_is_found_by_id_beginning_path_and_last(tmp_path):
    store, run = FolderStore(tmp_path), prepare(tmp_path, 2)
    for reference in (run.record.id, run.record.id[:17], str(run.folder), "last"):
        assert store.open(reference).record.id == run.record.id


def test_a_run_that_is_not_there_is_an_error_that_lists_the_known_ones(tmp_path):
    run = prepare(tmp_path, 2)
    with pytest.raises(NotFound, match=run.record.id):
        FolderStore(tmp_path).open("elsewhere")
    with pytest.raises(NotFound, match="known: none"):
        FolderStore(tmp_path / "empty").open("last")


def test_nothing_is_written_down_when_no_row_has_a_response(tmp_path):
    with pytest.raises(NothingToEvaluate, match="name systems"):
        new_run(tmp_path, [sample(1, response=None)])
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_run_are_readable_by_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        run = prepare(tmp_path, 2)
        with run.locked():
            run.save_report(evaluated(run))
    finally:
        os.umask(before)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in run.folder.rglob("*") if path.is_file()}
    assert {"run.json", "samples.jsonl", "default.jsonl", "00000.jsonl", "report.json"} <= files.keys()
    assert {name for name, mode in files.items() if mode != 0o600 and name != "lock"} == set()


def test_run_ids_carry_the_dataset_and_are_safe_as_folder_names():
    assert new_run_id("../My Data!").split("-", 2)[2].rpartition("-")[0] == "my-data"


def test_rows_are_appended_in_place_of_a_line_that_a_kill_has_cut(tmp_path):
    blobs = FolderBlobs(tmp_path)
    blobs.append("labels.jsonl", [{"n": 1}])
    with (tmp_path / "labels.jsonl").open("ab") as file:
        file.write(b'{"n": ')
    blobs.append("labels.jsonl", [{"n": 2}])
    assert [orjson.loads(line) for line in blobs.get("labels.jsonl").splitlines()] == [{"n": 1}, {"n": 2}]
