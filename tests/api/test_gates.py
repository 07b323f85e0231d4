"""Gates of a job: checked once when it finishes, kept with its report; what is missed is an alert without any text of the rows."""

import logging

import pytest

from api_server import problem, rows
from ragassay.analysis.gates import GateReport
from receiver import Receiver

UNKNOWN, MARK = "0" * 32, "planted"
METRICS = ["mrr", "recall@5"]
DROP = {"metric": "mrr", "max_drop": 0.1}


@pytest.fixture
def receiver(served):
    """Gets what is told of jobs, verified."""
    kinds = ["gate_missed", "regression", "coverage_low", "budget_reached", "job_finished", "job_failed"]
    with Receiver() as receiver:
        added = served.http.post("/v1/webhooks", json={"url": receiver.url, "kinds": kinds}).json()
        receiver.secret = added["secret"]
        yield receiver


def told(receiver, job, kind):
    documents = [got.verified(receiver.secret) for got in receiver.got]
    return [each["data"] for each in documents if each["type"] == kind and each["data"].get("job") == job]


def done(served, samples, **options):
    job = served.submit(samples, **{"metrics": METRICS, **options})["id"]
    served.work()
    return job


def worse(samples):
    """The same, with d-other first."""
    return [{**row, "retrieved_doc_ids": sorted(row["retrieved_doc_ids"])} for row in samples]


def test_a_missed_gate_is_an_alert_of_the_job_and_an_error_in_the_log_and_told_once(served, receiver, caplog):
    gates = [{"mrr": ">= 0.8"}, {"metric": "recall@5", "min": 0.9}, {"metric": "mrr", "min": 0.5, "slice": "category"}]
    job = served.submit(rows(10, category="river"), metrics=METRICS, gates=gates)["id"]
    assert "is queued" in problem(served.http.get(f"/v1/jobs/{job}/gates"), 409)["detail"]
    with caplog.at_level(logging.ERROR, "ragassay.gates"):
        served.work()
    (alert,) = served.http.get(f"/v1/jobs/{job}").json()["alerts"]
    reason = "mrr is 0.750, not >= 0.800 (n=10)"
    about = {"gate": "default: mrr >= 0.800", "metric": "mrr", "value": 0.75, "threshold": 0.8}
    assert alert == {**about, "reason": reason}
    (record,) = caplog.records
    assert record.getMessage() == f"gate missed: job={job} metric=mrr value=0.750 threshold=0.8: {reason}"
    (missed,) = told(receiver, job, "gate_missed")
    about |= {"job": job, "system": "default", "project": "default", "cause": "threshold"}
    assert {name: missed[name] for name in about} == about
    served.jobs.store.redis.hset(f"ra:{{{job}}}:meta", "status", "finalizing")
    served.jobs.store.redis.sadd("ra:active", job)
    served.jobs.tick()
    served.jobs.finalize(job)
    served.work()
    assert len(receiver.got) == 2  # its end is the other


@pytest.mark.parametrize("named", ["{}", "{}#default"])
def test_a_drop_is_measured_from_an_earlier_job_and_is_told_as_a_regression(served, receiver, named):
    before = rows(12)  # six of them get worse, the fewest that can show a drop
    first = done(served, before)
    gates = [DROP, {"metric": "recall@5", "max_drop": 0.1}, {"metric": "mrr", "min": 0.7}]
    rows_of_first = f"ra:{{{first}}}:results"
    served.jobs.store.redis.expire(rows_of_first, 60)
    second = done(served, worse(before), gates=gates, baseline=named.format(first))
    assert served.jobs.store.redis.ttl(rows_of_first) > 29 * 86_400
    checked = GateReport.model_validate(served.http.get(f"/v1/jobs/{second}/gates").json())
    assert (checked.baseline, checked.passed) == (first, False)
    dropped, passed, _ = checked.results
    assert (dropped.baseline, dropped.value, dropped.drop, dropped.cause) == (0.75, 0.5, 0.25, "threshold")
    assert (passed.drop, passed.cause) == (0.0, "met")
    assert checked.cautions == ()  # other responses to the same questions
    assert [(row.value, row.before) for row in dropped.worst] == [(0.5, 1.0)] * 5
    compared = served.http.post("/v1/comparisons", json={"jobs": [first, second], "metrics": ["mrr"]}).json()
    shown = compared["pairs"][0]["metrics"]["mrr"]["interval"]
    assert (dropped.interval.low, dropped.interval.high) == (-shown["high"], -shown["low"])
    (regression,) = told(receiver, second, "regression")
    assert (regression["baseline"], regression["value"], regression["threshold"]) == (0.75, 0.5, 0.1)
    (missed,) = told(receiver, second, "gate_missed")
    assert missed["gate"] == "default: mrr >= 0.700"


