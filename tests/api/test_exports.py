"""Reports and comparisons as files, over HTTP."""

import io
from xml.etree import ElementTree

import openpyxl
import pyarrow.parquet
import pytest

from api_server import rows
from ragassay.reporting import MEDIA_TYPES


@pytest.fixture(scope="module")
def job(server):
    server.jobs.store.redis.flushall()
    server.queue.sent.clear()
    job = server.submit([{**row, "query": f"=1+{n}"} for n, row in enumerate(rows(3))], metrics=["mrr", "token_f1"])[
        "id"
    ]
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
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert len(answer.content) > 500
    assert len(ElementTree.fromstring(fetched(server, job, format="xml").content).findall(".//testcase")) == 3


def test_fields_choose_the_columns_and_no_text_is_a_formula(server, job):
    asked = {"fields": "query,mrr"}
    assert fetched(server, job, format="csv", **asked).text.splitlines()[:2] == ["query,mrr", "'=1+0,1.0"]
    sheet = openpyxl.load_workbook(io.BytesIO(fetched(server, job, format="xlsx", **asked).content))["Rows"]
    assert [(cell.value, cell.data_type) for cell in sheet[2]] == [("=1+0", "s"), (1, "n")]
    table = pyarrow.parquet.read_table(io.BytesIO(fetched(server, job, format="parquet", **asked).content))
    assert table.to_pylist()[0] == {"query": "=1+0", "mrr": 1.0}
    assert fetched(server, job, **asked).json()["rows"][0] == {"query": "=1+0", "mrr": 1.0}


def test_each_form_has_a_tag_of_its_own(server, job):
    tags = [fetched(server, job, **asked).headers["etag"] for asked in ({}, {"format": "md"}, {"format": "csv"})]
    assert len(set(tags)) == 3
    again = server.http.get(f"/v1/jobs/{job}/report", params={"format": "md"}, headers={"If-None-Match": tags[1]})
    assert (again.status_code, again.content) == (304, b"")
