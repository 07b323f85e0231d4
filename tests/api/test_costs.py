"""``/v1/costs``: the figures of jobs' reports, which stay when the rows are gone."""

import csv
import io

import pytest
import zstandard

from api_server import problem, rows
from ragassay.analysis.costs import CostReport
from ragassay.service.redis import row_names

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


def test_costs_of_jobs_are_those_of_their_reports(served):
    job = finished(served)
    finished(served, cost_usd=0.003)
    own = served.http.get(f"/v1/jobs/{job}/report").json()["systems"]["default"]
    found = costs(served)
    (group,) = found.groups
    assert (group.key, group.reports, group.rows, group.cost_per_accurate_answer.questions) == (
        {"dataset": "rivers", "system": "default"}, 2, 20, 10,
    )  # fmt: skip
    assert group.cost_per_accurate_answer.value == pytest.approx(0.002)
    assert own["cost_per_accurate_answer"]["value"] == pytest.approx(0.001)


def test_the_figures_stay_when_the_rows_have_expired(served):
    job = finished(served)
    before = costs(served, by="category,system,day")
    store = served.jobs.store
    store.redis.delete(*(store.key(job, name) for name in row_names(store.state(job).record)))
    assert served.http.get(f"/v1/jobs/{job}/results").status_code == 404
    assert figures(costs(served, by="category,system,day")) == figures(before)


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


def test_the_final_report_takes_the_place_of_a_paused_jobs_partial_one(served):
    job = served.submit(rows(120), **OPTIONS)["id"]  # three chunks
    served.work(most=1)
    store = served.jobs.store
    store.transition(job, "paused", fields={"error": "the budget is reached"})
    served.jobs.finalize(job)
    partial = costs(served)
    assert [(group.rows, group.incomplete) for group in partial.groups] == [(50, 1)]
    served.http.post(f"/v1/jobs/{job}/resume", params={"budget_usd": 10})
    assert "1 not finished" in problem(served.http.get("/v1/costs"), 422)["detail"]
    served.work()
    whole = costs(served)
    assert [(group.rows, group.incomplete) for group in whole.groups] == [(120, 0)]
    served.jobs.finalize(job)  # a second message
    assert figures(costs(served)) == figures(whole)


@pytest.mark.parametrize("kind", ["application/json", "text/csv; charset=utf-8", "text/markdown; charset=utf-8"])
def test_the_form_is_what_format_asks_for(served, kind):
    finished(served)
    form = {"application/json": "json", "text/csv; charset=utf-8": "csv"}.get(kind, "md")
    answer = served.http.get(f"/v1/costs?format={form}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    if form == "csv":
        (row,) = csv.DictReader(io.StringIO(answer.text))
        assert (row["dataset"], row["rows"], row["cost_usd"]) == ("rivers", "10", "0.01")
