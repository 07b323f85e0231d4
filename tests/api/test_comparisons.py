"""Finished jobs beside each other and one after the other: the documents that the command line makes of the same rows."""

import json
import re

import orjson
import pytest

from api_server import rows

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


def test_a_run_can_be_compared_with_a_job(cli, two, tmp_path, served):
    run = evaluated(cli, tmp_path, rows(30), "a")
    code, out, err = cli("compare", run, two[1], "--json")
    assert (code, err) == (0, "")
    of_jobs = served.http.post("/v1/comparisons", json={"jobs": two}).content
    assert renamed(out, run, two[1]) == renamed(of_jobs, *two)
