"""Reports and costs of jobs over HTTP: as files, with a tag, and for as long as they are kept."""

from xml.etree import ElementTree

import pytest

from api_server import rows
from ragassay.reporting.files import MEDIA_TYPES


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
