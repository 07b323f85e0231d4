"""Lists are read page by page, each entry once, in an order that stays."""

import pytest

from api_server import problem, rows


def pages(served, path, **parameters):
    cursor = {}
    while True:
        answer = served.http.get(path, params={**parameters, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        (name,) = set(page) - {"next"}
        yield page[name]
        if page["next"] is None:
            return
        cursor = {"cursor": page["next"]}


@pytest.fixture
def many(served):
    return [served.submit(rows(1), metrics=["mrr"], name=f"job {n}")["id"] for n in range(120)]


def test_120_jobs_are_listed_once_each_newest_first(served, many):
    sizes, ids = [], []
    for page in pages(served, "/v1/jobs", limit=50):
        sizes.append(len(page))
        ids += [job["id"] for job in page]
    assert sizes == [50, 50, 20]
    assert sorted(ids) == sorted(many)
    created = [served.http.get(f"/v1/jobs/{job}").json()["created_at"] for job in ids]
    assert created == sorted(created, reverse=True)
    assert [len(page) for page in pages(served, "/v1/jobs", limit=60)] == [60, 60]
    assert [len(page) for page in pages(served, "/v1/jobs", limit=200)] == [120]
    assert [len(page) for page in pages(served, "/v1/jobs")] == [50, 50, 20]  # 50 is the usual size


def test_jobs_of_one_status_are_found_wherever_they_stand(served, many, monkeypatch):
    for job in (many[3], many[50], many[110]):
        served.http.post(f"/v1/jobs/{job}/cancel")
    ids = [job["id"] for page in pages(served, "/v1/jobs", status="cancelled") for job in page]
    assert sorted(ids) == sorted([many[3], many[50], many[110]])
    assert sum(len(page) for page in pages(served, "/v1/jobs", status="queued", limit=10)) == 117
    assert list(pages(served, "/v1/jobs", status="failed")) == [[]]
    monkeypatch.setattr("ragassay.service.jobs.MOST_LOOKED_AT", 25)
    looked = list(pages(served, "/v1/jobs", status="cancelled", limit=20))
    assert sorted(job["id"] for page in looked for job in page) == sorted(ids)
    assert len(looked) == 5  # 120 jobs, 25 looked at for each page


def test_records_that_are_gone_make_no_empty_page(served, many):
    store = served.jobs.store
    for job in many[:70]:
        store.redis.delete(store.key(job, "meta"))
    assert [len(page) for page in pages(served, "/v1/jobs", limit=50)] == [50]
    assert [entry.id for entry in served.jobs.reports.newest()] == many[:69:-1]


def test_results_that_were_let_go_are_said_to_be_gone(served):
    job = served.submit(rows(60), metrics=["mrr"])["id"]
    served.work()
    redis = served.jobs.store.redis
    assert 0 < redis.ttl(f"ra:{{{job}}}:results") <= 30 * 86_400
    redis.delete(f"ra:{{{job}}}:results")
    assert "30 days" in problem(served.http.get(f"/v1/jobs/{job}/results"), 404)["detail"]
    assert served.http.get(f"/v1/jobs/{job}/report").status_code == 200
