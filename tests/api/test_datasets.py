"""``/v1/datasets``: rows come in whole or not at all, and are what jobs name."""

import gzip
import json
import socket
from contextlib import ExitStack, contextmanager

import pytest

from api.projects import caller, keyed_server, made_key
from api_server import problem, rows, serving
from polling import until
from ragassay import load
from ragassay.api import uploads
from ragassay.core.settings import Settings

NDJSON, TEXT = {"Content-Type": "application/x-ndjson"}, {"Content-Type": "text/csv"}
CSV = "id,question,answer\nq1,When?,At 02:00.\nq2,Where?,In Kiel.\n"


def lines(samples):
    return "".join(json.dumps(row) + "\n" for row in samples)


def put(served, name, content, headers=NDJSON, **query):
    return served.http.put(f"/v1/datasets/{name}", content=content, headers=headers, params=query)


def left_behind(served, home):
    return [key for key in served.jobs.store.redis.keys("*") if b":new-" in key], list(home.glob("uploads/*"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def server(redis, home):
    """One server for all, so that its worker process starts once."""
    with serving(redis.url, Settings.model_construct(max_upload_bytes=200_000, home=home)) as served:
        yield served


def test_rows_that_are_uploaded_come_back_and_the_same_rows_are_the_same_version(served, home):
    first = put(served, "rivers", lines(rows(300)), description="Where rivers end")
    version = first.json()
    assert first.status_code == 201
    assert first.headers["location"] == f"/v1/datasets/rivers@{version['digest']}"
    assert (version["rows"], version["description"], version["warnings"]) == (300, "Where rivers end", [])
    again = put(served, "rivers", lines(rows(300)))
    assert (again.status_code, again.json()["digest"]) == (200, version["digest"])
    assert again.json()["created_at"] == version["created_at"] < again.json()["imported_at"]
    found, cursor = [], "0"
    while cursor:
        page = served.http.get("/v1/datasets/rivers/rows", params={"cursor": cursor, "limit": 70}).json()
        found += page["rows"]
        cursor = page["next"]
    assert load(found).samples == load(rows(300)).samples
    assert left_behind(served, home) == ([], [])


def test_columns_are_mapped_and_rows_as_we_write_them_are_not(served):
    mapped = put(served, "odd", "Frage,Antwort\nWann?,Nie.\n", TEXT, map=["query=Frage", "answer=Antwort"])
    assert mapped.json()["lineage"]["options"]["columns"] == {"query": "Frage", "answer": "Antwort"}
    assert served.http.get("/v1/datasets/odd/rows").json()["rows"] == [
        {"query_id": "q_0", "query": "Wann?", "response": {"answer": "Nie."}}
    ]
    ours = {"query_id": "a", "query": "?", "metadata": {"category": "no column"}}
    assert put(served, "ours", lines([ours]), columns="ours").status_code == 201
    assert served.http.get("/v1/datasets/ours/rows").json()["rows"] == [ours]
    refused = problem(put(served, "ours", lines([{**ours, "question": "?"}, ours, ours]), columns="ours"), 422)
    unread = problem(put(served, "odd", lines([{"user_question": "Who?"}])), 422)
    assert unread["hint"] == "name the columns: map query=user_question"
    assert refused["problems"] == [
        "ours.jsonl:1: question: is unknown",
        "ours.jsonl:3: query_id: 'a' is used already in ours.jsonl:2",
    ]
    assert "map[0]" in problem(put(served, "odd", CSV, TEXT, map=["query"]), 422)["detail"]


@pytest.mark.parametrize(
    ("headers", "content", "status", "said"),
    [
        ({}, "x", 415, "it has no Content-Type"),
        ({"Content-Type": "text/csv; charset=latin-1"}, CSV, 415, "latin-1"),
        ({**NDJSON, "Content-Encoding": "gzip"}, gzip.compress(b"x", mtime=0), 415, "encoded as 'gzip'"),
        (NDJSON, gzip.compress(b"x", mtime=0), 422, "is not UTF-8"),
        (NDJSON, " " * 200_001, 413, "larger than 200,000 bytes"),
        (NDJSON, (b" " * 50_000 for _ in range(5)), 413, "larger than 200,000 bytes"),
        (NDJSON, b'{"query": "\xff"}\n', 422, "rivers.jsonl:1: byte 0xff"),
        (NDJSON, '{"query":"a","metadata":' + "[" * 100_000, 422, "nested too deeply"),
        (NDJSON, "", 422, "nothing_to_evaluate"),
    ],
)
def test_a_body_that_can_not_be_taken_is_refused_and_nothing_is_stored(served, headers, content, status, said, home):
    assert said in json.dumps(problem(put(served, "rivers", content, headers), status))
    assert served.http.get("/v1/datasets").json() == {"datasets": [], "next": None}
    assert left_behind(served, home) == ([], [])


@contextmanager
def uploading(url, name, key="none"):
    """An upload that announces 100,000 bytes and sends its first lines."""
    host, port = url.removeprefix("http://").split(":")
    head = f"PUT /v1/datasets/{name} HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/csv\r\nContent-Length: 100000\r\n"
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(f"{head}Authorization: Bearer {key}\r\n\r\n{CSV}".encode())
        yield raw


def test_a_version_with_a_damaged_record_can_be_deleted(served):
    whole, damaged = (put(served, "torn", lines(rows(count))).json() for count in (3, 4))
    redis = served.jobs.store.redis
    (key,) = (key for key in redis.keys("*datasets:versions") if redis.hexists(key, f"torn/{damaged['digest']}.json"))
    for reference, status, deleted in (
        ("torn@0000000", 404, None),
        (f"torn@{damaged['digest'][:12]}", 200, []),
        ("torn", 200, [whole["digest"]]),
    ):
        redis.hset(key, f"torn/{damaged['digest']}.json", b"{")
        assert served.http.get("/v1/datasets/torn").status_code == 409
        answer = served.http.delete(f"/v1/datasets/{reference}")
        assert answer.status_code == status, answer.text
        if deleted is not None:
            assert [version["digest"] for version in answer.json()["deleted"]] == deleted
            assert not redis.hexists(key, f"torn/{damaged['digest']}.json")
    assert served.http.get("/v1/datasets/torn").status_code == 404


def test_an_upload_that_breaks_off_leaves_nothing(served, home):
    with uploading(served.url, "cut"):
        until(lambda: left_behind(served, home)[1])
    until(lambda: left_behind(served, home) == ([], []))
    assert served.http.get("/v1/datasets/cut").status_code == 404


def test_trickling_uploads_of_a_project_block_no_other(tmp_path):
    with keyed_server(home=tmp_path) as served, ExitStack() as opened:
        slow, fast = made_key(served, "slow").key, made_key(served, "fast").key
        for n in range(uploads.MAX_OF_A_PROJECT):
            opened.enter_context(uploading(served.url, f"slow{n}", slow))
        until(lambda: len(list(tmp_path.glob("uploads/*"))) == uploads.MAX_OF_A_PROJECT)
        with caller(served, slow) as http:
            problem(http.put("/v1/datasets/one-more", content=CSV, headers=TEXT), 503)
        with caller(served, fast) as http:
            assert http.put("/v1/datasets/rivers", content=CSV, headers=TEXT).status_code == 201


def test_a_job_names_a_dataset_and_gives_the_report_of_its_rows(served):
    put(served, "rivers", lines(rows(4)))
    version = put(served, "rivers", lines(rows(3))).json()
    named = (
        {"samples": rows(3), "dataset": "rivers"},
        {"dataset": "rivers"},
        {"dataset": f"rivers@{version['digest'][:7]}"},
    )
    submitted = [served.http.post("/v1/jobs", json={**one, "metrics": ["mrr", "token_f1"]}).json() for one in named]
    deleted = served.http.delete("/v1/datasets/rivers").json()["deleted"]
    assert [each["rows"] for each in deleted] == [3, 4]  # jobs that wait have copies of their rows
    served.work()
    first, *others = (served.http.get(f"/v1/jobs/{job['id']}/report").json() for job in submitted)
    assert first["provenance"]["dataset"]["rows"] == 3
    for report in others:
        assert report["provenance"]["dataset"] == first["provenance"]["dataset"]
        assert report["systems"]["default"]["metrics"] == first["systems"]["default"]["metrics"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"name": "rivers"}, 422, "name a stored dataset"),
        ({"dataset": "rivulets"}, 404, "PUT /v1/datasets/NAME"),
        ({"dataset": "my rivers"}, 422, "is not of the form NAME or NAME@VERSION"),
        ({"dataset": "questions"}, 422, "no row has a response"),
    ],
)
def test_a_job_that_names_no_rows_is_refused(served, body, status, said):
    put(served, "questions", lines([{"query": "?"}]))
    answer = served.http.post("/v1/jobs", json={**body, "metrics": ["mrr"]})
    assert said in json.dumps(problem(answer, status), ensure_ascii=False)


