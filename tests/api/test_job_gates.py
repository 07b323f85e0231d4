"""Gates of a job: checked once when it finishes, kept with its report, and what is missed is an alert."""

import logging

import pytest

from api_server import problem, rows
from ragassay.analysis.gates import GateReport

UNKNOWN = "0" * 32
GATES = [
    {"mrr": ">= 0.8"},
    {"metric": "recall@5", "min": 0.9},
    {"metric": "mrr", "min": 0.5, "slice": "category", "coverage": 0.8},
]
METRICS = ["mrr", "recall@5"]


def made(n=10, **extra):
    return rows(n, category="river", **extra)


def done(served, samples, **options):
    job = served.submit(samples, **{"metrics": METRICS, **options})["id"]
    served.work()
    return job


def test_a_missed_gate_is_an_alert_of_the_job_and_an_error_in_the_log(served, caplog):
    job = served.submit(made(), metrics=METRICS, gates=GATES)["id"]
    assert served.http.get(f"/v1/jobs/{job}").json()["alerts"] == []
    with caplog.at_level(logging.ERROR, "ragassay.gates"):
        served.work()
    (alert,) = served.http.get(f"/v1/jobs/{job}").json()["alerts"]
    assert alert == {
        "gate": "default: mrr >= 0.800",
        "metric": "mrr",
        "value": 0.75,
        "threshold": 0.8,
        "reason": "mrr is 0.750, not >= 0.800 (n=10)",
    }
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    said = f"gate missed: job={job} metric=mrr value=0.750 threshold=0.8: mrr is 0.750, not >= 0.800 (n=10)"
    assert record.getMessage() == said


@pytest.mark.parametrize("named", ["{}", "{}#default"])
def test_a_drop_is_measured_from_an_earlier_job(served, named):
    rows = made(12)  # six of them get worse, the fewest that can show a drop
    first = done(served, rows)
    worse = [{**row, "retrieved_doc_ids": sorted(row["retrieved_doc_ids"])} for row in rows]  # d-other is first
    gates = [{"metric": "mrr", "max_drop": 0.1}, {"metric": "recall@5", "max_drop": 0.1}]
    second = done(served, worse, gates=gates, baseline=named.format(first))
    checked = GateReport.model_validate(served.http.get(f"/v1/jobs/{second}/gates").json())
    assert (checked.baseline, checked.passed) == (first, False)
    missed, passed = checked.results
    assert (missed.baseline, missed.value, missed.drop, missed.cause) == (0.75, 0.5, 0.25, "threshold")
    assert (passed.drop, passed.cause) == (0.0, "met")
    assert checked.cautions == ()  # other responses to the same questions
    assert [(row.value, row.before) for row in missed.worst] == [(0.5, 1.0)] * 5
    compared = served.http.post("/v1/comparisons", json={"jobs": [first, second], "metrics": ["mrr"]}).json()
    shown = compared["pairs"][0]["metrics"]["mrr"]["interval"]
    assert (missed.interval.low, missed.interval.high) == (-shown["high"], -shown["low"])


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
    names = {"DONE": done(served, made()), "OLD": done(served, made()), "QUEUED": served.submit(made())["id"]}
    served.jobs.store.redis.delete(f"ra:{{{names['OLD']}}}:results")
    for name, job in names.items():
        baseline = baseline.replace(name, job)
    body = {"samples": made(), "gates": [{"metric": "mrr", "max_drop": 0.1}], "baseline": baseline}
    document = problem(served.http.post("/v1/jobs", json=body), status)
    assert said in document["detail"]
    assert document["where"] == "baseline"
    assert len(served.http.get("/v1/jobs").json()["jobs"]) == 3


def test_use_as_a_baseline_keeps_the_rows_of_a_job(served):
    job = done(served, made())
    rows = f"ra:{{{job}}}:results"
    served.jobs.store.redis.expire(rows, 60)
    done(served, made(), gates=[{"metric": "mrr", "max_drop": 0.1}], baseline=job)
    assert served.jobs.store.redis.ttl(rows) > 29 * 86_400


def test_a_baseline_that_is_gone_when_it_is_needed_is_an_alert_and_the_job_finishes(served, caplog):
    first = done(served, made())
    second = served.submit(made(), metrics=METRICS, gates=[{"metric": "mrr", "max_drop": 0.1}], baseline=first)["id"]
    served.jobs.store.redis.delete(f"ra:{{{first}}}:report", f"ra:{{{first}}}:meta")
    served.work()
    state = served.http.get(f"/v1/jobs/{second}").json()
    assert state["status"] == "finished"
    (alert,) = state["alerts"]
    assert (alert["metric"], alert["value"]) == (None, None)
    assert alert["reason"].startswith(f"the gates could not be checked: there is no job '{first}'")
    assert len(caplog.records) == 1
    assert "could not be checked" in problem(served.http.get(f"/v1/jobs/{second}/gates"), 404)["detail"]


def test_a_job_without_gates_or_without_an_end_has_nothing_to_say(served):
    assert "has no gates" in problem(served.http.get(f"/v1/jobs/{done(served, made())}/gates"), 404)["detail"]
    job = served.submit(made(), metrics=METRICS, gates=GATES)["id"]
    assert "is queued" in problem(served.http.get(f"/v1/jobs/{job}/gates"), 409)["detail"]
    problem(served.http.get(f"/v1/jobs/{UNKNOWN}/gates"), 404)
