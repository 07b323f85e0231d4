"""Finished jobs beside each other and one after the other: the documents that the command line makes of the same rows."""

import json
import re

import orjson
import pytest

from api_server import rows
from ragassay.analysis.models import Comparison

METRICS = "mrr,recall@5,faithfulness,correctness,accurate"


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
    code, out, err = cli("evaluate", file, "--metrics", METRICS, "--set", "accurate=correctness >= 0.5", "--json")
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


def test_a_run_can_be_compared_with_a_job(cli, two, tmp_path, served):
    run = evaluated(cli, tmp_path, rows(30), "a")
    code, out, err = cli("compare", run, two[1], "--json")
    assert (code, err) == (0, "")
    of_jobs = served.http.post("/v1/comparisons", json={"jobs": two}).content
    assert renamed(out, run, two[1]) == renamed(of_jobs, *two)


# --- the command line, where a service may or may not know the name ---


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
