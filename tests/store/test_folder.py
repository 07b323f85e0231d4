"""Runs as folders: whole or absent, resumable, and one worker at a time."""

import asyncio

import pytest

from rag import ScriptedJudge, sample, source, tools
from ragassay import benchmark
from ragassay.errors import BadData, BadSettings, Conflict, NotFound, NothingToEvaluate
from ragassay.files import write_whole
from ragassay.models import JobSpec, Usage
from ragassay.seams import Call, Reply
from ragassay.store.folder import FolderStore, new_run_id
from ragassay.store.ledger import CallCache, FolderLedger


def prepare(root, count=120, judge=None, spec=None):
    samples = [sample(n) for n in range(1, count + 1)]
    responses = {s.query_id: s.response for s in samples}
    return benchmark.prepare(
        FolderStore(root),
        spec or JobSpec(),
        source(samples),
        samples,
        {"default": (source(samples), responses)},
        tools(judge),
    )


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    run = prepare(tmp_path)

    class Stops(ScriptedJudge):
        async def judge(self, samples, ledger):
            if samples[0].query_id == "q51":
                raise KeyboardInterrupt
            return await super().judge(samples, ledger)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(benchmark.work(run, tools(Stops())))
    assert ("default", 1) in run.pending()

    again = FolderStore(tmp_path).open(run.manifest.id)
    judge = ScriptedJudge()
    done = 120 - 50 * sum(n < 2 for _, n in again.pending()) - 20 * (("default", 2) in again.pending())
    asyncio.run(benchmark.work(again, tools(judge)))
    assert len(judge.asked) == 120 - done
    assert [r.query_id for r in again.results("default")] == [f"q{n}" for n in range(1, 121)]


def test_a_run_whose_judge_changed_can_not_be_resumed(tmp_path):
    run = prepare(tmp_path)
    other = ScriptedJudge()
    other.settings = {"version": 2}
    with pytest.raises(BadSettings, match="its judge changed since it began"):
        benchmark.check_unchanged(run, tools(other))


def test_two_processes_can_not_work_on_one_run(tmp_path):
    run = prepare(tmp_path)
    with run.locked(), pytest.raises(Conflict, match="is being worked on"), FolderStore(tmp_path).open("last").locked():
        pass


def test_a_run_is_found_by_id_beginning_path_and_last(tmp_path):
    store, run = FolderStore(tmp_path), prepare(tmp_path, 2)
    for reference in (run.manifest.id, run.manifest.id[:17], str(run.folder), "last"):
        assert store.open(reference).manifest.id == run.manifest.id


def test_a_run_that_is_not_there_is_an_error_that_lists_the_known_ones(tmp_path):
    run = prepare(tmp_path, 2)
    with pytest.raises(NotFound, match=run.manifest.id):
        FolderStore(tmp_path).open("elsewhere")
    with pytest.raises(NotFound, match="known: none"):
        FolderStore(tmp_path / "empty").open("last")


def test_a_report_that_is_not_written_yet_says_how_to_get_it(tmp_path):
    with pytest.raises(NotFound, match="ragassay evaluate --resume"):
        _ = prepare(tmp_path, 2).report


def test_a_damaged_run_is_an_error_that_names_the_file(tmp_path):
    run = prepare(tmp_path, 2)
    (run.folder / "samples.jsonl").write_text('{"query_id": "q1"\n')
    with pytest.raises(BadData, match=r"samples\.jsonl:1: not JSON"):
        _ = FolderStore(tmp_path).open("last").samples
    (run.folder / "run.json").write_text("{}")
    with pytest.raises(BadData, match="not a run of this version"):
        FolderStore(tmp_path).open("last")


def test_nothing_is_written_down_when_no_row_has_a_response(tmp_path):
    samples = [sample(1, response=None)]
    with pytest.raises(NothingToEvaluate, match="--system NAME=FILE"):
        benchmark.prepare(
            FolderStore(tmp_path), JobSpec(), source(samples), samples, {"default": (source(samples), {})}, tools()
        )
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    write_whole(path, b"old")
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_run_ids_carry_the_dataset_and_are_safe_as_folder_names():
    assert new_run_id("../My Data!").split("-", 2)[2].rpartition("-")[0] == "my-data"


CALL = Call(id="1", content="c", purpose="judge")
OTHER = CALL.model_copy(update={"id": "2"})
REPLY = Reply(text="{}", usage=Usage(calls=1, input_tokens=10, cost_usd=0.5))


@pytest.fixture
def ledger(tmp_path):
    """Opens ledgers that share one cache; all are closed in the end."""
    opened = [CallCache(tmp_path / "calls.sqlite")]

    def make(run, *, cached=False):
        opened.append(FolderLedger(tmp_path / run / "calls.jsonl", run=run, cache=opened[0] if cached else None))
        return opened[-1]

    yield make
    for thing in opened:
        thing.close()


def settle(ledger, call=CALL, reply=REPLY):
    asyncio.run(ledger.settle(call, reply))


def reserve(ledger, call=CALL):
    return asyncio.run(ledger.reserve(call, Usage()))


def test_a_settled_call_is_returned_by_the_next_process(ledger):
    assert reserve(ledger("a")) is None
    settle(ledger("a"))
    assert reserve(ledger("a")) == REPLY


def test_a_torn_last_line_is_a_call_that_was_not_settled(ledger, tmp_path):
    settle(ledger("a"))
    with (tmp_path / "a" / "calls.jsonl").open("ab") as file:
        file.write(b'{"id": "2", "reply": {"te')
    again = ledger("a")
    assert (reserve(again), reserve(again, OTHER)) == (REPLY, None)
    settle(again, OTHER)
    assert reserve(ledger("a"), OTHER) == REPLY


def test_a_later_run_takes_the_reply_from_the_cache_and_pays_nothing(ledger):
    settle(ledger("a", cached=True))
    hit = reserve(ledger("b", cached=True), OTHER)
    assert (hit.text, hit.usage) == ("{}", Usage(cache_hits=1))
    assert reserve(ledger("b"), OTHER) == hit  # written down, so that a resumed run counts it the same


def test_a_run_never_takes_its_own_reply_from_the_cache(ledger):
    own = ledger("a", cached=True)
    settle(own)
    assert reserve(own, OTHER) is None


def test_what_a_lost_call_may_have_cost_is_remembered(ledger):
    asyncio.run(ledger("a").release(CALL, Usage(uncertain_calls=1)))
    assert ledger("a").lost.uncertain_calls == 1