def test_submit_uploads_a_stored_version_once_whatever_its_size_and_names_it(
    served, cli, submit, tmp_path, monkeypatch
):
    monkeypatch.setattr("ragassay.api.bodies.MAX_BYTES", 100_000)
    large = [{**row, "metadata": {"notes": "x" * 1500}} for row in rows(100)]
    (tmp_path / "large.jsonl").write_text(lines(large))
    version = json.loads(cli("data", "import", tmp_path / "large.jsonl", "--json")[1])[0]
    with serving(served.jobs.store.url, Settings(), jobs=served.jobs) as small:
        code, out, err = submit(tmp_path / "large.jsonl", url=small.url)
        assert (code, "larger than 100,000 bytes" in err, "ragassay data import" in err) == (2, True, True)
        for reference in ("large", f"large@{version['digest'][:6]}"):
            code, out, err = submit(reference, "--metrics", "mrr", url=small.url)
            assert code == 0, err
    (there,) = served.http.get("/v1/datasets/large/versions").json()["datasets"]
    assert (there["digest"], there["created_at"]) == (version["digest"], there["imported_at"])  # it came once
    served.work()
    report = served.http.get(f"/v1/jobs/{out.strip()}/report").json()
    assert (report["provenance"]["dataset"]["name"], report["provenance"]["dataset"]["rows"]) == ("large", 100)


def test_submit_sends_labels_with_the_rows_of_a_stored_dataset(served, cli, submit, tmp_path):
    (tmp_path / "rivers.jsonl").write_text(lines(rows(3)))
    (tmp_path / "labels.csv").write_text("query_id,faithfulness\nq1,0.5\n")
    assert cli("data", "import", tmp_path / "rivers.jsonl")[0] == 0
    code, out, err = submit("rivers", "--set", f"labels={tmp_path / 'labels.csv'}", "--metrics", "faithfulness")
    assert code == 0, err
    served.work()
    results = served.http.get(f"/v1/jobs/{out.strip()}/results").json()["results"]
    assert [[one["scores"] for one in row["ratings"]] for row in results] == [[], [{"faithfulness": 0.5}], []]
