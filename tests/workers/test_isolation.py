"""Jobs of two projects in one worker process, with the same model: what one learns of the provider is its own."""

import pytest

import provider as play
from job_workers import PayingJudge, deliver_all, submit
from offline_runs import sample, source_of
from provider import Provider
from ragassay.core.eval_config import RunConfig
from ragassay.core.settings import Settings
from ragassay.evaluation.inputs import recorded
from ragassay.evaluation.runtime import Runtime
from ragassay.service.jobs import Jobs


@pytest.fixture
def jobs(store, queue):
    """Jobs whose judges are models."""
    jobs = Jobs(store, queue, Runtime(Settings()))
    yield jobs
    jobs.close()


@pytest.fixture
def evaluated(jobs, queue):
    """Submits a job of some rows for a project and works on it to its end."""

    def evaluate(provider, project, queries):
        rows = [sample(n, query=query) for n, query in enumerate(queries, 1)]
        inputs = recorded(source_of(rows), rows)
        options = {"judges": ("gpt-4o-mini",), "api_base": provider.url, "metrics": ("faithfulness",)}
        job, _ = jobs.of(project).submit(RunConfig(**options, performance={"cache": False}), inputs)
        deliver_all(jobs, queue)
        if jobs.get(job.id).status == "finalizing":
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


def test_a_job_learns_of_an_outage_from_its_own_calls(evaluated):
    outage = play.status(500, message="broken")
    limit = play.status(429, message="too many", headers={"Retry-After": "100"})
    with Provider(then=when("first", outage, when("second", limit))) as provider:
        first = evaluated(provider, "a", [f"first {n}?" for n in range(5)])
        second = evaluated(provider, "b", ["second?"])
    assert "broken" in first.waiting
    assert "too many" in second.waiting
    assert "broken" not in second.waiting


def test_a_paid_call_is_a_hit_for_later_jobs_of_its_project_only(make_jobs, queue):
    judge, made = PayingJudge(), []
    jobs = make_jobs(judge)
    for project in ("a", "b", "a", "default", "default"):
        before = judge.made
        submit(jobs.of(project), 10, metrics=("faithfulness",), judges=("a-model",))
        deliver_all(jobs, queue)
        made.append(judge.made - before)
    assert made == [10, 10, 0, 10, 0]
