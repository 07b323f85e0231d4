"""Finished jobs beside each other and one after the other: the documents that the command line makes of the same rows."""

import json
import re
import threading

import httpx
import orjson
import pytest

from api_server import problem, rows
from polling import until
from ragassay.analysis.models import Comparison
from ragassay.service.job_reports import JobReports

METRICS = "mrr,recall@5,faithfulness,correctness,accurate"
UNKNOWN = "0" * 32


def worse(made):
    """The same questions; every answer and its contexts are about the next river, every document is found last."""
    bad = [{**row, "retrieved_doc_ids": sorted(row["retrieved_doc_ids"]), "cost_usd": 0.0005} for row in made]
    for row, other in zip(bad, [*made[1:], made[0]], strict=True):
        row["answer"] = other["answer"]
    return bad


@pytest.fixture
def two(served):
    """Two finished jobs about the same questions."""
    made = rows(30)
    options = {"metrics": METRICS.split(","), "dataset": "rivers", "accurate": "correctness >= 0.5"}
    jobs = [served.submit(each, **options)["id"] for each in (made, worse(made))]
    served.work()
    return jobs


def evaluated(cli, tmp_path, made, name):
    """The id of a run of the same rows on the command line."""
    (tmp_path / name).mkdir(exist_ok=True)
    file = tmp_path / name / "rivers.jsonl"
    file.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in made))
    code, out, err = cli("evaluate", file, "--metrics", METRICS, "--accurate", "correctness >= 0.5", "--json")
    assert code == 0, err
    return json.loads(out)["run"]["id"]


def renamed(document, *ids):
    """The text of a document with other ids for its runs: the first is A, the second B."""
    text = document if isinstance(document, str) else document.decode()
    for length in range(max(map(len, ids)), 14, -1):  # as names they are as short as tells them apart
        for name, one in zip("AB", ids, strict=False):
            text = text.replace(one[:length], name) if length <= len(one) else text
    return json.loads(re.sub(r'"created_at": *"[^"]+"', '"created_at": ""', text))


def test_a_comparison_of_jobs_is_the_document_of_the_command_line(served, cli, two, tmp_path):
    answer = served.http.post("/v1/comparisons", json={"jobs": two})
    assert answer.status_code == 200, answer.text
    comparison = Comparison.model_validate(answer.json())
    assert comparison.pairs[0].metrics["correctness"].outcome == "worse"
    assert comparison.pairs[0].matching.paired == 30

    runs = [evaluated(cli, tmp_path, made, name) for made, name in ((rows(30), "a"), (worse(rows(30)), "b"))]
    code, out, err = cli("compare", *runs, "--json")
    assert code == 0, err
    assert renamed(answer.content, *two) == renamed(out, *runs)


def test_every_option_of_a_comparison_takes_effect(served, two, cli):
    first, second = two
    body = {"jobs": [f"{first}#default", second], "baseline": f"{second}#default", "metrics": ["MRR", "correctness"]}
    body |= {"alpha": 0.01, "correction": "bonferroni", "limit": 1}
    answer = served.http.post("/v1/comparisons", json=body)
    comparison = Comparison.model_validate(answer.json())
    assert (comparison.baseline, comparison.metrics) == (second[:15], ("mrr", "correctness"))
    assert (comparison.alpha, comparison.correction) == (0.01, "bonferroni")
    examples = [count.examples for side in comparison.sides.values() for count in side.failures.causes.values()]
    assert [len(listed) for listed in examples] == [1] * len(examples) != []
    options = ["--baseline", f"{second}#default", "--metrics", "MRR,correctness", "--alpha", "0.01", "--limit", "1"]
    code, out, err = cli("compare", f"{first}#default", second, *options, "--correction", "bonferroni", "--json")
    assert (code, err) == (0, "")
    assert out.encode() == answer.content  # the same jobs, fetched and compared here


def test_a_run_can_be_compared_with_a_job(cli, two, tmp_path, served):
    run = evaluated(cli, tmp_path, rows(30), "a")
    code, out, err = cli("compare", run, two[1], "--json")
    assert (code, err) == (0, "")
    of_jobs = served.http.post("/v1/comparisons", json={"jobs": two}).content
    assert renamed(out, run, two[1]) == renamed(of_jobs, *two)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"jobs": ["A", UNKNOWN]}, 404, f"there is no job '{UNKNOWN}'"),
        ({"jobs": ["A", "QUEUED"]}, 409, "is queued and has no report"),
        ({"jobs": ["A", "CANCELLED"]}, 409, "is cancelled and has no report"),
        ({"jobs": ["A"]}, 422, "a comparison needs two systems, there is only 'rivers'"),
        ({"jobs": ["A", "A"]}, 422, "is chosen twice"),
        ({"jobs": ["A", "B#other"]}, 422, "unknown system 'other'"),
        ({"jobs": ["A", "B"], "baseline": "other"}, 422, "unknown baseline 'other'"),
        ({"jobs": ["A", "B"], "metrics": ["ndcg@3"]}, 422, "has no ndcg@3"),
        ({"jobs": ["A", "B"], "alpha": 1}, 422, "alpha: should be less than 1"),
        ({"jobs": ["A", "B"], "metric": ["mrr"]}, 422, "unknown key 'metric'"),
        ({"jobs": ["A"] * 21}, 422, "jobs: has more than 20 entries"),
    ],
)
def test_a_comparison_that_can_not_be_made_is_a_problem_that_says_why(served, two, body, status, said):
    queued, cancelled = (served.submit(rows(2), metrics=["mrr"])["id"] for _ in range(2))
    served.http.delete(f"/v1/jobs/{cancelled}")
    names = {"A": two[0], "B": two[1], "QUEUED": queued, "CANCELLED": cancelled}
    text = re.sub(r'"(A|B|QUEUED|CANCELLED)(#\w*)?"', lambda m: f'"{names[m[1]]}{m[2] or ""}"', json.dumps(body))
    headers = {"Content-Type": "application/json"}
    document = problem(served.http.post("/v1/comparisons", content=text, headers=headers), status)
    assert said in document["detail"]


