"""From rows in a request to a report."""

import json
import time

import pytest

from api_server import problem, rows, serving
from provider import Provider
from ragassay.core.jobs import Job
from ragassay.core.settings import Settings
from ragassay.evaluation.runtime import Runtime
from ragassay.service.job_run import JobRun
from ragassay.service.jobs import Jobs

METRICS = ["mrr", "recall@5", "faithfulness"]


def test_a_submitted_job_is_queued_and_says_where_to_follow_it(served):
    answer = served.http.post("/v1/jobs", json={"samples": rows(3), "metrics": METRICS, "name": "first"})
    assert answer.status_code == 202
    job = Job.model_validate(answer.json())
    assert (job.status, job.name, job.metrics, job.judge) == ("queued", "first", tuple(METRICS), "local")
    assert (job.progress.rows, job.progress.done) == (3, 0)
    assert answer.headers["location"] == f"/v1/jobs/{job.id}"
    assert int(answer.headers["retry-after"]) >= 1
    assert "idempotent-replayed" not in answer.headers
    assert [use_case for use_case, _ in served.queue.sent] == ["work"]
    assert served.http.get(answer.headers["location"]).json()["id"] == job.id


def test_every_option_reaches_the_configuration(served):
    options = {
        "seed": 7,
        "accurate": "correctness >= 0.7",
        "relevant_from": 2,
        "max_grade": 4,
        "max_failed_share": 0.5,
        "judge_mode": "probe",
        "prices": {"m": {"input_per_1m": 1, "output_per_1m": 2.5}},
        "name": "all of them",
        "judges": [{"model": "openai/m", "samples": 3, "role": "judge", "on": None}],
        "metrics": ["mrr"],
        "criteria": {"polite": "It is polite."},
        "composites": {"quality": {"mrr": 2, "recall@5": 1}, "balance": {"mrr": 1, "recall@5": 1}},
        "graded": False,
        "history_tokens": 900,
        "budget": {"usd": 2.5, "tokens": None},
    }
    performance = {
        "cache": False,
        "concurrency": 4,
        "timeout_s": 30,
        "attempts": 3,
        "provider_outage_timeout_s": 60,
        "batch": 20,
    }
    statistics = {"intervals": False, "tests": False, "confidence": 0.9, "alpha": 0.01, "correction": "none"}
    options["parameters"] = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "reasoning_effort": "low",
        "max_tokens": 900,
        "extra_body": {},
    }
    gates = [{"mrr": ">= 0.2"}]
    job = served.submit(rows(2), **options, statistics=statistics, performance=performance, gates=gates)["id"]
    served.work()
    used = served.http.get(f"/v1/jobs/{job}/report").json()["provenance"]["configuration"]
    of_operator = dict.fromkeys(("requests_per_minute", "tokens_per_minute"))
    assert used == {
        **options,
        "performance": {**performance, **of_operator},
        "statistics": statistics,
        **dict.fromkeys(("api_base", "judge_prompt", "embeddings", "bertscore_model")),
    }
    said = served.http.get(f"/v1/jobs/{job}/gates").json()
    assert said["alpha"] == 0.01


def test_a_server_without_a_judge_in_the_request_takes_the_operators(redis):
    with serving(redis.url, Settings(judge="gpt-4o-mini")) as served:
        assert served.submit(rows(1))["judge"] == "gpt-4o-mini"
        assert served.submit(rows(1), judge="local")["judge"] == "local"


def test_judges_are_those_that_the_operator_lists(redis):
    with serving(redis.url, Settings(judges="gpt-4o-mini, anthropic/claude-haiku")) as served:
        assert served.submit(rows(1), judge="llm:gpt-4o-mini")["judge"] == "gpt-4o-mini"
        assert served.submit(rows(1), judge="anthropic/claude-haiku")
        document = problem(served.http.post("/v1/jobs", json={"samples": rows(1), "judge": "gpt-4o"}), 422)
        assert (document["code"], document["where"]) == ("unknown_name", "judge")
        assert "gpt-4o-mini" in document["hint"]


def test_members_of_a_jury_are_those_that_the_operator_lists_and_judge_the_job(redis):
    with Provider() as provider:
        settings = Settings(judges="openai/a, openai/b", api_base=provider.url)
        with serving(redis.url, settings) as served:
            body = {"samples": rows(2), "metrics": ["faithfulness"]}
            document = problem(served.http.post("/v1/jobs", json={**body, "judges": ["openai/a", "openai/c"]}), 422)
            assert (document["code"], document["where"]) == ("unknown_name", "judges")
            document = problem(served.http.post("/v1/jobs", json={**body, "judges": ["openai/a", "openai/a"]}), 422)
            assert "openai/a is named twice" in document["detail"]
            document = problem(served.http.post("/v1/jobs", json={**body, "judges": ["local", "openai/b"]}), 422)
            assert "the local judge takes no part in a jury" in document["detail"]
            job = served.submit(**body, judges=["openai/a", {"model": "openai/b"}])
            workers = Jobs(served.jobs.store, served.queue, Runtime(settings, threads=1), None, served.jobs.notifier)
            served.queue.answer(workers)
            workers.close()
            report = served.http.get(f"/v1/jobs/{job['id']}/report").json()
        assert job["judge"] == "openai/a + openai/b"
        assert sorted(seen.body["model"] for seen in provider.log) == ["a", "a", "b", "b"]
    members = report["systems"]["default"]["jury"]["members"]
    assert [(one["judge"], one["judged"]) for one in members] == [("llm:openai/a", 2), ("llm:openai/b", 2)]


