"""Reports and costs of jobs over HTTP: as files, with a tag, and for as long as they are kept."""

from xml.etree import ElementTree

import pytest

from api_server import rows
from ragassay.analysis.costs import CostReport
from ragassay.reporting import MEDIA_TYPES
from ragassay.service.redis import row_names

OPTIONS = {"metrics": ["correctness", "accurate"], "accurate": "correctness >= 0.5", "dataset": "rivers"}


@pytest.fixture(scope="module")
def job(server):
    server.jobs.store.redis.flushall()
    samples = [{**row, "query": f"=1+{n}"} for n, row in enumerate(rows(3))]
    job = server.submit(samples, metrics=["mrr", "token_f1"])["id"]
    server.work()
    return job


def fetched(server, job, **asked):
    answer = server.http.get(f"/v1/jobs/{job}/report", params=asked)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_report_comes_in_every_format_with_its_type_and_a_name_and_is_never_shown_in_place(server, job):
    for form, kind in MEDIA_TYPES.items():
        answer = fetched(server, job, format=form)
        assert answer.headers["content-type"] == kind
        stored = f'attachment; filename="{job}.{form}"'
        assert answer.headers.get("content-disposition") == (None if form == "json" else stored)
        assert len(answer.content) > 500
    assert len(ElementTree.fromstring(fetched(server, job, format="xml").content).findall(".//testcase")) == 3


def test_fields_choose_the_columns_and_no_text_is_a_formula(server, job):
    asked = {"fields": "query,mrr"}
    assert fetched(server, job, format="csv", **asked).text.splitlines()[:2] == ["query,mrr", "'=1+0,1.0"]
    assert fetched(server, job, **asked).json()["rows"][0] == {"query": "=1+0", "mrr": 1.0}


# --- costs ---


def finished(served, n=10, **more):
    """The id of a finished job; its rows cost 0.001 USD each, and all are accurate."""
    job = served.submit(rows(n, **more), **OPTIONS)["id"]
    served.work()
    return job


def costs(served, **parameters):
    answer = served.http.get("/v1/costs", params=parameters)
    assert answer.status_code == 200, answer.text
    return CostReport.model_validate(answer.json()).model_copy(update={"as_of": ""})


def test_the_figures_stay_when_the_rows_have_expired(served):
    job = finished(served)
    before = costs(served, by="category,system,day")
    store = served.jobs.store
    store.redis.delete(*(store.key(job, name) for name in row_names(store.state(job).record)))
    assert served.http.get(f"/v1/jobs/{job}/results").status_code == 404
    assert costs(served, by="category,system,day") == before
