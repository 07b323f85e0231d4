"""How far a run is: its caller is told each row when its calls are answered."""

import asyncio

from offline_runs import ScriptedJudge, new_run, sample, scripted_runtime
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Usage
from ragassay.core.protocols import Call, Reply
from ragassay.core.settings import Settings
from ragassay.evaluation import local


class CallingJudge(ScriptedJudge):
    """Makes a call for each sample, and a second one for every third, before it gives any verdict."""

    def __init__(self, told):
        super().__init__()
        self.told, self.told_before_the_chunk_ended = told, []

    async def judge(self, samples, journal):
        for number, one in enumerate(samples):
            for text in ("first", "again")[: 1 + (number % 3 == 0)]:
                call = Call.about(one.query_id, "judge", text)
                async with journal.attempt(call, Usage()) as attempt:
                    attempt.settle(Reply(text=text))
        self.told_before_the_chunk_ended.append(sum(self.told))
        return await super().judge(samples, journal)


def runtime_at(home, judge=None):
    runtime = scripted_runtime(judge)
    runtime.settings = Settings(home=home)
    return runtime


def test_rows_are_told_one_by_one_and_never_more_than_there_are(tmp_path):
    told = []
    judge = CallingJudge(told)
    spec = EvalConfig(judges=("gpt-4o-mini",), metrics=("faithfulness",), performance={"cache": False})
    run = new_run(tmp_path, [sample(n) for n in range(1, 61)], spec, judge=judge)
    asyncio.run(local.complete(runtime_at(tmp_path, judge), run, done=told.append))
    assert told == [1] * 60
    assert judge.told_before_the_chunk_ended[0] >= 50


def test_a_row_that_is_judged_twice_is_told_once(tmp_path):
    told = []
    judge = CallingJudge(told)
    spec = EvalConfig(judges=("gpt-4o-mini,samples=2",), metrics=("faithfulness",), performance={"cache": False})
    run = new_run(tmp_path, [sample(n) for n in range(1, 51)], spec, judge=judge)
    asyncio.run(local.complete(runtime_at(tmp_path, judge), run, done=told.append))
    assert judge.told_before_the_chunk_ended == [50]
    assert sum(told) == 50


def test_chunks_of_a_judge_that_makes_no_calls_are_told_when_they_are_done(tmp_path):
    told = []
    run = new_run(tmp_path, [sample(n) for n in range(1, 61)], EvalConfig(metrics=("mrr",)))
    asyncio.run(local.complete(runtime_at(tmp_path), run, done=told.append))
    assert sorted(told) == [10, 50]