@pytest.mark.parametrize(
    ("baseline", "status", "said"),
    [
        (UNKNOWN, 404, f"there is no job '{UNKNOWN}'"),
        ("QUEUED", 409, "is queued and has no report"),
        ("DONE#other", 422, "unknown system 'other'"),
        ("OLD", 409, "are deleted, so drops can't be measured from it"),
    ],
)
def test_a_baseline_that_is_none_is_refused_at_once(served, baseline, status, said):
    names = {"DONE": done(served, rows(10)), "OLD": done(served, rows(10)), "QUEUED": served.submit(rows(10))["id"]}
    served.jobs.store.redis.delete(f"ra:{{{names['OLD']}}}:results")
    for name, job in names.items():
        baseline = baseline.replace(name, job)
    body = {"samples": rows(10), "gates": [DROP], "baseline": baseline}
    document = problem(served.http.post("/v1/jobs", json=body), status)
    assert said in document["detail"]
    assert document["where"] == "baseline"
    assert len(served.http.get("/v1/jobs").json()["jobs"]) == 3


def test_a_baseline_that_is_gone_when_it_is_needed_is_an_alert_and_the_job_finishes(served, caplog):
    first = done(served, rows(10))
    second = served.submit(rows(10), metrics=METRICS, gates=[DROP], baseline=first)["id"]
    served.jobs.store.redis.delete(f"ra:{{{first}}}:report", f"ra:{{{first}}}:meta")
    served.work()
    state = served.http.get(f"/v1/jobs/{second}").json()
    assert state["status"] == "finished"
    (alert,) = state["alerts"]
    assert (alert["metric"], alert["value"]) == (None, None)
    assert alert["reason"].startswith(f"the gates could not be checked: there is no job '{first}'")
    assert len(caplog.records) == 1
    assert "could not be checked" in problem(served.http.get(f"/v1/jobs/{second}/gates"), 404)["detail"]
    assert "has no gates" in problem(served.http.get(f"/v1/jobs/{done(served, rows(1))}/gates"), 404)["detail"]


def test_a_job_that_failed_is_told_without_its_error(served, receiver):
    job = served.submit(rows(3), metrics=["mrr"])["id"]
    served.jobs.store.redis.delete(f"ra:{{{job}}}:inputs")
    served.work()
    assert served.http.get(f"/v1/jobs/{job}").json()["status"] == "failed"
    (failed,) = told(receiver, job, "job_failed")
    assert failed.keys() == {"id", "project", "job", "count", "rows", "done", "failed"}


def test_no_text_of_a_job_is_in_what_a_receiver_gets(served, receiver):
    """Planted in everything that a body takes as text, apart from names of systems and metrics."""
    texts = ("query", "ground_truth_answer", "category", "difficulty", "description")
    v1 = {"answer": f"{MARK} answer", "contexts": [f"{MARK} context"], "retrieved_doc_ids": ["x"]}
    samples = [
        {
            "query_id": f"{MARK}-{n}",
            **{name: f"{MARK} {name}" for name in texts},
            "key_facts": [f"{MARK} fact"],
            "relevant_doc_ids": [f"{MARK}-d"],
            "metadata": {"customer": f"{MARK} customer"},
            "responses": {"v1": v1, "v2": {"error": f"{MARK} error"}},
        }
        for n in range(3)
    ]
    by = (f"category={MARK} category", "metadata.customer")
    gates = [*({"metric": "mrr", "min": 1.1, "slice": each} for each in by), {"faithfulness": ">= 1.1"}]
    with Receiver() as slack:
        every = ["gate_missed", "regression", "coverage_low", "job_finished"]
        served.http.post("/v1/webhooks", json={"url": slack.url, "format": "slack", "kinds": every})
        named = {"name": f"{MARK} job", "dataset": f"{MARK} dataset"}
        job = done(served, samples, metrics=["faithfulness", "mrr"], gates=gates, **named)
        assert {got.document["type"] for got in receiver.got} == {"gate_missed", "job_finished"}
        assert len(slack.got) == len(receiver.got)
        sent = [got.body + str(got.headers).encode() for got in (*receiver.got, *slack.got)]
    assert not any(MARK.encode() in each for each in sent)
    assert [each["gate"] for each in told(receiver, job, "gate_missed")] == ["v1, each category: mrr >= 1.100"]
    assert MARK not in served.http.get("/v1/alerts").text
    assert job in served.http.get("/v1/alerts").text
