"""Jobs of two projects in one worker process, with the same model: what one learns of the provider is its own."""

import orjson
import pytest

import provider as play
from job_workers import PayingJudge, deliver_all, finish, submit
from offline_runs import sample, source_of
from provider import Provider
from ragassay.core.eval_config import EvalConfig
from ragassay.core.settings import Settings
from ragassay.evaluation.inputs import Inputs, recorded, recorded_system
from ragassay.evaluation.runtime import Runtime
from ragassay.service.job_run import JobRun
from ragassay.service.jobs import Jobs

HUGE = play.usage(15_000_000, 15_000_000)


@pytest.fixture
def jobs(store, queue):
    """Jobs whose judges are models."""
    jobs = Jobs(store, queue, Runtime(Settings()))
    yield jobs
    jobs.close()


@pytest.fixture
def evaluated(jobs, queue):
    """Submits a job of some rows for a project and works on it to its end."""

    def evaluate(provider, project, queries, **spec):
        rows = [sample(n, query=query) for n, query in enumerate(queries, 1)]
        inputs = recorded(source_of(rows), rows)
        options = {"judges": ("gpt-4o-mini",), "api_base": provider.url, "metrics": ("faithfulness",)}
        job, _ = jobs.of(project).submit(EvalConfig(**options, performance={"cache": False}, **spec), inputs)
        deliver_all(jobs, queue)
        state = jobs.get(job.id)
        if state.status == "finalizing":
            jobs.finalize(job.id)
        return jobs.get(job.id)

    return evaluate


def when(word, behaviour, then=play.good):
    """``behaviour`` for prompts with the word."""
    return lambda seen: (behaviour if word in seen.user else then)(seen)


@pytest.mark.parametrize("refusal", [play.status(403, message="your input was flagged"), play.status(401)])
def test_a_refusal_of_one_projects_row_does_not_reach_another_project(evaluated, refusal):
    with Provider(then=when("forbidden", refusal)) as provider:
        first = evaluated(provider, "a", ["forbidden?"])
        second = evaluated(provider, "b", [f"question {n}?" for n in range(5)])
    assert first.status in ("failed", "finished")
    assert (second.status, second.progress.failed, second.error) == ("finished", 0, None)


def test_a_false_token_count_takes_a_budget_no_further_than_was_reserved(evaluated, store):
    with Provider(then=when("first", play.raw(usage=HUGE))) as provider:
        job = evaluated(provider, "a", ["first?", "second?"], budget={"usd": 1})
    assert job.status == "finished"
    assert store.spent_usd(job.id) < 0.01


def test_a_job_learns_of_an_outage_from_its_own_calls(evaluated):
    outage, limit = (
        play.status(500, message="broken"),
        play.status(429, message="too many", headers={"Retry-After": "100"}),
    )
    with Provider(then=when("first", outage, when("second", limit))) as provider:
        first = evaluated(provider, "a", [f"first {n}?" for n in range(5)])
        second = evaluated(provider, "b", ["second?"])
    assert "broken" in first.waiting
    assert "too many" in second.waiting
    assert "broken" not in second.waiting


def test_jobs_share_the_form_of_a_reply_that_a_provider_takes(evaluated):
    with Provider(then=play.takes("json_object")) as provider:
        evaluated(provider, "a", ["first?"])
        asked = len(provider.log)
        evaluated(provider, "b", ["second?"])
        assert asked > 1
        assert len(provider.log) == asked + 1


def test_two_systems_of_a_job_with_the_same_answers_are_judged_once_and_get_the_same_verdicts(jobs, queue):
    rows = [sample(n, query=f"question {n}?") for n in range(5)]
    answers = {row.query_id: row.response for row in rows}
    inputs = Inputs(source_of(rows), rows, {name: recorded_system(name, answers) for name in ("a", "b")})
    with Provider() as provider:
        options = {"judges": ("gpt-4o-mini",), "api_base": provider.url, "metrics": ("faithfulness",)}
        job, _ = jobs.submit(EvalConfig(**options, performance={"cache": False}), inputs)
        finish(jobs, queue, job.id)
        assert len(provider.log) == len(rows)
    a, b = (orjson.loads(JobRun(jobs.store, job.id).report_document())["systems"][name] for name in ("a", "b"))
    assert a["metrics"]["faithfulness"] == b["metrics"]["faithfulness"]
    assert [system["evaluation"]["usage"]["calls"] for system in (a, b)] == [len(rows), 0]


def test_a_paid_call_is_a_hit_for_later_jobs_of_its_project_only(make_jobs, queue):
    judge, made = PayingJudge(), []
    jobs = make_jobs(judge)
    for project in ("a", "b", "a", "default", "default"):
        before = judge.made
        submit(jobs.of(project), 10, metrics=("faithfulness",), judges=("a-model",))
        deliver_all(jobs, queue)
        made.append(judge.made - before)
    assert made == [10, 10, 0, 10, 0]
