"""``/v1/costs``: the figures of jobs' reports, which stay when the rows are gone."""

import zstandard

from api_server import rows
from ragassay.analysis.costs import CostReport
from ragassay.service.job_run import JobRun
from ragassay.service.redis import row_names
from ragassay.storage.cost_records import record_of

OPTIONS = {"metrics": ["correctness", "accurate"], "accurate": "correctness >= 0.5", "dataset": "rivers"}


def finished(served, n=10, **more):
    """The id of a finished job; its rows cost 0.001 USD each, and all are accurate."""
    job = served.submit(rows(n, **more), **OPTIONS)["id"]
    served.work()
    return job


def costs(served, **parameters):
    answer = served.http.get("/v1/costs", params=parameters)
    assert answer.status_code == 200, answer.text
    return CostReport.model_validate(answer.json())


def figures(report):
    """What may not change: everything but the time of the answer."""
    return report.model_copy(update={"as_of": ""})


def test_the_figures_stay_when_the_rows_have_expired(served):
    job = finished(served)
    before = costs(served, by="category,system,day")
    store = served.jobs.store
    store.redis.delete(*(store.key(job, name) for name in row_names(store.state(job).record)))
    assert served.http.get(f"/v1/jobs/{job}/results").status_code == 404
    assert figures(costs(served, by="category,system,day")) == figures(before)


def test_costs_are_read_without_the_metrics(served):
    run = JobRun(served.jobs.store, finished(served, n=3))
    (system,) = run.report("", spending=True).systems.values()
    assert (system.metrics, system.slices) == ({}, {})
    assert run.costs() == record_of(run.report())


def test_costs_names_a_job_whose_record_can_not_be_read_and_counts_the_others(served):
    jobs, store = [finished(served) for _ in range(3)], served.jobs.store
    for job, content in ((jobs[0], zstandard.compress(b'{"schema_version": 1}')), (jobs[1], b"damaged")):
        store.redis.set(store.key(job, "report.json"), content)
    found = costs(served)
    assert found.reports == 1
    (warning,) = found.warnings
    assert jobs[0] in warning
    assert jobs[1] in warning


def test_jobs_without_a_report_are_counted_apart(served):
    finished(served)
    served.submit(rows(3), **OPTIONS)
    failed = served.submit(rows(4), **OPTIONS)["id"]
    served.jobs.store.transition(failed, "failed", fields={"error": "for this test"})
    cancelled = served.submit(rows(5), **OPTIONS)["id"]
    served.http.post(f"/v1/jobs/{cancelled}/cancel")
    found = costs(served)
    assert found.reports == 1
    assert found.left_out == {"failed": 1, "not finished": 1, "without a report": 1}
