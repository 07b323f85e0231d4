"""A job's systems: recorded ones in its rows, by name, and those that the operator registered."""

import json

import pytest
import zstandard

from api_server import problem, rows, serving
from endpoint import CAPITAL, Endpoint
from ragassay.service.registered import Registered

METRICS = ["mrr", "faithfulness"]
QUESTIONS = [
    {
        "query_id": f"q{n}",
        "query": f"What is capital {n}?",
        "ground_truth_answer": "Paris.",
        "relevant_doc_ids": ["paris"],
    }
    for n in range(60)
]
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def register(tmp_path):
    """Registers the systems of a text, over a corpus of one document."""
    (tmp_path / "corpus.jsonl").write_text('{"id": "paris", "text": "Paris is the capital of France."}\n')

    def registered(text):
        (tmp_path / "systems.yaml").write_text(text)
        return Registered.read(tmp_path / "systems.yaml")

    return registered


def named(n=60):
    """Rows of which two systems have answered, one of them worse, and a third answered the first row only."""
    made = []
    for row in rows(n):
        question = {key: row.pop(key) for key in ("query_id", "query", "ground_truth_answer", "relevant_doc_ids")}
        worse = {**row, "retrieved_doc_ids": ["elsewhere", *question["relevant_doc_ids"]]}
        made.append({**question, "responses": {"v1": row, "v2": worse}})
    made[0]["responses"]["v3"] = made[0]["responses"]["v1"]
    return made


def test_a_job_has_as_many_recorded_systems_as_its_rows_name_and_one_may_be_the_baseline(served):
    gates = [{"metric": "mrr", "max_drop": 0.1}]
    job = served.submit(named(), metrics=METRICS, gates=gates, baseline="v1")
    assert (job["systems"], job["progress"]["rows"]) == (["v1", "v2", "v3"], 180)
    served.work()
    report = served.http.get(f"/v1/jobs/{job['id']}/report").json()
    means = {name: system["metrics"]["mrr"]["value"] for name, system in report["systems"].items()}
    # v1 finds it first and second in turn (0.75); v2 always second; v3 answered the first of 60 queries, with 1
    assert means == pytest.approx({"v1": 0.75, "v2": 0.5, "v3": 1 / 60})
    assert report["systems"]["v3"]["missing_from_run"] == 59
    results = served.http.get(f"/v1/jobs/{job['id']}/gates").json()["results"]
    assert {one["system"]: one["passed"] for one in results} == {"v1": True, "v2": False, "v3": False}
    body = {"samples": named(2), "gates": gates, "baseline": "v9"}
    assert problem(served.http.post("/v1/jobs", json=body), 404)["where"] == "baseline"


# --- registered systems ---


@pytest.fixture
def endpoint():
    with Endpoint() as system:
        yield system


@pytest.fixture
def operators(redis, endpoint, register, monkeypatch):
    """A service whose operator registered an endpoint with a key, and a retriever."""
    monkeypatch.setenv("RAG_TOKEN", "a-secret-of-the-operator")
    registered = register(f"""\
corpus: corpus.jsonl
systems:
  online:
    description: the assistant as it is online
    kind: http
    url: {endpoint.url}
    headers: {{Authorization: "Bearer ${{RAG_TOKEN}}"}}
    request: {{query: "{{query}}"}}
  bm25: {{kind: bm25, answer: extractive}}
""")
    with serving(redis.url, registered=registered) as served:
        served.jobs.store.redis.flushall()
        yield served


def test_a_job_asks_registered_systems_once_for_each_query_beside_recorded_ones(operators, endpoint):
    assert operators.http.get("/v1/systems").json()["systems"] == [
        {"name": "bm25", "kind": "bm25", "description": None},
        {"name": "online", "kind": "http", "description": "the assistant as it is online"},
    ]
    samples = [{**row, "responses": {"last-year": {"answer": "Lyon."}}} for row in QUESTIONS]
    job = operators.submit(samples, systems=["online", "bm25"], metrics=METRICS)
    assert job["systems"] == ["last-year", "online", "bm25"]
    operators.work()
    assert operators.http.get(f"/v1/jobs/{job['id']}").json()["status"] == "finished"
    report = operators.http.get(f"/v1/jobs/{job['id']}/report").json()
    assert sorted(body["query"] for body, _, _ in endpoint.asked) == sorted(row["query"] for row in QUESTIONS)
    assert {headers["Authorization"] for headers in endpoint.headers} == {"Bearer a-secret-of-the-operator"}
    online = report["systems"]["online"]
    assert (online["metrics"]["mrr"]["value"], online["latency_ms"]["n"]) == (1.0, 60)
    assert report["systems"]["bm25"]["metrics"]["mrr"]["value"] == 1.0
    everything = b"".join(_values(operators.jobs.store.redis)) + json.dumps(report).encode()
    assert b"What is capital 0?" in everything
    assert not [
        secret for secret in (b"a-secret-of-the-operator", b"Authorization", b"RAG_TOKEN") if secret in everything
    ]