def test_two_comparisons_are_made_at_a_time_and_others_are_answered_meanwhile(served, two, monkeypatch):
    at_work, most, free, compare = [], [], threading.Event(), JobReports.compare

    def slow(self, *given, **options):
        at_work.append(1)
        most.append(len(at_work))
        free.wait(20)
        at_work.pop()
        return compare(self, *given, **options)

    monkeypatch.setattr(JobReports, "compare", slow)
    body = {"jobs": two}
    answers = []

    def ask():
        answers.append(httpx.post(f"{served.url}/v1/comparisons", json=body, timeout=30, trust_env=False).status_code)

    askers = [threading.Thread(target=ask) for _ in range(5)]
    for asker in askers:
        asker.start()
    until(lambda: len(at_work) >= 2)
    assert served.http.get("/healthz").status_code == 200
    assert served.http.get(f"/v1/jobs/{two[0]}").status_code == 200
    assert served.http.post("/v1/jobs", json={"samples": rows(1)}).status_code == 202  # has a limit of its own
    free.set()
    for asker in askers:
        asker.join(30)
    assert (answers, max(most)) == ([200] * 5, 2)


# --- the command line, where a service may or may not know the name ---


def test_a_job_that_neither_side_knows_is_one_line_that_says_so(cli, two):
    code, out, err = cli("compare", two[0], UNKNOWN)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"there is no run '{UNKNOWN}'" in err
    assert "has no such job" in err


def test_where_no_service_answers_the_error_says_both(cli, tmp_path):
    code, out, err = cli("compare", UNKNOWN, "--server", "http://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert f"there is no run '{UNKNOWN}'" in err
    assert "no service answers at http://127.0.0.1:1" in err


def test_a_name_that_no_job_has_is_not_asked_for(cli):
    code, _, err = cli("compare", "lats", "--server", "http://127.0.0.1:1")
    assert (code, "service" in err) == (2, False)
    assert "there is no run 'lats'" in err


def test_a_job_under_way_says_so(cli, served):
    job = served.submit(rows(2), metrics=["mrr"])["id"]
    code, _, err = cli("compare", job)
    assert (code, "is queued and has no report" in err) == (2, True)


# --- trends ---


def test_a_trend_over_jobs_is_the_document_of_the_command_line(served, cli, tmp_path):
    made = [rows(6), worse(rows(6)), rows(6)]
    jobs = [
        served.submit(each, metrics=METRICS.split(","), dataset="rivers", accurate="correctness >= 0.5")["id"]
        for each in made
    ]
    served.work()
    answer = served.http.get("/v1/trends", params={"metric": "MRR"})
    assert answer.status_code == 200, answer.text
    points = answer.json()["systems"]["default"]["points"]
    assert [point["run"] for point in points] == jobs  # oldest first
    assert [point["value"] for point in points] == [0.75, 0.5, 0.75]  # found first by half or none, second by the rest

    runs = [evaluated(cli, tmp_path, each, f"f{n}") for n, each in enumerate(made)]
    code, out, err = cli("trend", "mrr", "--json")
    assert code == 0, err
    here, there = json.loads(out), answer.json()
    for document, ids in ((here, runs), (there, jobs)):
        for point in document["systems"]["default"]["points"]:
            point["run"], point["created_at"] = ids.index(point["run"]), ""
    assert here == there


def test_a_trend_follows_one_dataset_and_only_finished_jobs(served):
    made = {"a": rows(2), "b": rows(3)}
    ids = [served.submit(made[name], metrics=["mrr"], dataset=name)["id"] for name in ("a", "b", "a", "b", "a")]
    served.http.delete(f"/v1/jobs/{ids[2]}")
    served.work()
    served.submit(rows(2), metrics=["mrr"], dataset="c")

    def runs(**parameters):
        answer = served.http.get("/v1/trends", params={"metric": "mrr", **parameters})
        assert answer.status_code == 200, answer.text
        return [point["run"] for point in answer.json()["systems"]["default"]["points"]]

    assert runs() == [ids[0], ids[4]]  # of the newest finished job's dataset; the cancelled one is left out
    assert runs(dataset="b") == [ids[1], ids[3]]
    assert runs(dataset="b", last=1) == [ids[3]]
    assert runs(system="default", dataset="a") == [ids[0], ids[4]]
    served.jobs.store.redis.delete(*(f"ra:{{{ids[4]}}}:{name}" for name in ("report", "figures")))
    served.jobs.store.redis.delete(f"ra:{{{ids[3]}}}:meta")
    assert (runs(dataset="a"), runs(dataset="b")) == ([ids[0]], [ids[1]])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "metric: is missing"),
        ("metric=mrrr", "unknown metric 'mrrr'"),
        ("metric=mrr&last=0", "last: should be at least 1"),
        ("metric=mrr&dataset=none", "no finished run on dataset 'none'"),
        ("metric=mrr&system=none", "no finished run of system 'none'"),
    ],
)
def test_a_trend_that_there_is_not_is_a_problem_that_says_why(served, two, query, said):
    assert said in problem(served.http.get(f"/v1/trends?{query}"), 422)["detail"]