def test_a_server_with_a_key_and_no_list_allows_the_operators_judge_alone(redis):
    settings = Settings(bootstrap_key="k" * 24, judge="gpt-4o-mini")
    with serving(redis.url, settings) as served:
        assert served.submit(rows(1), judge="gpt-4o-mini")
        assert problem(served.http.post("/v1/jobs", json={"samples": rows(1), "judge": "o3"}), 422)["where"] == "judge"


@pytest.mark.parametrize("limit", ["concurrency", "timeout_s"])
def test_a_request_above_the_operators_limit_is_refused(redis, limit):
    with serving(redis.url, Settings(max_concurrency=4, max_timeout_s=4)) as served:
        served.submit(rows(1), performance={limit: 4})
        document = problem(served.http.post("/v1/jobs", json={"samples": rows(1), "performance": {limit: 5}}), 422)
        assert document["where"] == f"performance.{limit}"
        assert "4" in document["detail"]


def test_a_cancelled_job_makes_no_more_calls_and_keeps_what_is_done(served):
    job = served.submit(rows(120), metrics=METRICS)["id"]
    served.work(most=1)
    assert served.http.post(f"/v1/jobs/{job}/cancel").json()["status"] == "cancelled"
    served.work()
    after = served.http.get(f"/v1/jobs/{job}").json()
    assert (after["status"], after["progress"]["done"]) == ("cancelled", 50)
    assert after["ended_at"] is not None
    assert len(served.http.get(f"/v1/jobs/{job}/results", params={"limit": 200}).json()["results"]) == 50
    report = served.http.get(f"/v1/jobs/{job}/report").json()
    assert (report["run"]["status"], report["systems"]["default"]["queries"]) == ("incomplete", 50)
    assert (report["run"]["rows"], report["run"]["rows_done"]) == (120, 50)
    again = served.http.post(f"/v1/jobs/{job}/cancel")
    assert (again.status_code, again.json()) == (200, after)


def test_only_a_paused_job_can_be_resumed_and_a_budget_is_above_zero(served):
    job = served.submit(rows(2))["id"]
    served.work()
    assert "not paused" in problem(served.http.post(f"/v1/jobs/{job}/resume"), 409)["detail"]
    said = problem(served.http.post(f"/v1/jobs/{job}/resume?budget_usd=0"), 422)
    assert "budget_usd" in str(said)


@pytest.mark.parametrize(
    ("asked", "caps"),
    [
        ({}, [b"0.5", b"900"]),
        ({"budget_usd": 2}, [b"2.0", b"900"]),
        ({"budget_tokens": 7}, [b"0.5", b"7"]),
        ({"budget_usd": "none"}, [None, b"900"]),
        ({"budget_usd": 2, "budget_tokens": "none"}, [b"2.0", None]),
    ],
)
def test_resume_changes_only_the_caps_that_are_given(served, asked, caps):
    job = served.submit(rows(2), budget={"usd": 0.5, "tokens": 900})["id"]
    store = served.jobs.store
    store.redis.hset(store.key(job, "meta"), "status", "paused")
    resumed = served.http.post(f"/v1/jobs/{job}/resume", params=asked)
    assert resumed.json()["status"] == "running"
    assert store.redis.hmget(store.key(job, "meta"), "most_usd", "most_tokens") == caps


def test_a_report_is_not_sent_again_to_who_has_it(served):
    job = served.submit(rows(2), metrics=["mrr"])["id"]
    served.work()
    first = served.http.get(f"/v1/jobs/{job}/report")
    again = served.http.get(f"/v1/jobs/{job}/report", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = served.http.get(f"/v1/jobs/{job}/report", headers={"If-None-Match": '"another"'})
    assert other.content == first.content


def test_a_full_body_is_taken_in_within_five_seconds(served):
    body = {"samples": rows(4000), "metrics": ["mrr"]}
    content = json.dumps(body).encode()
    assert 1_500_000 < len(content) < 2_000_000
    began = time.process_time()
    answer = served.http.post("/v1/jobs", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202
    assert answer.json()["progress"]["rows"] == 4000
    assert time.process_time() - began < 5


def test_judges_that_make_no_sense_together_are_refused_before_a_worker_meets_them(served):
    judges = [{"model": "local"}, {"model": "gpt-4o-mini", "role": "reference", "on": 0.5}]
    body = {"samples": rows(3), "metrics": ["faithfulness"], "judges": judges}
    document = problem(served.http.post("/v1/jobs", json={**body, "criteria": {"polite": "It is polite."}}), 422)
    assert document["where"] == "judges"
    assert "criteria can't be judged by the local judge" in document["detail"]
    assert JobRun(served.jobs.store, served.submit(**body)["id"]).record.spec.references[0].on == 0.5