def _values(redis):
    """All values in Redis, unpacked."""
    reads = {
        b"string": lambda key: [redis.get(key)],
        b"hash": redis.hvals,
        b"zset": lambda key: redis.zrange(key, 0, -1),
        b"set": redis.smembers,
        b"list": lambda key: redis.lrange(key, 0, -1),
    }
    for value in (value for key in redis.scan_iter("*") for value in reads[redis.type(key)](key)):
        packed = value.startswith(b"\x28\xb5\x2f\xfd")  # frames of a stream don't say how long they are
        yield zstandard.ZstdDecompressor().decompressobj().decompress(value) if packed else value


def test_a_system_is_asked_again_about_what_it_failed_on_alone(operators, endpoint, monkeypatch):
    samples = [{**row, "query": f"fails {n}" if n % 20 == 0 else row["query"]} for n, row in enumerate(QUESTIONS)]
    job = operators.submit(samples, systems=["online"], metrics=METRICS)["id"]
    operators.work()
    assert operators.http.get(f"/v1/jobs/{job}").json()["progress"]["failed"] == 3
    monkeypatch.setattr(endpoint, "reply", lambda request, _: endpoint.send(request, 200, json.dumps(CAPITAL).encode()))
    endpoint.asked.clear()
    assert operators.http.post(f"/v1/jobs/{job}/retry").status_code == 202
    operators.work()
    assert sorted(body["query"] for body, *_ in endpoint.asked) == ["fails 0", "fails 20", "fails 40"]
    online = operators.http.get(f"/v1/jobs/{job}/report").json()["systems"]["online"]
    assert (online["failed_responses"], online["metrics"]["mrr"]["n"]) == (0, 60)


def test_a_system_for_some_projects_is_unknown_to_the_others(redis, register):
    text = "corpus: corpus.jsonl\nsystems: {open: {kind: bm25}, inner: {kind: bm25, projects: [docs]}}\n"
    lines = "".join(json.dumps(row) + "\n" for row in QUESTIONS)
    job = {"systems": ["inner"], "metrics": ["mrr"]}
    plan = {"name": "nightly", "cron": "30 2 * * *", "job": {**job, "dataset": "questions"}}
    with serving(redis.url, registered=register(text)) as served:
        served.jobs.store.redis.flushall()
        for project, status, made, systems in (("search", 422, 422, ["open"]), ("docs", 202, 201, ["inner", "open"])):
            served.http.headers["X-Ragassay-Project"] = project
            assert [one["name"] for one in served.http.get("/v1/systems").json()["systems"]] == systems
            assert served.http.put("/v1/datasets/questions", content=lines, headers=NDJSON).status_code == 201
            asked = served.http.post("/v1/jobs", json={"samples": QUESTIONS, **job})
            planned = served.http.post("/v1/schedules", json=plan)
            assert (asked.status_code, planned.status_code) == (status, made), planned.text
            assert status == 202 or "inner" not in problem(asked, 422)["hint"]
        assert served.http.post("/v1/schedules/nightly/run").status_code == 202
        served.work()
        (run,) = served.http.get("/v1/schedules/nightly/runs").json()["runs"]
        assert (run["status"], run["reason"]) == ("finished", None)
        assert {job["status"] for job in served.http.get("/v1/jobs").json()["jobs"]} == {"finished"}


def test_a_registered_function_answers_in_the_worker_and_its_folder_is_not_shown(redis, register, tmp_path):
    code = "def ask(query):\n    return {'answer': 'Paris.', 'retrieved_doc_ids': ['paris']}\n"
    (tmp_path / "own.py").write_text(code)
    registered = register("systems: {own: {kind: python, function: 'own.py:ask'}}")
    registered.import_functions()
    with serving(redis.url, registered=registered) as served:
        job = served.submit(QUESTIONS, systems=["own"], metrics=METRICS)["id"]
        served.work()
        report = served.http.get(f"/v1/jobs/{job}/report").json()
    assert report["systems"]["own"]["metrics"]["mrr"]["value"] == 1.0
    assert report["provenance"]["systems"]["own"]["called"]["configuration"]["function"] == "own.py:ask"
    assert str(tmp_path) not in json.dumps(report)


@pytest.mark.parametrize(
    ("systems", "said"),
    [
        ({"own": {"kind": "http", "url": "http://169.254.169.254/latest"}}, "a job can't set this"),
        (["online", "online"], "system 'online' is there twice"),
        (["offline"], "unknown registered system 'offline'"),
    ],
)
def test_a_body_names_systems_and_brings_none(operators, endpoint, systems, said):
    document = problem(operators.http.post("/v1/jobs", json={"samples": QUESTIONS, "systems": systems}), 422)
    assert said in document["detail"]
    assert endpoint.asked == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("systems: {online: {kind: http, url: http://127.0.0.1:1/other}}", "has changed since the job was submitted"),
        (None, "the environment variable RAG_TOKEN is not set"),
    ],
)
def test_a_worker_asks_only_what_its_own_file_names_with_its_own_key(
    operators, endpoint, register, monkeypatch, text, said
):
    job = operators.submit(QUESTIONS, systems=["online"], metrics=METRICS)["id"]
    if text is None:
        monkeypatch.delenv("RAG_TOKEN")
    else:
        operators.jobs._chunks._registered = register(text)
    operators.work()
    ended = operators.http.get(f"/v1/jobs/{job}").json()
    assert (ended["status"], said in ended["error"]) == ("failed", True)
    assert endpoint.asked == []
