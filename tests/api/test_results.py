"""Results over all systems: sorted by any figure, filtered, page by page."""

import random

import pytest

from api_server import rows
from ragassay.storage.runs import REPORT_FILE

METRICS = ["mrr", "faithfulness", "token_f1"]


def samples(n=130):
    """Rows of two systems with figures all different or missing; every seventh response of v2 failed."""
    drawn = random.Random(7)
    made = []
    for i, row in enumerate(rows(n)):
        question = {key: row.pop(key) for key in ("query_id", "query", "ground_truth_answer", "relevant_doc_ids")}
        kind = {"category": ("factual", "conceptual", None)[i % 3], "difficulty": ("easy", "hard")[i % 2]}
        v1 = {**row, "latency_ms": drawn.choice([None, 100.0, drawn.uniform(1, 1000)])}
        v2 = {
            **row,
            "latency_ms": drawn.uniform(1, 1000),
            "answer": f"HARBOUR {i} \u00c4rger" if i % 5 else "Elsewhere.",
        }
        if i % 7 == 0:
            v2 = {"error": "no answer within 30 s"}
        made.append({**question, **kind, "responses": {"v1": v1, "v2": v2}})
    return made


@pytest.fixture
def job(served):
    job = served.submit(samples(), metrics=METRICS)["id"]
    served.work()
    return job


def pages(served, job, limit=40, **parameters):
    """The rows of all pages as (system, query)."""
    found, cursor = [], None
    while True:
        asked = {**parameters, "limit": limit, **({"cursor": cursor} if cursor else {})}
        answer = served.http.get(f"/v1/jobs/{job}/results", params=asked)
        assert answer.status_code == 200, answer.text
        found += [(row["system"], row["query_id"]) for row in answer.json()["results"]]
        if not (cursor := answer.json()["next"]):
            return found


def everything(served, job):
    report = served.http.get(f"/v1/jobs/{job}/report").json()
    return [row for rows in report["results"].values() for row in rows]


def figure(row, name):
    return row["scores"][name]["value"] if name in row["scores"] else row[name]


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({"category": "factual"}, lambda row: row["category"] == "factual"),
        ({"difficulty": "hard", "system": "v1"}, lambda row: row["difficulty"] == "hard" and row["system"] == "v1"),
        ({"failed": "true"}, lambda row: row["error"] is not None),
        ({"failure": "response_failed"}, lambda row: row["error"] is not None),
        ({"failure": "unfaithful"}, lambda row: False),
        ({"where": "mrr<1"}, lambda row: (figure(row, "mrr") or 0) < 1 and figure(row, "mrr") is not None),
        (
            {"where": ["latency_ms>=100", "latency_ms <= 500.5"]},
            lambda row: row["latency_ms"] is not None and 100 <= row["latency_ms"] <= 500.5,
        ),
        ({"text": "\u00e4rger"}, lambda row: "\u00c4rger" in (row["answer"] or "")),
        (
            {"text": "harbour 1", "category": "conceptual"},
            lambda row: row["category"] == "conceptual" and "arbour 1" in str(row),
        ),
    ],
)
def test_results_are_filtered_on_the_server(served, job, parameters, wanted):
    rows = [(row["system"], row["query_id"]) for row in everything(served, job) if wanted(row)]
    assert pages(served, job, **parameters) == rows
    assert sorted(pages(served, job, sort="latency_ms", **parameters)) == sorted(rows)


def test_the_pages_of_a_running_job_repeat_nothing_and_miss_nothing_that_was_there(served):
    job = served.submit(samples(), metrics=METRICS)["id"]
    served.work(most=3)
    there = set(pages(served, job, sort="mrr"))
    first = served.http.get(f"/v1/jobs/{job}/results", params={"sort": "-latency_ms", "limit": 60}).json()
    served.work()
    rest = pages_after(served, job, first["next"], sort="-latency_ms")
    seen = [(row["system"], row["query_id"]) for row in first["results"]] + rest
    assert len(seen) == len(set(seen))
    assert there <= set(seen)


def pages_after(served, job, cursor, **parameters):
    found = []
    while cursor:
        page = served.http.get(f"/v1/jobs/{job}/results", params={**parameters, "cursor": cursor}).json()
        found += [(row["system"], row["query_id"]) for row in page["results"]]
        cursor = page["next"]
    return found


def test_the_columns_of_a_job_are_let_go_with_its_results(served, job):
    store = served.jobs.store
    of_report = tuple(f"ra:{{{job}}}:{name}".encode() for name in ("meta", REPORT_FILE))
    keys = [key for key in store.redis.scan_iter(f"ra:{{{job}}}:*") if key not in of_report]
    assert {b"texts", b"results", b"inputs"} <= {key.split(b":")[2] for key in keys}
    assert {key: store.redis.ttl(key) for key in keys if not 0 < store.redis.ttl(key) <= 30 * 86_400} == {}
