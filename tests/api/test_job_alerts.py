"""What is told of a job: each kind fired for real, and nothing of its texts in what a receiver gets."""

import pytest

from api_server import rows
from receiver import Receiver

MARK = "planted"


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def told(served, receiver):
    """Submits a job, has it worked on, and returns (its id, what the receiver got of it, verified)."""
    kinds = ["gate_missed", "regression", "coverage_low", "budget_reached", "job_finished", "job_failed"]
    added = served.http.post("/v1/webhooks", json={"url": receiver.url, "kinds": kinds})
    assert added.status_code == 201, added.text
    secret = added.json()["secret"]

    def run(samples, **options):
        job = served.submit(samples, **{"metrics": ["mrr"], **options})["id"]
        served.work()
        documents = [got.verified(secret) for got in receiver.got]
        return job, [each for each in documents if each["data"].get("job") == job]

    return run


def of_kind(documents, kind):
    return [each["data"] for each in documents if each["type"] == kind]


def test_each_gate_that_is_missed_is_told_with_its_numbers(told):
    gates = [{"mrr": ">= 0.8"}, {"mrr": "<= 0.7"}, {"mrr": ">= 0.5"}]
    job, documents = told(rows(10), gates=gates)
    first, second = of_kind(documents, "gate_missed")
    assert (first["gate"], first["value"], first["threshold"], first["cause"]) == (
        "default: mrr >= 0.800", 0.75, 0.8, "threshold",
    )  # fmt: skip
    assert (first["job"], first["system"], first["metric"], first["project"]) == (job, "default", "mrr", "default")
    assert second["gate"] == "default: mrr <= 0.700"
    assert of_kind(documents, "regression") == []


def test_a_drop_from_the_baseline_is_a_regression_and_nothing_is_one_without_a_baseline(told):
    first, documents = told(rows(10))
    assert of_kind(documents, "regression") == []
    worse = [{**row, "retrieved_doc_ids": sorted(row["retrieved_doc_ids"])} for row in rows(10)]
    gates = [{"metric": "mrr", "max_drop": 0.1}, {"metric": "mrr", "min": 0.7}]
    _, documents = told(worse, gates=gates, baseline=first)
    (regression,) = of_kind(documents, "regression")
    assert (regression["baseline"], regression["value"], regression["threshold"]) == (0.75, 0.5, 0.1)
    (missed,) = of_kind(documents, "gate_missed")
    assert missed["gate"] == "default: mrr >= 0.700"


def test_a_job_that_failed_is_told_without_its_error(served, told, receiver):
    job = served.submit(rows(3), metrics=["mrr"])["id"]
    served.jobs.store.redis.delete(f"ra:{{{job}}}:inputs")
    served.work()
    assert served.http.get(f"/v1/jobs/{job}").json()["status"] == "failed"
    (got,) = receiver.got
    assert got.document["type"] == "job_failed"
    assert got.document["data"].keys() == {"id", "project", "job", "count", "rows", "done", "failed"}


def test_no_text_of_a_job_is_in_what_a_receiver_gets(served, told, receiver):
    """Planted in everything that a body takes as text, apart from names of systems and metrics."""
    with Receiver() as slack:
        every = ["gate_missed", "regression", "coverage_low", "job_finished"]
        served.http.post("/v1/webhooks", json={"url": slack.url, "format": "slack", "kinds": every})
        samples = [
            {
                "query_id": f"{MARK}-{n}",
                "query": f"{MARK} where?",
                "ground_truth_answer": f"{MARK} there",
                "key_facts": [f"{MARK} fact"],
                "relevant_doc_ids": [f"{MARK}-d"],
                "category": f"{MARK} category",
                "difficulty": f"{MARK} difficulty",
                "description": f"{MARK} description",
                "metadata": {"customer": f"{MARK} customer"},
                "responses": {
                    "v1": {"answer": f"{MARK} answer", "contexts": [f"{MARK} context"], "retrieved_doc_ids": ["x"]},
                    "v2": {"error": f"{MARK} error"},
                },
            }
            for n in range(3)
        ]
        gates = [{"faithfulness": ">= 1.1"}, {"metric": "mrr", "min": 1.1, "slice": "category"}]
        job, documents = told(
            samples, metrics=["faithfulness", "mrr"], gates=gates, name=f"{MARK} job", dataset=f"{MARK} dataset"
        )
        served.work()
        assert {each["type"] for each in documents} == {"gate_missed", "job_finished"}
        assert len(slack.got) == len(documents)
        sent = [got.body + str(got.headers).encode() for got in (*receiver.got, *slack.got)]
        assert not any(MARK.encode() in each for each in sent)
    assert MARK not in served.http.get("/v1/alerts").text
    assert job in served.http.get("/v1/alerts").text


def test_what_a_job_tells_is_told_once_however_often_its_last_steps_are_repeated(served, told, receiver):
    job, _ = told(rows(10), gates=[{"mrr": ">= 0.8"}])
    before = len(receiver.got)
    served.jobs.store.redis.hset(f"ra:{{{job}}}:meta", "status", "finalizing")
    served.jobs.store.redis.sadd("ra:active", job)
    served.jobs.tick()
    served.jobs.finalize(job)
    served.work()
    assert len(receiver.got) == before == 2


def test_a_gate_on_slices_is_told_once_without_the_values_of_the_rows(told):
    samples = [{**row, "category": f"{MARK} {n}", "metadata": {"customer": MARK}} for n, row in enumerate(rows(6))]
    gates = [
        {"metric": "mrr", "min": 1.1, "slice": "category"},
        {"metric": "mrr", "min": 1.1, "slice": f"category={MARK} 1"},
        {"metric": "mrr", "min": 1.1, "slice": "metadata.customer"},
    ]
    _, documents = told(samples, gates=gates)
    missed = of_kind(documents, "gate_missed")
    assert [(each["gate"], each["count"]) for each in missed] == [
        ("default, each category: mrr >= 1.100", 7),
        ("default, each metadata.customer: mrr >= 1.100", 1),
    ]
    assert MARK not in str(documents)
